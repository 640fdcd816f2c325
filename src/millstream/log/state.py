"""The state of a log: tables of rows, changed only by applying entries, one after the other.

Every store has one, and judges what callers want against it; what differs between stores is where
the entries and the records are kept. Applying the same entries gives the same state anywhere.

>>> state = State()
>>> state.fences.set("sink", FenceRow(run=1, used_ms=0))
>>> state.fences.dirty, state.fences["sink"].number
({'sink'}, -1)
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from millstream.errors import Conflict, SeqPastEnd, UnknownStream, shown
from millstream.log.check import check_shard
from millstream.log.commit import Commit, FenceState, Mark, Placed
from millstream.log.entry import (
    Changed,
    Committed,
    Entry,
    Extent,
    Part,
    Signed,
    Whole,
    decode_type,
    encode_type,
)
from millstream.log.rules import NOTHING_YET, judge_expect, judge_fence, judge_offset
from millstream.log.stream import Settings

K = TypeVar("K")
R = TypeVar("R")
ShardKey: TypeAlias = tuple[Whole, Whole]  # stream, shard
Change: TypeAlias = tuple[str, bytes, bytes | None]  # table, key, row; None takes it away


class StreamRow(msgspec.Struct, frozen=True, array_like=True):
    """A stream; its number is never given to another."""

    id: Whole
    settings: Settings
    created_ms: Signed


class ShardRow(msgspec.Struct, frozen=True, array_like=True):
    """A shard holds seqs from `first` up to `end`; `marks` are its writers' newest."""

    first: Whole = 0
    end: Whole = 0
    marks: dict[str, Signed] = {}


class FenceRow(msgspec.Struct, frozen=True, array_like=True):
    """A name that commits once."""

    run: Signed
    used_ms: Signed
    number: Signed = NOTHING_YET
    digest: bytes = b""
    position: bytes | None = None
    placed: tuple[Placed, ...] = ()


class Member(msgspec.Struct, frozen=True, array_like=True):
    """A member of a group: what it reads, and until when (`Clock.uptime`) its lease runs."""

    streams: tuple[str, ...]
    until: float


class Owner(msgspec.Struct, frozen=True, array_like=True):
    """Who owns a shard (None: nobody now), and the generation that its offset commits must carry."""

    member: str | None
    generation: Whole


class GroupRow(msgspec.Struct, frozen=True, array_like=True):
    """A group that shares shards. Leases count only in the boot in which they were taken."""

    boot: str = ""
    members: dict[str, Member] = {}
    owners: dict[ShardKey, Owner] = {}


class StagedRow(msgspec.Struct, frozen=True, array_like=True):
    """Records that wait for a commit to name them; the extents count from seq 0."""

    stream: Whole
    shard: Whole
    count: Whole
    created_ms: Signed
    extents: tuple[Extent, ...] = ()


class CutRow(msgspec.Struct, frozen=True, array_like=True):
    """Where each shard ended when a history began: what lay beyond was taken back."""

    ends: dict[ShardKey, Whole]


class FactRow(msgspec.Struct, frozen=True, array_like=True):
    """The few things that there is only one of."""

    history: Whole = 0
    boot: str = ""
    next_stream: Whole = 0


class Table(dict[K, R], Generic[K, R]):
    """Rows by key, as they are kept: it knows which rows were touched since they were last saved."""

    def __init__(self, name: str, key: object, row: object) -> None:
        """Take the name it has in entries, and the types of keys and rows."""
        super().__init__()
        self.name = name
        self.dirty: set[K] = set()
        self._key = msgspec.msgpack.Decoder(key)
        self._row = msgspec.msgpack.Decoder(row, dec_hook=decode_type)

    def set(self, key: K, row: R | None) -> None:
        """Put a row in place of what was there; None takes it away."""
        self.dirty.add(key)
        if row is None:
            self.pop(key, None)
        else:
            self[key] = row

    def change(self, key: K, row: R | None) -> Change:
        """A row as a `Changed` entry has it."""
        return self.name, _ENCODER.encode(key), None if row is None else _ENCODER.encode(row)

    def changes(self) -> list[Change]:
        """All rows that were touched since they were last saved."""
        return [self.change(key, self.get(key)) for key in self.dirty]

    def key(self, data: bytes) -> K:
        """A key from what `change` made of it."""
        key: K = self._key.decode(data)
        return key

    def load(self, key: bytes, row: bytes | None) -> K:
        """Put an encoded row in place; gives its key. `msgspec.DecodeError` if it is none of ours."""
        try:
            decoded = self.key(key)
            self.set(decoded, None if row is None else self._row.decode(row))
        except UnicodeDecodeError as error:
            raise msgspec.DecodeError(f"a text in a row of '{self.name}' is none: {error}") from None
        return decoded


class Pending(msgspec.Struct, frozen=True):
    """Records of a commit that were checked and have no seqs yet."""

    stream: str
    shard: int
    records: Any  # rows, or an Arrow batch in the form without seqs
    count: int
    oldest: int
    newest: int


