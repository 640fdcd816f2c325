"""What happened, as every process reported it, and whether a log that keeps its word allows that.

All of it is pure: a `History` goes in, and every `Anomaly` comes out.

>>> kept = {("orders", 0): [Kept(0, Id("ann", 1, 0))]}
>>> acked = [Acked("ann", 1, "orders", 0, seq=0, number=0), Acked("ann", 1, "orders", 0, seq=1, number=1)]
>>> [anomaly.kind for anomaly in check(History({"ann.1": acked}, kept, exact=frozenset({"ann"})))]
['lost']
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias, TypeVar
from zlib import crc32

import msgspec

Place: TypeAlias = tuple[str, int]  # stream, shard
T = TypeVar("T")


class Id(NamedTuple):
    """A record's own name: which part, of so many, of a writer's n-th commit.

    `run` tells the process that wrote it from those before it under the same name.
    """

    writer: str
    run: int
    number: int
    part: int = 0
    parts: int = 1


class Kept(NamedTuple):
    """A record as it is in the log in the end."""

    seq: int
    id: Id
    key: bytes | None = None


class Output(NamedTuple):
    """A record that an exactly-once reader made of another: where that one was, and which it was."""

    stream: str
    shard: int
    seq: int
    id: Id


class Started(msgspec.Struct, frozen=True, tag="started"):
    """A process has opened the log."""


class Acked(msgspec.Struct, frozen=True, tag="acked"):
    """The log acknowledged these parts of a commit, at these seqs."""

    writer: str
    run: int
    stream: str
    shard: int
    seq: int  # of the first part
    number: int
    part: int = 0  # the first of them
    count: int = 1
    parts: int = 1  # of the whole commit

    def kept(self) -> Iterator[Kept]:
        """The records that should be there."""
        for step in range(self.count):
            name = Id(self.writer, self.run, self.number, self.part + step, self.parts)
            yield Kept(self.seq + step, name)


class Delivered(msgspec.Struct, frozen=True, tag="delivered"):
    """A member of a group was given the records from `first` up to `next`."""

    group: str
    member: str
    generation: int
    stream: str
    shard: int
    first: int
    next: int
    digest: int  # of what they were


class Moved(msgspec.Struct, frozen=True, tag="moved"):
    """The log acknowledged a group's offset."""

    group: str
    stream: str
    shard: int
    next: int


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """Something went wrong that should not have."""

    what: str


Event: TypeAlias = Started | Acked | Delivered | Moved | Failed


class History(msgspec.Struct, frozen=True):
    """All there is to judge."""

    reports: Mapping[str, Sequence[Event]]  # of each process, in its order
    kept: Mapping[Place, Sequence[Kept]]  # what the log holds in the end
    outputs: Mapping[Place, Sequence[Output]] = {}
    offsets: Mapping[tuple[str, str, int], int] = {}  # group, stream, shard
    exact: frozenset[str] = frozenset()  # writers whose numbers go on from run to run, each written once
    once: frozenset[str] = frozenset()  # groups whose records become outputs
    repeat: frozenset[str] = frozenset()  # groups whose records may come again
    compacted: frozenset[str] = frozenset()  # streams of which only the latest of each key is kept


class Anomaly(NamedTuple):
    """What must not be."""

    kind: str
    what: str


def check(history: History) -> list[Anomaly]:
    """Everything that is wrong."""
    return [anomaly for rule in RULES for anomaly in rule(history)]


def digest(kept: Iterable[tuple[int, Id]]) -> int:
    """A number that tells these records from others."""
    crc = 0
    for seq, name in kept:
        crc = crc32(f"{seq} {name}\n".encode(), crc)
    return crc


# -- what was written


def failures(history: History) -> Iterator[Anomaly]:
    """A process failed for another reason than being killed."""
    for process, events in history.reports.items():
        for event in events:
            if isinstance(event, Failed):
                yield Anomaly("failed", f"{process}: {event.what}")


