"""The tail: what is in the journal and not yet in the manifest, as readers and the fold need it."""

from __future__ import annotations

import bisect
from typing import TypeAlias, TypeVar

import msgspec
import pyarrow as pa

from millstream.errors import Damaged
from millstream.log.entry import Changed, Committed, Entry, Extent, Part, Signed
from millstream.log.file.message import read_batch
from millstream.log.state import ShardKey, ShardRow, StagedRow, State, marked
from millstream.log.stream import Settings
from millstream.record import Headers, Row, rows_schema, rows_to_batch

T = TypeVar("T")
Stretch: TypeAlias = list[Part]  # parts that follow each other, all with their records in the journal

_ROWS = msgspec.msgpack.Decoder(list[tuple[Signed, bytes | None, bytes | None, Headers | None]])
_STAGED = msgspec.msgpack.Decoder(StagedRow)
_ENCODER = msgspec.msgpack.Encoder()


class Tail:
    """What came since the last fold."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.parts: dict[ShardKey, list[Part]] = {}
        self.marks: dict[ShardKey, list[tuple[int, dict[str, int]]]] = {}
        self.segments: set[str] = set()  # in which some of it lies
        self.unsynced: set[str] = set()  # those of them that were not synced since
        self.starts: list[tuple[int, Part]] = []  # where in the journal each part's frame begins
        self.entries = 0
        self.journal_bytes = 0
        self.segment_bytes = 0

    def add(self, entry: Entry, state: State, position: int) -> None:
        """Take an entry in before `state` applies it; `position` is where its frame begins."""
        self.entries += 1
        if isinstance(entry, Changed):
            self.unsynced.update(extent.segment for extent in extents_of(entry))
            return
        for part in entry.parts:
            if part.first == part.next:
                continue
            self.parts.setdefault((part.stream, part.shard), []).append(part)
            self.starts.append((position, part))
            for extent in part.extents:
                self.segments.add(extent.segment)
                self.unsynced.add(extent.segment)
                self.segment_bytes += extent.length
            self.journal_bytes += len(part.rows or part.arrow or b"")
        for stream, shard, writer, progress in entry.marks:
            key = stream, shard
            row = state.shards.get(key, ShardRow())
            known = self.marks.setdefault(key, [(0, row.marks)])
            ends = [part.next for part in entry.parts if (part.stream, part.shard) == key]
            end = max(ends, default=row.end)
            known.append((end, marked(known[-1][1], writer, progress)))

    def from_seq(self, key: ShardKey, seq: int) -> list[Part]:
        """The parts of a shard that hold this seq or later ones."""
        parts = self.parts.get(key, [])
        return parts[bisect.bisect_right(parts, seq, key=_next_of) :]

    def first(self, key: ShardKey, end: int) -> int:
        """Where the tail of a shard begins."""
        parts = self.parts.get(key)
        return parts[0].first if parts else end

    def marks_at(self, key: ShardKey, seq: int, now: dict[str, int]) -> dict[str, int]:
        """The newest marks at or before a seq that lies in the tail; `now` are the state's."""
        known = self.marks.get(key)
        if known is None:
            return now
        return known[bisect.bisect_right(known, seq, key=_seq_of) - 1][1]

    def synced_ends(self, position: int) -> dict[ShardKey, int]:
        """For the shards with parts past a position of the journal: where the first of those begins."""
        found: dict[ShardKey, int] = {}
        for start, part in reversed(self.starts):
            if start < position:
                break
            found[part.stream, part.shard] = part.first
        return found


def extents_of(entry: Entry) -> list[Extent]:
    """The batches that an entry names: a commit's, or those of records that are staged."""
    if isinstance(entry, Committed):
        return [extent for part in entry.parts for extent in part.extents]
    rows = [row for table, _, row in entry.rows if table == "staged" and row is not None]
    try:
        return [extent for row in rows for extent in _STAGED.decode(row).extents]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Damaged(f"entry {entry.id}: a row of staged records cannot be read: {error}") from error


def encode_rows(rows: list[Row] | tuple[Row, ...]) -> bytes:
    """Rows as the journal keeps them."""
    return _ENCODER.encode(rows)


def stretches(parts: list[Part]) -> list[Stretch | Part]:
    """Parts in order, those that follow each other and are kept in the journal put together."""
    found: list[Stretch | Part] = []
    for part in parts:
        last = found[-1] if found else None
        if part.extents:
            found.append(part)
        elif isinstance(last, list) and last[-1].next == part.first:
            last.append(part)
        else:
            found.append([part])
    return found


def batch_of(stretch: Stretch, settings: Settings) -> pa.RecordBatch:
    """The records of a stretch as one batch without seqs."""
    value_type = settings.value_type
    batches = []
    rows: list[Row] = []
    for part in stretch:
        if part.rows is not None:
            rows += _rows_of(part)
            continue
        if rows:
            batches.append(rows_to_batch(rows, value_type))
            rows = []
        batches.append(_batch_of(part, settings))
    if rows:
        batches.append(rows_to_batch(rows, value_type))
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _rows_of(part: Part) -> list[Row]:
    try:
        rows: list[Row] = _ROWS.decode(part.rows or b"")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Damaged(f"{_described(part)} cannot be read: {error}") from error
    return _counted(rows, len(rows), part)


def _batch_of(part: Part, settings: Settings) -> pa.RecordBatch:
    schema = rows_schema(settings.value_type)
    batch = read_batch(pa.py_buffer(part.arrow or b""), schema, _described(part), whole=True)
    return _counted(batch, batch.num_rows, part)


def _counted(records: T, count: int, part: Part) -> T:
    if count != part.next - part.first:
        raise Damaged(f"{_described(part)} are {count} records")
    return records


def _described(part: Part) -> str:
    place = f"stream number {part.stream}, shard {part.shard}"
    return f"the journal's seqs {part.first} to {part.next - 1} of {place}"


def _seq_of(mark: tuple[int, dict[str, int]]) -> int:
    return mark[0]


def _next_of(part: Part) -> int:
    return part.next