class State:
    """Everything a log knows but its records."""

    def __init__(self) -> None:
        """Empty, as before the first entry."""
        self.id = 0  # of the last entry applied
        self.streams: Table[str, StreamRow] = Table("streams", str, StreamRow)
        self.shards: Table[ShardKey, ShardRow] = Table("shards", ShardKey, ShardRow)
        self.fences: Table[str, FenceRow] = Table("fences", str, FenceRow)
        self.offsets: Table[tuple[str, int, int], int] = Table("offsets", tuple[str, Whole, Whole], Whole)
        self.groups: Table[str, GroupRow] = Table("groups", str, GroupRow)
        self.pins: Table[str, dict[ShardKey, int]] = Table("pins", str, dict[ShardKey, Whole])
        self.staged: Table[str, StagedRow] = Table("staged", str, StagedRow)
        self.cuts: Table[int, CutRow] = Table("cuts", Whole, CutRow)
        self.facts: Table[str, FactRow] = Table("facts", str, FactRow)
        tables = (self.streams, self.shards, self.fences, self.offsets, self.groups)
        more = (self.pins, self.staged, self.cuts, self.facts)
        self.tables: dict[str, Table[Any, Any]] = {table.name: table for table in (*tables, *more)}
        self.names: dict[int, str] = {}  # of streams, by number

    # -- asking

    @property
    def fact(self) -> FactRow:
        """The few things that there is only one of."""
        return self.facts.get("log") or FactRow()

    def stream(self, name: str) -> StreamRow:
        """A stream; `UnknownStream` with the names that are like it."""
        row = self.streams.get(name) if isinstance(name, str) else None
        if row is None:
            like = difflib.get_close_matches(str(name), self.streams, 3, 0.6)
            known = ", ".join(like or sorted(self.streams)[:10]) or "none yet"
            what = "did you mean" if like else "the log's streams are"
            raise UnknownStream(f"there is no stream {shown(name)}: {what} {known}. `create` makes a stream")
        return row

    def shard(self, name: str, shard: int) -> tuple[ShardKey, ShardRow]:
        """A shard of a stream, checked."""
        row = self.stream(name)
        check_shard(name, shard, row.settings.shards)
        key = row.id, shard
        return key, self.shards.get(key, _NEW_SHARD)

    def fence(self, name: str) -> FenceState | None:
        """What is known of a fence's name."""
        row = self.fences.get(name)
        if row is None:
            return None
        return FenceState(name, row.run, row.number, row.digest, row.position, row.placed)

    def generation(self, group: str, key: ShardKey) -> int:
        """The generation that a group's offset commits for a shard must carry."""
        row = self.groups.get(group)
        owner = row and row.owners.get(key)
        return owner.generation if owner else 0

    def holds(self, key: ShardKey) -> Iterator[tuple[str, int]]:
        """Who has not finished with a shard, and from which seq on."""
        for name, seqs in self.pins.items():
            if key in seqs:
                yield f"pin '{name}'", seqs[key]
        for (group, stream, shard), seq in self.offsets.items():
            if (stream, shard) == key:
                yield f"group '{group}'", seq

    def shared_end(self, key: ShardKey, history: int) -> int | None:
        """Where a history and the present one part ways in a shard; None: nowhere."""
        ends = [cut.ends.get(key, 0) for number, cut in self.cuts.items() if number > history]
        return min(ends, default=None)

    def rows_without(self, name: str) -> list[Change]:
        """The rows that take a stream away, with all that belongs to it."""
        number = self.stream(name).id
        rows = [self.streams.change(name, None)]
        rows += [self.shards.change(key, None) for key in self.shards if key[0] == number]
        rows += [self.offsets.change(key, None) for key in self.offsets if key[1] == number]
        rows += [
            self.staged.change(token, None) for token, row in self.staged.items() if row.stream == number
        ]
        rows += [
            self.pins.change(pin, {key: seq for key, seq in seqs.items() if key[0] != number} or None)
            for pin, seqs in self.pins.items()
            if any(key[0] == number for key in seqs)
        ]
        for group, row in self.groups.items():
            owners = {key: owner for key, owner in row.owners.items() if key[0] != number}
            if len(owners) < len(row.owners):
                rows.append(self.groups.change(group, msgspec.structs.replace(row, owners=owners)))
        return rows

    # -- judging

    def judge(self, commit: Commit, pending: Sequence[Pending], at_ms: int) -> Committed | None:
        """The entry that the commit becomes, its parts still without records.

        None: its fence shows that it was done before. Raises what the rules say if it is refused.
        """
        if commit.fence is not None and not judge_fence(commit.fence, self.fence(commit.fence.name)):
            return None
        offsets = self._judge_offsets(commit, pending) if commit.offsets else ()
        for expect in commit.expect:
            judge_expect(expect, self.shard(expect.stream, expect.shard)[1].end)
        ends: dict[ShardKey, int] = {}
        parts, placed, tokens = [], [], []
        for append in pending:
            key, row = self.shard(append.stream, append.shard)
            first = ends.get(key, row.end)
            ends[key] = end = first + append.count
            placed.append(Placed(append.stream, append.shard, first, end))
            parts.append(Part(*key, first, end, append.oldest, append.newest))
        for staged in commit.staged:
            key, row = self.shard(staged.stream, staged.shard)
            known = None if staged.token in tokens else self.staged.get(staged.token)
            if known is None or (known.stream, known.shard) != key:
                raise Conflict(
                    f"the staged records {staged.token!r} of stream '{staged.stream}', "
                    f"shard {staged.shard} are not there: they were committed before, or swept a day after "
                    "they were staged; stage them again"
                )
            tokens.append(staged.token)
            first = ends.get(key, row.end)
            ends[key] = end = first + known.count
            placed.append(Placed(staged.stream, staged.shard, first, end))
            parts.append(_published(key, known, first))
        return Committed(
            self.id + 1,
            at_ms,
            tuple(parts),
            tuple(placed),
            commit.fence,
            offsets,
            tuple(self._mark(mark) for mark in commit.marks),
            tuple(tokens),
        )

    def _judge_offsets(
        self, commit: Commit, pending: Sequence[Pending]
    ) -> tuple[tuple[str, int, int, int], ...]:
        found = []
        for offset in commit.offsets:
            key, row = self.shard(offset.stream, offset.shard)
            current = self.offsets.get((offset.group, *key))
            judge_offset(offset, current, self.generation(offset.group, key))
            own = sum(p.count for p in pending if (p.stream, p.shard) == (offset.stream, offset.shard))
            if offset.next > row.end + own:
                raise SeqPastEnd(
                    f"group '{offset.group}': offset {offset.next} lies past the end of stream "
                    f"'{offset.stream}', shard {offset.shard}, which is {row.end}; commit what was read",
                    end=row.end,
                )
            found.append((offset.group, *key, offset.next))
        return tuple(found)

    def _mark(self, mark: Mark) -> tuple[int, int, str, int | None]:
        key, _ = self.shard(mark.stream, mark.shard)
        return *key, mark.writer, mark.progress

    # -- applying

    def apply(self, entry: Entry) -> None:
        """Go on to the state after an entry."""
        self.id = entry.id
        if isinstance(entry, Changed):
            for table, key, row in entry.rows:
                self.load(table, key, row)
        else:
            self._apply_commit(entry)

    def keys_of(self, entry: Changed) -> Iterator[tuple[str, Any]]:
        """The tables and keys of the rows that an entry has changed."""
        for table, key, _ in entry.rows:
            yield table, self.tables[table].key(key)

    def load(self, table: str, key: bytes, row: bytes | None) -> None:
        """Put an encoded row in place. `msgspec.DecodeError` if it is none of ours."""
        if table not in self.tables:
            raise msgspec.ValidationError(f"a log's state has no table {shown(table)}")
        self.tables[table].load(key, row)
        if table == self.streams.name:
            self.names = {stream.id: name for name, stream in self.streams.items()}

    def _apply_commit(self, entry: Committed) -> None:
        for part in entry.parts:
            key = part.stream, part.shard
            row = self.shards.get(key, _NEW_SHARD)
            self.shards.set(key, ShardRow(row.first, part.next, row.marks))
        if entry.fence is not None:
            fence = entry.fence
            self.fences.set(
                fence.name,
                FenceRow(fence.run, entry.at_ms, fence.number, fence.digest, fence.position, entry.placed),
            )
        for group, stream, shard, seq in entry.offsets:
            self.offsets.set((group, stream, shard), seq)
        for stream, shard, writer, progress in entry.marks:
            row = self.shards.get((stream, shard), _NEW_SHARD)
            self.shards.set(
                (stream, shard), ShardRow(row.first, row.end, marked(row.marks, writer, progress))
            )
        for token in entry.staged:
            self.staged.set(token, None)


def marked(marks: dict[str, int], writer: str, progress: int | None) -> dict[str, int]:
    """Marks after one more: a writer's progress never goes back, and None is its last word."""
    if progress is None:
        return {name: known for name, known in marks.items() if name != writer}
    return {**marks, writer: max(progress, marks.get(writer, progress))}


def _published(key: ShardKey, row: StagedRow, first: int) -> Part:
    """Staged records with the seqs that a commit gives them."""
    extents = tuple(
        msgspec.structs.replace(extent, first=first + extent.first, next=first + extent.next)
        for extent in row.extents
    )
    oldest = min((extent.oldest for extent in extents), default=0)
    newest = max((extent.newest for extent in extents), default=0)
    return Part(*key, first, first + row.count, oldest, newest, extents=extents)


_NEW_SHARD = ShardRow()
_ENCODER = msgspec.msgpack.Encoder(enc_hook=encode_type)