def disorder(history: History) -> Iterator[Anomaly]:
    """The seqs of a shard rise; by one, unless the stream is compacted."""
    for place, kept in history.kept.items():
        for before, after in pairwise([-1, *(record.seq for record in kept)]):
            if after <= before:
                yield Anomaly("disorder", f"{place}: seq {after} follows {before}")
            elif after > before + 1 and place[0] not in history.compacted:
                yield Anomaly("hole", f"{place}: seq {after} follows {before}")


def lost(history: History) -> Iterator[Anomaly]:
    """What was acknowledged is where the log said it was; or, if compacted, a later one of its key is."""
    for place, kept in history.kept.items():
        by_seq = {record.seq: record.id for record in kept}
        end = kept[-1].seq + 1 if kept else 0
        for event in _of_kind(history, Acked):
            if (event.stream, event.shard) != place:
                continue
            for record in event.kept():
                found = by_seq.get(record.seq)
                gone = found is None and place[0] in history.compacted and record.seq < end
                if found != record.id and not gone:
                    yield Anomaly(
                        "lost", f"{place} seq {record.seq}: {record.id} was acknowledged, not {found}"
                    )
    known = {*history.kept}
    for event in _of_kind(history, Acked):
        if (event.stream, event.shard) not in known:
            yield Anomaly("lost", f"{event}: there is no such shard")


def duplicated(history: History) -> Iterator[Anomaly]:
    """No record is there twice; of a writer of names, no number."""
    seen: Counter[tuple[str, int, int, int]] = Counter()
    for place, kept in history.kept.items():
        for record in kept:
            name = record.id
            run = 0 if name.writer in history.exact else name.run
            same = name.writer, run, name.number, name.part
            seen[same] += 1
            if seen[same] == 2:
                yield Anomaly("duplicated", f"{place} seq {record.seq}: {name} is there already")


def reordered(history: History) -> Iterator[Anomaly]:
    """In a shard the records of a writer are in the order in which it wrote them."""
    for place, kept in history.kept.items():
        last: dict[str, tuple[int, ...]] = {}
        for record in kept:
            name = record.id
            exact = name.writer in history.exact
            rank = (name.number, name.part) if exact else (name.run, name.number, name.part)
            if rank < last.get(name.writer, rank):
                yield Anomaly("reordered", f"{place} seq {record.seq}: {name} after {last[name.writer]}")
            last[name.writer] = rank


def gaps(history: History) -> Iterator[Anomaly]:
    """There is no number missing before the last one that is there; and no part of a commit."""
    numbers: dict[tuple[str, int], set[int]] = defaultdict(set)
    parts: dict[tuple[str, int, int], list[Id]] = defaultdict(list)
    for place, kept in history.kept.items():
        if place[0] in history.compacted:
            continue
        for record in kept:
            name = record.id
            run = 0 if name.writer in history.exact else name.run
            numbers[name.writer, run].add(name.number)
            if name.parts > 1:
                parts[name.writer, run, name.number].append(name)
    for (writer, run), found in numbers.items():
        missing = sorted(set(range(max(found) + 1)) - found)
        if missing:
            yield Anomaly("gap", f"{writer} run {run}: no {missing[:5]}, and there is {max(found)}")
    for commit, names in parts.items():
        there = {name.part for name in names}
        if len(there) < names[0].parts:
            yield Anomaly("torn", f"{commit}: {len(there)} of {names[0].parts} parts")


# -- what was read


def phantoms(history: History) -> Iterator[Anomaly]:
    """What was delivered is what the log holds there."""
    for place, kept in history.kept.items():
        for event in _of_kind(history, Delivered):
            if (event.stream, event.shard) == place:
                there = [(record.seq, record.id) for record in kept[event.first : event.next]]
                if digest(there) != event.digest:
                    yield Anomaly("phantom", f"{event}: the log holds {len(there)} other records there")


