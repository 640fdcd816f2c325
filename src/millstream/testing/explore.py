"""Many runs of one input: random ones, or every one that is different.

Two choices at different places do not disturb each other, so runs that differ only in which of two
such choices came first are one run. `explore` visits each once: it goes on at a place that no other can
disturb, where there is one, and a choice that was tried sleeps in the runs that follow, until another
choice at its place is made (Godefroid's persistent sets, and sleep sets).

Where only some tables at the end are of interest, runs that meet go on as one, and nothing sleeps.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Collection, Iterator

from millstream.errors import WrongType, shown
from millstream.flow.flow import Flow
from millstream.flow.graph import Graph
from millstream.flow.node import Stateful
from millstream.testing.choices import above, choices
from millstream.testing.inputs import Inputs, begun
from millstream.testing.marks import marks
from millstream.testing.result import Result
from millstream.testing.run import closing, streams_of
from millstream.testing.world import EMIT, Move, World

SEARCH_STEPS_MAX = 2_000  # of one run, where all of them are searched: no more than that are ever got through


def runs(
    flow: Flow | Graph, inputs: Inputs, *, seed: int = 0, count: int = 100, finish: bool = False
) -> Iterator[Result]:
    """Runs in which every choice is made by chance: the same ones for the same seed."""
    graph, machine, start = begun(flow, inputs)
    steps = closing(graph, finish=finish)
    for number in range(count):
        chance = random.Random(f"{seed} {number}")  # noqa: S311 - to be repeated, not to be secret
        machine.world = start.copy()
        schedule: list[Move] = []
        to_close = deque(steps)
        while True:
            world = machine.world
            if world.held or world.queues:
                schedule.append(_by_chance(world, chance))
                machine.do(schedule[-1])
            elif to_close:
                machine.finish(to_close.popleft())
            else:
                break
        yield Result(machine.world, streams_of(graph), schedule)


def _by_chance(world: World, chance: random.Random) -> Move:
    places = [*world.queues, *world.held]
    number = chance.randrange(len(places))
    if number >= len(world.queues):
        return Move(places[number], EMIT)
    return Move(places[number], chance.choice(list(world.queues[places[number]])))


class Exploration:
    """The runs of an input, one by one; afterwards `visited` and `left` tell how far it went."""

    def __init__(
        self, flow: Flow | Graph, inputs: Inputs, limit: int, *, tables: Collection[str] | None, finish: bool
    ) -> None:
        """Stop after so many runs."""
        self._graph, self._machine, start = begun(
            flow, inputs, SEARCH_STEPS_MAX, tables_only=tables is not None
        )
        written = streams_of(self._graph)
        if unknown := [name for name in tables or () if name not in written]:
            raise WrongType(
                f"the flow does not write {shown(unknown[0])}: it writes {', '.join(map(repr, written))}"
            )
        self._tables = tables
        self._mark = marks(self._graph)
        self._seen: set[object] = set()
        self._above = above(self._graph)
        self._todo: list[tuple[World, frozenset[Move], tuple[Move, ...], list[Stateful]]] = [
            (start, frozenset(), (), closing(self._graph, finish=finish))
        ]
        self._limit = limit
        self.visited = 0

    @property
    def left(self) -> int:
        """How many choices were begun and not followed: each is at least one run more. 0: that was all."""
        return len(self._todo)

    def __iter__(self) -> Iterator[Result]:
        """The next run, and the next."""
        while self._todo and self.visited < self._limit:
            world, asleep, schedule, to_close = self._todo.pop()
            if self._tables is not None:
                asleep = frozenset()
                if self._seen_before(world, self._tables, len(to_close)):
                    continue
            moves = choices(world, self._above)
            if not moves:
                self._machine.world = world
                if to_close:
                    self._machine.finish(to_close[0])
                    self._todo.append((world, frozenset(), schedule, to_close[1:]))
                    continue
                self.visited += 1
                yield Result(world, streams_of(self._graph), schedule)
                continue
            following = []
            awake = [move for move in moves if move not in asleep]
            for move in awake:
                self._machine.world = world if move is awake[-1] else world.copy()
                self._machine.do(move)
                still = frozenset(other for other in asleep if other.place != move.place)
                following.append((self._machine.world, still, (*schedule, move), to_close))
                asleep |= {move}
            self._todo += reversed(following)

    def _seen_before(self, world: World, tables: Collection[str], to_close: int) -> bool:
        """Whether another run was at this moment, with these tables."""
        latest = [
            frozenset((key, self._mark(out.value)) for key, out in world.latest(name)) for name in tables
        ]
        moment = world.fingerprint(self._mark), tuple(latest), to_close
        known = moment in self._seen
        self._seen.add(moment)
        return known


def explore(
    flow: Flow | Graph,
    inputs: Inputs,
    *,
    tables: Collection[str] | None = None,
    limit: int = 10_000,
    finish: bool = False,
) -> Exploration:
    """Every run that is different, each once, up to `limit`. Asked again, it goes on: keep them with `list`.

    With `tables`, the names of some streams that are written: every way in which these can be at the end,
    read as tables, each at least once. That takes far less where much of the flow comes to the same.
    """
    return Exploration(flow, inputs, limit, tables=tables, finish=finish)
