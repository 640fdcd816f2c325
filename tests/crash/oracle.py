"""What a log must show, worked out from what was done to it and nothing else."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from millstream.log.batch import Limits
from millstream.log.file.log import FileLog

Row: TypeAlias = tuple[int, bytes | None, Any, tuple[tuple[str, bytes | None], ...]]
Numbered: TypeAlias = tuple[int, Row]

COLUMNS = pa.struct([("item", pa.utf8()), ("price", pa.int64())])


@dataclass
class Shard:
    """Records with their seqs, and the marks of the shard's writers."""

    first: int = 0
    end: int = 0
    records: list[Numbered] = field(default_factory=list)
    marks: dict[str, int] = field(default_factory=dict)


@dataclass
class Stream:
    """A stream's shards."""

    columnar: bool
    compacted: bool
    shards: list[Shard]


@dataclass
class View:
    """All that can be seen of a log."""

    streams: dict[str, Stream] = field(default_factory=dict)
    offsets: dict[tuple[str, str, int], int] = field(default_factory=dict)
    fences: dict[str, tuple[int, int, bytes, bytes | None]] = field(default_factory=dict)
    pins: dict[str, dict[tuple[str, int], int]] = field(default_factory=dict)
    staged: dict[str, tuple[str, int, int]] = field(default_factory=dict)

    def copy(self) -> View:
        """The same, to go on with."""
        return copy.deepcopy(self)

    def places(self) -> list[tuple[str, int]]:
        """All shards."""
        return [(name, n) for name, stream in self.streams.items() for n in range(len(stream.shards))]


def view_of(log: FileLog) -> View:
    """What a log shows."""
    view = View()
    for name in log.streams():
        settings = log.settings(name)
        stream = Stream(settings.value is not None, settings.cleanup == "compact", [])
        for number, (first, end) in enumerate(log.ends(name)):
            shard = Shard(first, end)
            seq = first
            while True:
                batch = log.read(name, number, seq, Limits(records=1_000))
                shard.records += [(r.seq, (r.timestamp, r.key, r.value, r.headers)) for r in batch.records()]
                seq = batch.next_seq
                if seq >= end:
                    break
            shard.marks = {m.writer: m.progress for m in batch.marks if m.progress is not None}
            stream.shards.append(shard)
        view.streams[name] = stream
    state = log._books.state
    groups = {group for group, _, _ in state.offsets}
    view.offsets = {(g, *place): seq for g in groups for place, seq in log.offsets(g).items()}
    for name in state.fences:
        fence = log.fence(name)
        if fence is not None:
            view.fences[name] = (fence.run, fence.number, fence.digest, fence.position)
    names = state.names
    view.pins = {
        pin: {(names[stream], shard): seq for (stream, shard), seq in rows.items()}
        for pin, rows in state.pins.items()
    }
    view.staged = {token: (names[row.stream], row.shard, row.count) for token, row in state.staged.items()}
    return view


def difference(found: View, wanted: View) -> str:
    """The first thing in which two views differ."""
    for table in ("offsets", "fences", "pins", "staged"):
        if getattr(found, table) != getattr(wanted, table):
            return f"{table}: {getattr(found, table)} and not {getattr(wanted, table)}"
    if found.streams.keys() != wanted.streams.keys():
        return f"streams: {sorted(found.streams)} and not {sorted(wanted.streams)}"
    for name, stream in found.streams.items():
        other = wanted.streams[name]
        if len(stream.shards) != len(other.shards):
            return f"{name}: {len(stream.shards)} shards and not {len(other.shards)}"
        for number, (one, two) in enumerate(zip(stream.shards, other.shards, strict=True)):
            if one != two:
                return (
                    f"{name}/{number}: [{one.first}, {one.end}) of {len(one.records)} records, marks "
                    f"{one.marks}, and not [{two.first}, {two.end}) of {len(two.records)}, marks {two.marks}"
                )
    return "nothing"


def between(found: View, before: View, after: View) -> bool:
    """Whether a compaction that was under way leads from one view over this one to the other."""
    bare = found.copy()
    for name, stream in found.streams.items():
        if name not in before.streams or len(before.streams[name].shards) != len(stream.shards):
            return False
        for number, shard in enumerate(stream.shards):
            most = {seq for seq, _ in before.streams[name].shards[number].records}
            least = {seq for seq, _ in after.streams[name].shards[number].records}
            mine = {seq for seq, _ in shard.records}
            if not least <= mine <= most:
                return False
            rows = dict(before.streams[name].shards[number].records)
            if any(rows[seq] != row for seq, row in shard.records):
                return False
            bare.streams[name].shards[number].records = before.streams[name].shards[number].records
    return bare == before
