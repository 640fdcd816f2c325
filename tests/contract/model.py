"""A log as plain lists: what the stores must look like after the same calls."""

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from millstream.errors import Conflict, Fenced, MillstreamError, SeqPastEnd
from millstream.log import Append, Commit, Fence, Placed, Retention, Staged
from millstream.log.group import Place
from millstream.record import Record, Row

Errors = set[type[MillstreamError]]


@dataclass
class Shard:
    """Records with their seqs, and the marks that held from each end on."""

    first: int = 0
    end: int = 0
    records: list[tuple[int, Row]] = field(default_factory=list)
    marks: list[tuple[int, dict[str, int]]] = field(default_factory=lambda: [(0, {})])

    def append(self, part: list[Row]) -> tuple[int, int]:
        first = self.end
        self.records += enumerate(part, first)
        self.end += len(part)
        return first, self.end

    def mark(self, writer: str, progress: int | None) -> None:
        known = {name: seen for name, seen in self.marks[-1][1].items() if name != writer}
        if progress is not None:
            known[writer] = max(progress, self.marks[-1][1].get(writer, progress))
        self.marks.append((self.end, known))

    def cut(self, first: int) -> None:
        self.first = max(first, self.first)
        self.records = [(seq, row) for seq, row in self.records if seq >= self.first]

    def between(self, from_seq: int, to_seq: int) -> list[tuple[int, Row]]:
        return [(seq, row) for seq, row in self.records if from_seq <= seq < to_seq]


@dataclass
class Stream:
    value: pa.DataType | None
    retention: Retention
    shards: list[Shard]


@dataclass
class Known:
    """What is known of a fence."""

    run: int
    number: int = -1
    digest: bytes = b""
    position: bytes | None = None
    placed: tuple[Placed, ...] = ()


def rows_of(part: Append) -> list[Row]:
    """The rows of an append, however they are given."""
    if not isinstance(part.records, pa.RecordBatch):
        return [(timestamp, key, value, headers or ()) for timestamp, key, value, headers in part.records]
    return [(row["timestamp"], row["key"], row["value"], ()) for row in part.records.to_pylist()]


def seen(records: list[Record]) -> list[tuple[int, Row]]:
    """Records as the model has them."""
    return [(r.seq, (r.timestamp, r.key, r.value, r.headers)) for r in records]


class Model:
    """All that a log knows."""

    def __init__(self) -> None:
        self.streams: dict[str, Stream] = {}
        self.fences: dict[str, Known] = {}
        self.offsets: dict[str, dict[Place, int]] = {"g": {}, "h": {}}
        self.pins: dict[str, dict[Place, int]] = {}
        self.staged: dict[str, tuple[Staged, list[Row]]] = {}

    def shard(self, place: Place) -> Shard:
        return self.streams[place[0]].shards[place[1]]

    def places(self) -> list[Place]:
        return [
            (name, shard) for name in sorted(self.streams) for shard in range(len(self.streams[name].shards))
        ]

    def holds(self, place: Place) -> list[int]:
        """From which seqs on somebody still needs a shard."""
        holders = [*self.pins.values(), *self.offsets.values()]
        return [held[place] for held in holders if place in held]

    # -- commits

    def judge(self, commit: Commit) -> tuple[Errors, bool]:
        """Which errors may refuse a commit (none: it is applied), and whether it was done before."""
        errors: Errors = set()
        if commit.fence is not None:
            known = self.fences.get(commit.fence.name)
            if known is not None and _same(commit.fence, known):
                return set(), True
            if known is not None and (commit.fence.run != known.run or commit.fence.number <= known.number):
                errors.add(Fenced)
        for offset in commit.offsets:
            place = offset.stream, offset.shard
            own = sum(len(rows_of(part)) for part in commit.records if (part.stream, part.shard) == place)
            if offset.expected != self.offsets[offset.group].get(place):
                errors.add(Conflict)
            if offset.next > self.shard(place).end + own:
                errors.add(SeqPastEnd)
        for expect in commit.expect:
            if expect.seq != self.shard((expect.stream, expect.shard)).end:
                errors.add(Conflict)
        tokens = [staged.token for staged in commit.staged]
        if len(set(tokens)) < len(tokens) or not set(tokens) <= self.staged.keys():
            errors.add(Conflict)
        return errors, False

    def apply(self, commit: Commit) -> tuple[Placed, ...]:
        """A commit that nothing refuses; gives where it went."""
        parts = [((part.stream, part.shard), rows_of(part)) for part in commit.records]
        parts += [((one.stream, one.shard), self.staged.pop(one.token)[1]) for one in commit.staged]
        placed = tuple(Placed(*place, *self.shard(place).append(part)) for place, part in parts)
        for offset in commit.offsets:
            self.offsets[offset.group][offset.stream, offset.shard] = offset.next
        for mark in commit.marks:
            self.shard((mark.stream, mark.shard)).mark(mark.writer, mark.progress)
        if commit.fence is not None:
            fence = commit.fence
            self.fences[fence.name] = Known(fence.run, fence.number, fence.digest, fence.position, placed)
        return placed

    def take_over(self, name: str) -> int:
        known = self.fences.get(name, Known(0))
        self.fences[name] = Known(known.run + 1, position=known.position, placed=known.placed)
        return self.fences[name].run

    # -- what goes

    def delete(self, name: str) -> None:
        del self.streams[name]
        for held in (*self.offsets.values(), *self.pins.values()):
            for place in [place for place in held if place[0] == name]:
                del held[place]
        self.staged = {token: kept for token, kept in self.staged.items() if kept[0].stream != name}

    def retained_from(self, place: Place, now_ms: int) -> int:
        """The first seq that retention lets stay."""
        shard, retention = self.shard(place), self.streams[place[0]].retention
        first = shard.first
        if retention.records is not None:
            first = max(first, shard.end - retention.records)
        if retention.age_ms is not None:
            young = (seq for seq, row in shard.records if row[0] >= now_ms - retention.age_ms)
            first = max(first, next(young, shard.end))
        return max(shard.first, min([first, *self.holds(place)]))

    def compacted(self, place: Place, tombstones_before_ms: int) -> list[tuple[int, Row]]:
        """What compaction leaves when nobody holds anything."""
        records = self.shard(place).records
        last = {row[1]: seq for seq, row in records}
        return [
            (seq, row)
            for seq, row in records
            if row[1] is None
            or (last[row[1]] == seq and not (row[2] is None and row[0] < tombstones_before_ms))
        ]

    def may_go(self, place: Place, record: tuple[int, Row], tombstones_before_ms: int) -> bool:
        """Whether compaction may drop a record, as far as others may still need it."""
        shard = self.shard(place)
        end = min(self.holds(place), default=shard.end)
        seq, (timestamp, key, value, _) = record
        later = any(seq < other < end and row[1] == key for other, row in shard.records)
        old = value is None and timestamp < tombstones_before_ms
        return key is not None and seq < end and (later or old)


def _same(fence: Fence, known: Known) -> bool:
    return (fence.run, fence.number, fence.digest) == (known.run, known.number, known.digest)


def state_of(known: Known) -> tuple[Any, ...]:
    """A fence as it is compared."""
    return known.run, known.number, known.digest, known.position, known.placed
