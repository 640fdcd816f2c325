"""Finding records: which extents of the manifest and which parts of the tail hold what is asked for."""

from __future__ import annotations

import builtins
from collections.abc import Iterator

import msgspec
import pyarrow as pa

from millstream.log.batch import Limits
from millstream.log.entry import Extent, Part
from millstream.log.file.books import Books
from millstream.log.file.disk import Disk
from millstream.log.file.reader import Reader
from millstream.log.file.tail import Stretch, batch_of, stretches
from millstream.log.state import ShardKey, ShardRow
from millstream.log.state_log import Found
from millstream.log.stream import Settings, ShardInfo
from millstream.record import with_seqs

_EXTENTS_AT_ONCE = 64


class Plan(msgspec.Struct, frozen=True):
    """What to read, in order: extents, and stretches of the tail; nothing of it changes any more."""

    from_seq: int
    items: list[Extent | Stretch]
    marks: list[tuple[int, dict[str, int]]]  # from which seq on they hold
    end: int | None  # of the shard, if the plan goes that far


class Finder:
    """Finds records of a log whose books are up to date."""

    def __init__(self, disk: Disk, books: Books) -> None:
        """Take the books, and open no segment yet."""
        self.reader = Reader(disk)
        self._books = books

    def plan(self, key: ShardKey, from_seq: int, limits: Limits) -> Plan:
        """What to read from a seq on; call it with the books locked."""
        state, tail = self._books.state, self._books.tail
        row = state.shards.get(key, ShardRow())
        tail_first = tail.first(key, row.end)
        items: list[Extent | Stretch] = []
        marks: list[tuple[int, dict[str, int]]] = []
        if from_seq < tail_first:
            kepts, whole = self._books.manifest.extents(key, from_seq, _EXTENTS_AT_ONCE, limits.bytes)
            items += [kept.extent for kept in kepts if kept.extent.next > from_seq]
            marks = [(kept.extent.next, kept.marks) for kept in kepts]
            if not whole:
                return Plan(from_seq, items, marks, None)
        parts, whole = _first_parts(tail.from_seq(key, from_seq), from_seq, limits.records)
        for item in stretches(parts):
            items += item.extents if isinstance(item, Part) else [item]
        base = tail.marks.get(key, [(0, row.marks)])
        marks += [(max(seq, tail_first), known) for seq, known in base]
        return Plan(from_seq, items, marks, row.end if whole else None)

    def load(self, plan: Plan, limits: Limits, settings: Settings) -> Found:
        """Read what was planned, up to the limits."""
        found: list[pa.RecordBatch] = []
        records, size, seq = 0, 0, plan.from_seq
        cut = False
        for item in plan.items:
            batch = self._read(item, settings)
            each = max(1, _size(item) // max(1, batch.num_rows))
            first = int(batch.column(0)[0].as_py())
            if first < seq:
                batch = _from(batch, first, seq)
            room = min(limits.records - records, max(not found, (limits.bytes - size) // each))
            if batch.num_rows > room:
                batch, cut = batch.slice(0, room), True
            if batch.num_rows:
                found.append(batch)
                records += batch.num_rows
                size += batch.num_rows * each
                seq = int(batch.column(0)[batch.num_rows - 1].as_py()) + 1
            if cut or records >= limits.records or size >= limits.bytes:
                cut = cut or item is not plan.items[-1]
                break
        if not cut and plan.end is not None:
            seq = max(seq, plan.end)  # the manifest may be ahead of the tail: others fold at any time
        marks: dict[str, int] = {}
        for at, known in plan.marks:
            if at <= seq:
                marks = known
        return Found(tuple(found), seq, marks)

    def _read(self, item: Extent | Stretch, settings: Settings) -> pa.RecordBatch:
        if isinstance(item, Extent):
            return self.reader.read(item, settings.schema)
        return with_seqs(batch_of(item, settings), item[0].first)

    def time(self, key: ShardKey, row: ShardRow, timestamp: int, settings: Settings) -> int:
        """The seq of the first record that is not older; the end if there is none."""
        first = row.first
        while True:
            start, _ = self._books.manifest.extents(key, first, 1)
            begin = start[0].extent.first if start and start[0].extent.next > first else first
            kept = self._books.manifest.extent_of_time(key, begin, timestamp)
            if kept is None:
                break
            found = _first_not_older(self.reader.read(kept.extent, settings.schema), first, timestamp)
            if found is not None:
                return found
            first = max(first, kept.extent.next)
        for item in stretches(self._books.tail.from_seq(key, first)):
            for extent in item.extents if isinstance(item, Part) else [item]:
                found = _first_not_older(self._read(extent, settings), first, timestamp)
                if found is not None:
                    return found
        return row.end

    def bytes(self, key: ShardKey, row: ShardRow, size: int) -> int:
        """The first seq from which on a shard takes at most so many bytes."""
        first = row.end
        for seq, length in self._sizes(key):
            size -= length
            if size < 0:
                break
            first = seq
        return max(first, row.first)

    def _sizes(self, key: ShardKey) -> Iterator[tuple[int, int]]:
        """First seqs and sizes of what a shard is made of, the last one first."""
        for part in reversed(self._books.tail.from_seq(key, 0)):
            yield part.first, _part_size(part)
        for kept in self._books.manifest.extents_backwards(key):
            yield kept.extent.first, kept.extent.length

    def info(self, key: ShardKey, row: ShardRow, synced_position: int) -> ShardInfo:
        """What there is to say of a shard."""
        extents = [kept.extent for kept in self._books.manifest.extents_backwards(key)]
        extents = [extent for extent in extents if row.first < extent.next and extent.first < row.end]
        # The manifest may be ahead of the tail: others fold at any time.
        known = max((extent.next for extent in extents), default=row.first)
        parts = [part for part in self._books.tail.from_seq(key, 0) if part.next > known]
        spans: list[Part | Extent] = [*parts, *extents]
        return ShardInfo(
            shard=key[1],
            first=row.first,
            end=row.end,
            synced_end=self._books.tail.synced_ends(synced_position).get(key, row.end),
            records=sum(_alive(span, row) for span in spans),
            bytes=sum(_part_size(part) for part in parts) + sum(extent.length for extent in extents),
            batches=len(spans),
            oldest_ms=min((span.oldest for span in spans), default=None),
            newest_ms=max((span.newest for span in spans), default=None),
        )


def _first_parts(parts: list[Part], from_seq: int, count: int) -> tuple[list[Part], bool]:
    """As many parts as it takes for so many records, and whether these are all."""
    for number, part in enumerate(parts):
        if part.next - from_seq >= count:
            return parts[: number + 1], number + 1 == len(parts)
    return parts, True


def _from(batch: pa.RecordBatch, first: int, seq: int) -> pa.RecordBatch:
    """The records of a batch from a seq on."""
    last = batch.column(0)[batch.num_rows - 1].as_py()
    if last - first + 1 == batch.num_rows:
        return batch.slice(seq - first)
    return batch.slice(int(batch.column(0).to_numpy().searchsorted(seq)))


def _first_not_older(batch: pa.RecordBatch, from_seq: int, timestamp: int) -> int | None:
    seqs = batch.column(0).to_numpy()
    good = (batch.column(1).to_numpy() >= timestamp) & (seqs >= from_seq)
    return int(seqs[good.argmax()]) if good.any() else None


def _size(item: Extent | Stretch) -> int:
    return item.length if isinstance(item, Extent) else sum(_part_size(part) for part in item)


def _part_size(part: Part) -> int:
    data: builtins.bytes = part.rows or part.arrow or b""
    return len(data) + sum(extent.length for extent in part.extents)


def _alive(span: Part | Extent, row: ShardRow) -> int:
    """How many records of it lie in the shard; exact where there are no gaps."""
    count = span.count if isinstance(span, Extent) else span.next - span.first
    return min(count, min(span.next, row.end) - max(span.first, row.first))
