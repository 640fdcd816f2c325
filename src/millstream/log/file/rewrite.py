"""Rewriting: small batches merged into large ones, and streams compacted to the latest of each key.

Both put new extents in the place of old ones by one transaction, after the new ones were synced. So
they may be killed at any moment, readers see the old or the new, and what is left is done next time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from millstream.errors import Damaged
from millstream.log.compaction import latest_seqs, survivors
from millstream.log.entry import Extent
from millstream.log.file.books import Books
from millstream.log.file.fold import BATCH_BYTES_MAX, BATCH_RECORDS_MAX, about
from millstream.log.file.manifest import Kept
from millstream.log.file.reader import Reader
from millstream.log.file.segment import Kind, Note, described
from millstream.log.file.segments import Segments
from millstream.log.state import ShardKey, ShardRow

_SMALL_BYTES = BATCH_BYTES_MAX // 2
_SMALL_RECORDS = BATCH_RECORDS_MAX // 2


class Rewriter:
    """Rewrites extents of a log; its methods are called alone, after a fold."""

    def __init__(self, books: Books, segments: Segments, reader: Reader) -> None:
        """Take what it reads and writes with."""
        self._books = books
        self._segments = segments
        self._reader = reader

    def small_run(self, key: ShardKey, from_seq: int) -> list[Kept]:
        """The next extents from a seq on that could be one; none if there are no two of them."""
        run: list[Kept] = []
        records = size = 0
        for kept in self._books.manifest.extents_from(key, from_seq):
            extent = kept.extent
            small = extent.length < _SMALL_BYTES and extent.count < _SMALL_RECORDS
            fits = records + extent.count <= BATCH_RECORDS_MAX and size + extent.length <= BATCH_BYTES_MAX
            if not small or not fits:
                if len(run) > 1:
                    return run
                run, records, size = [], 0, 0
            if small:
                run.append(kept)
                records += extent.count
                size += extent.length
        return run if len(run) > 1 else []

    def merge(self, key: ShardKey, run: Sequence[Kept]) -> set[str]:
        """Make one batch of a run; gives the segments in which an extent went."""
        batches = [self._read(key, kept.extent) for kept in run]
        return self._replace(key, run, pa.concat_batches(batches), run[-1].marks)

    def latest(self, key: ShardKey, end: int) -> pa.Array:
        """The seqs that compaction of a shard up to `end` must keep, tombstones among them."""
        return latest_seqs(self._left(key, kept.extent) for kept in self._compactable(key, end))

    def compact(
        self, key: ShardKey, end: int, latest: pa.Array, tombstones_before_ms: int
    ) -> tuple[int, set[str]]:
        """Drop what is not among the latest; gives how many records went, and the segments touched."""
        gone = 0
        touched: set[str] = set()
        for kept in list(self._compactable(key, end)):
            batch = self._left(key, kept.extent)
            left = batch.filter(survivors(batch, latest, tombstones_before_ms=tombstones_before_ms))
            if left.num_rows < batch.num_rows:
                gone += batch.num_rows - left.num_rows
                touched |= self._replace(key, [kept], left, kept.marks)
        return gone, touched

    def _compactable(self, key: ShardKey, end: int) -> Iterator[Kept]:
        """The extents of a shard that hold something of it, and lie wholly before `end`."""
        for kept in self._books.manifest.extents_from(key, self._first(key)):
            if kept.extent.next > end:
                return
            yield kept

    def _first(self, key: ShardKey) -> int:
        return self._books.state.shards.get(key, ShardRow()).first

    def _left(self, key: ShardKey, extent: Extent) -> pa.RecordBatch:
        """The records of an extent that were not trimmed."""
        batch = self._read(key, extent)
        return batch.slice(int(batch.column(0).to_numpy().searchsorted(self._first(key))))

    def _read(self, key: ShardKey, extent: Extent) -> pa.RecordBatch:
        state = self._books.state
        try:
            return self._reader.read(extent, state.streams[state.names[key[0]]].settings.schema)
        except FileNotFoundError as error:  # nobody else removes a segment meanwhile
            call = self._books.disk.repair_call
            raise Damaged(f"{described(extent)} is gone with its segment; run {call}") from error

    def _replace(
        self, key: ShardKey, old: Sequence[Kept], batch: pa.RecordBatch, marks: dict[str, int]
    ) -> set[str]:
        """Put one batch in the place of extents."""
        new = []
        if batch.num_rows:
            state = self._books.state
            first = batch.column(0)[0].as_py()
            note = Note(state.fact.history, state.id, 0, 1, key[1], first, Kind.REWRITE)
            extent = self._segments.write(about(state, key[0]), batch, note)
            self._segments.sync([extent.segment])
            new.append(Kept(extent, marks))
        extents = [kept.extent for kept in old]
        self._books.manifest.replace(key, extents, new)
        return {extent.segment for extent in extents}
