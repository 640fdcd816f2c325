"""Replaying a recorded order: whether each of its choices was legal, and the outputs follow from it.

It takes time in proportion to the run, however large; engines record their choices for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec

from millstream.errors import shown
from millstream.flow.flow import Flow
from millstream.flow.graph import Graph
from millstream.testing.choices import letter_places
from millstream.testing.inputs import Inputs, begun
from millstream.testing.machine import Machine
from millstream.testing.produce import Outputs
from millstream.testing.record import hashable, pairs_of
from millstream.testing.result import Choice, Result
from millstream.testing.run import closing, streams_of
from millstream.testing.world import Label, Move, Place


class Replay(msgspec.Struct, frozen=True):
    """Whether it was legal, and if not, what was wrong."""

    legal: bool
    why: str = ""

    def __bool__(self) -> bool:
        """Whether it was legal."""
        return self.legal


def replays(
    flow: Flow | Graph, inputs: Inputs, schedule: Sequence[Choice], outputs: Outputs, *, finish: bool = False
) -> Replay:
    """Whether these choices are legal, and all there are, and lead to these outputs under each key."""
    graph, machine, world = begun(flow, inputs)
    coming: dict[Place, deque[Label]] = {}
    for choice in schedule:
        took = tuple(choice.took) if isinstance(choice.took, list) else choice.took
        coming.setdefault((choice.node, choice.key), deque()).append(took)
    world.touched = deque(coming)
    _follow(machine, coming)
    for node in closing(graph, finish=finish):
        if world.enabled():
            break
        machine.finish(node)
        _follow(machine, coming)
    for place, labels in coming.items():
        if labels:
            return Replay(
                False, f"{_named(graph, place)}: {labels[0]!r} was taken, and nothing came that way"
            )
    for move in world.enabled():
        return Replay(False, f"{_named(graph, move.place)}: {move.label!r} was there, and was not taken")
    return _compared(Result(world, streams_of(graph)), outputs)


def _follow(machine: Machine, coming: dict[Place, deque[Label]]) -> None:
    """Do what was recorded for each place, as far as it can be done."""
    touched = machine.world.touched
    while touched:
        place = touched.popleft()
        labels = coming.get(place, deque())
        while labels and machine.world.can(Move(place, labels[0])):
            machine.do(Move(place, labels.popleft()))


def _named(graph: Graph, place: Place) -> str:
    names = {node.id: f"'{node.label}' ({node.site})" for node in graph.nodes}
    names |= {number: f"the dead letters '{stream}'" for stream, (number, _) in letter_places(graph).items()}
    return f"{names.get(place[0], f'a node {place[0]}, which there is not')}, key {place[1]!r}"


def _compared(found: Result, outputs: Outputs) -> Replay:
    for stream, records in outputs.items():
        wanted: dict[Any, list[Any]] = {}
        for key, value in pairs_of(stream, records):
            wanted.setdefault(hashable(key), []).append(value)
        values = found.per_key(stream)
        for key in {**wanted, **values}:
            if wanted.get(key) != values.get(key):
                what = f"stream '{stream}', key {shown(key)}: these choices give {shown(values.get(key))}"
                return Replay(False, f"{what}, and it should be {shown(wanted.get(key))}")
    return Replay(True)
