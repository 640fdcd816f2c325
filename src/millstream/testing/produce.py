"""Whether a flow can produce some outputs: a search that goes back where it went wrong.

Outputs are compared under each key, in order. What was seen before, with as much put out, is not looked
at again. It is for small inputs, of a dozen records or so; for large ones there is `replays`.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from millstream.errors import WrongType, shown
from millstream.flow.flow import Flow
from millstream.flow.graph import Graph
from millstream.flow.node import Stateful
from millstream.testing.choices import above, choices
from millstream.testing.explore import SEARCH_STEPS_MAX
from millstream.testing.inputs import Inputs, begun
from millstream.testing.marks import marks
from millstream.testing.record import Out, hashable, pairs_of
from millstream.testing.result import Choice
from millstream.testing.run import closing, streams_of
from millstream.testing.world import Move, World

Outputs = Mapping[str, Sequence[tuple[Any, Any] | Out]]  # of each stream pairs (key, value), or records


class Answer(enum.StrEnum):
    """What the search found."""

    YES = "yes"
    NO = "no"
    GAVE_UP = "gave up"


class Verdict(msgspec.Struct, frozen=True):
    """The answer, after how many states, and for a yes the choices that lead there."""

    answer: Answer
    states: int
    schedule: tuple[Choice, ...] = ()

    def __bool__(self) -> bool:
        """Whether it is a yes; having given up is no answer, and an error."""
        if self.answer is Answer.GAVE_UP:
            raise WrongType(f"gave up after {self.states:,} states: allow more, or give smaller inputs")
        return self.answer is Answer.YES


def can_produce(
    flow: Flow | Graph, inputs: Inputs, outputs: Outputs, *, states_max: int = 100_000, finish: bool = False
) -> Verdict:
    """Whether some legal run gives exactly these outputs under each key, in the streams that are named."""
    graph, machine, start = begun(flow, inputs, SEARCH_STEPS_MAX)
    upstream, mark_of = above(graph), marks(graph)
    wanted = _wanted(graph, outputs)
    todo: list[tuple[World, tuple[Move, ...], list[Stateful]]] = [(start, (), closing(graph, finish=finish))]
    seen: set[object] = set()
    states = 0
    while todo:
        world, schedule, to_close = todo.pop()
        progress = _progress(world, wanted)
        if progress is None:
            continue
        mark = world.fingerprint(mark_of), progress, len(to_close)
        if mark in seen:
            continue
        seen.add(mark)
        states += 1
        if states > states_max:
            return Verdict(Answer.GAVE_UP, states_max)
        moves = choices(world, upstream)
        if not moves and to_close:
            machine.world = world
            machine.finish(to_close[0])
            todo.append((world, schedule, to_close[1:]))
        elif not moves and dict(progress) == {
            place: len(values) for place, values in wanted.items() if values
        }:
            return Verdict(Answer.YES, states, tuple(Choice(*move.place, move.label) for move in schedule))
        for move in reversed(moves):
            machine.world = world if move is moves[0] else world.copy()
            machine.do(move)
            todo.append((machine.world, (*schedule, move), to_close))
    return Verdict(Answer.NO, states)


def _wanted(graph: Graph, outputs: Outputs) -> dict[tuple[str, Any], list[Any]]:
    """The values wanted under each key of each stream; a stream that nothing is wanted of is there too."""
    written = streams_of(graph)
    wanted: dict[tuple[str, Any], list[Any]] = {}
    for stream, records in outputs.items():
        if stream not in written:
            raise WrongType(
                f"the flow does not write {shown(stream)}: it writes {', '.join(map(repr, written))}"
            )
        wanted[stream, _NO_KEY] = []
        for key, value in pairs_of(stream, records):
            wanted.setdefault((stream, hashable(key)), []).append(value)
    return wanted


def _progress(
    world: World, wanted: dict[tuple[str, Any], list[Any]]
) -> frozenset[tuple[tuple[str, Any], int]] | None:
    """How many of the wanted values are out under each key; None if something else came out."""
    found: Counter[tuple[str, Any]] = Counter()
    for stream, records in world.outputs.items():
        if (stream, _NO_KEY) not in wanted:
            continue
        for _, out in records:
            place = stream, hashable(out.key)
            values = wanted.get(place, ())
            if found[place] >= len(values) or values[found[place]] != out.value:
                return None
            found[place] += 1
    return frozenset(found.items())


_NO_KEY = object()