def unseen(history: History) -> Iterator[Anomaly]:
    """Every record was delivered to every group."""
    for group in history.once | history.repeat:
        for place in {(event.stream, event.shard) for event in _of_kind(history, Delivered)}:
            seen = sorted(
                (event.first, event.next)
                for event in _of_kind(history, Delivered)
                if event.group == group and (event.stream, event.shard) == place
            )
            upto = 0
            for first, after in seen:
                if first > upto:
                    break
                upto = max(upto, after)
            kept = history.kept.get(place, ())
            if kept and upto <= kept[-1].seq:
                yield Anomaly(
                    "unseen", f"{group} {place}: delivered up to {upto}, which ends at {kept[-1].seq}"
                )


def shared(history: History) -> Iterator[Anomaly]:
    """A generation of a shard has one owner."""
    owners: dict[tuple[str, str, int, int], str] = {}
    for event in _of_kind(history, Delivered):
        owner = owners.setdefault((event.group, event.stream, event.shard, event.generation), event.member)
        if owner != event.member:
            yield Anomaly("shared", f"{event}: {owner} was given records in that generation")


def went_back(history: History) -> Iterator[Anomaly]:
    """As long as a process owns a shard, it is given each record once."""
    for process, events in history.reports.items():
        upto: dict[tuple[str, str, int, int], int] = {}
        for event in events:
            if isinstance(event, Delivered) and event.group in history.repeat:
                owned = event.group, event.stream, event.shard, event.generation
                if event.first < upto.get(owned, 0):
                    yield Anomaly("went back", f"{process}: {event} after {upto[owned]}")
                upto[owned] = event.next


def offsets(history: History) -> Iterator[Anomaly]:
    """An offset lies no further than was delivered, and what was acknowledged is not forgotten."""
    delivered: dict[tuple[str, str, int], int] = {}
    for event in _of_kind(history, Delivered):
        place = event.group, event.stream, event.shard
        delivered[place] = max(event.next, delivered.get(place, 0))
    for moved in _of_kind(history, Moved):
        place = moved.group, moved.stream, moved.shard
        if moved.next > delivered.get(place, 0):
            yield Anomaly("beyond", f"{moved}: delivered up to {delivered.get(place, 0)}")
        if moved.next > history.offsets.get(place, 0):
            yield Anomaly("forgotten", f"{moved}: the offset is {history.offsets.get(place)}")
    for place, offset in history.offsets.items():
        if offset > delivered.get(place, 0):
            yield Anomaly("beyond", f"{place}: offset {offset}, delivered up to {delivered.get(place, 0)}")


def outputs(history: History) -> Iterator[Anomaly]:
    """Of each record before the offset there is one output, and none of those after it."""
    made: set[tuple[str, int, int]] = set()
    for out, found in history.outputs.items():
        last: dict[Place, int] = {}
        for output in found:
            source = output.stream, output.shard
            where = (*source, output.seq)
            kept = history.kept.get(source, ())
            if output.seq >= len(kept) or kept[output.seq].id != output.id:
                yield Anomaly("false output", f"{out}: {output} is of nothing that was committed")
            if where in made:
                yield Anomaly("output twice", f"{out}: {output}")
            elif output.seq < last.get(source, 0):
                yield Anomaly("output reordered", f"{out}: {output} after {last[source]}")
            made.add(where)
            last[source] = output.seq
    for (group, stream, shard), offset in history.offsets.items():
        if group in history.once:
            there = {seq for at, number, seq in made if (at, number) == (stream, shard)}
            if there != set(range(offset)):
                wrong = sorted(there ^ set(range(offset)))
                yield Anomaly("output and offset", f"{group} {stream} {shard}: {offset}, but {wrong[:5]}")


def _of_kind(history: History, kind: type[T]) -> Iterator[T]:
    return (event for events in history.reports.values() for event in events if isinstance(event, kind))


RULES: tuple[Callable[[History], Iterator[Anomaly]], ...] = (
    failures,
    disorder,
    lost,
    duplicated,
    reordered,
    gaps,
    phantoms,
    unseen,
    shared,
    went_back,
    offsets,
    outputs,
)
