"""A moment of a model: what waits in queues, the states, and what has come out.

A **place** is where something is undetermined: a node and a key. A **move** says what is taken there next.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

from millstream.codec.same import apart
from millstream.testing.record import Out

Place: TypeAlias = tuple[int, bytes | None]  # node, key
Label: TypeAlias = Any  # of a queue: the branch or the old key by which its records came
Waiting: TypeAlias = tuple["Meta", Any]


class Meta(NamedTuple):
    """What goes along with a value: its key, its time, and the record that it comes of."""

    key: Any
    key_bytes: bytes | None
    timestamp: int
    stream: str
    shard: int
    seq: int
    lane: int | bytes  # records of one key in several lanes are in no order, until something orders them


class Move(NamedTuple):
    """Take the first of one queue at a place; `EMIT`: let an update go that might have been coalesced."""

    place: Place
    label: Label


EMIT = "emit"


class World:
    """All that changes while a model runs."""

    def __init__(self) -> None:
        """Nothing has happened yet."""
        self.queues: dict[Place, dict[Label, deque[Waiting]]] = {}
        self.held: dict[Place, Waiting] = {}
        self.states: dict[Place, bytes] = {}
        self.outputs: dict[str, list[tuple[bytes | None, Out]]] = {}
        self.seqs: Counter[tuple[str, bytes | None]] = Counter()  # of the flow's own streams, under each key
        self.skipped: Counter[str] = Counter()  # by step
        self.moves = 0
        self.touched: deque[Place] | None = None  # places at which something new waits, if anybody asks

    def copy(self) -> World:
        """The same moment, to go on from in another way."""
        other = World()
        other.queues = {
            place: {label: deque(queue) for label, queue in labels.items()}
            for place, labels in self.queues.items()
        }
        other.held = dict(self.held)
        other.states = dict(self.states)
        other.outputs = {stream: list(records) for stream, records in self.outputs.items()}
        other.seqs = Counter(self.seqs)
        other.skipped = Counter(self.skipped)
        other.moves = self.moves
        return other

    def enabled(self) -> list[Move]:
        """Every move that is legal now."""
        found = [Move(place, EMIT) for place in self.held]
        found += [Move(place, label) for place, labels in self.queues.items() for label in labels]
        return found

    def put(self, place: Place, label: Label, waiting: Waiting) -> None:
        """Let a record wait for its turn."""
        self.queues.setdefault(place, {}).setdefault(label, deque()).append(waiting)
        if self.touched is not None:
            self.touched.append(place)

    def hold(self, place: Place, waiting: Waiting) -> None:
        """Hold an update in the place of the one before."""
        self.held[place] = waiting
        if self.touched is not None:
            self.touched.append(place)

    def can(self, move: Move) -> bool:
        """Whether a move is legal now."""
        if move.label == EMIT:
            return move.place in self.held
        return move.label in self.queues.get(move.place, ())

    def take(self, move: Move) -> Waiting:
        """What a move takes, for itself; `KeyError` if there is nothing."""
        if move.label == EMIT:
            meta, value = self.held.pop(move.place)
            return meta, apart(value)
        labels = self.queues[move.place]
        queue = labels[move.label]
        meta, value = queue.popleft()
        if not queue:
            del labels[move.label]
            if not labels:
                del self.queues[move.place]
        return meta, apart(value)

    def latest(self, stream: str) -> Iterable[tuple[bytes | None, Out]]:
        """The latest record of each key of a stream that is written."""
        return dict(self.outputs.get(stream, ())).items()

    def fingerprint(self, mark: Callable[[Any], object]) -> object:
        """Two moments with the same one go on in the same ways; equal values have equal marks."""

        def marked(waiting: Waiting) -> object:
            return waiting[0][1:], mark(waiting[1])  # the key is as its bytes say

        return (
            frozenset(
                (place, label, tuple(map(marked, queue)))
                for place, labels in self.queues.items()
                for label, queue in labels.items()
            ),
            frozenset((place, marked(waiting)) for place, waiting in self.held.items()),
            frozenset(self.states.items()),
        )
