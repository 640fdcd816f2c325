"""Small flows that the tests of the model share, random ones, and a search that knows no tricks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from hypothesis import strategies as st

from millstream.flow import Flow, Grouped, Stream, dead_letter
from millstream.testing import In, Result
from millstream.testing.inputs import Inputs, begun
from millstream.testing.run import closing, streams_of
from millstream.testing.world import Move, World

FEW = 1_500  # runs: what has more of them is too large for the search without tricks


def appended(state: str, value: str) -> str:
    """All values so far, in their order: no two orders give the same."""
    return state + value


def last(value: str) -> str:
    """The last letter."""
    return value[-1:]


def bracketed(value: str) -> str:
    """Another value."""
    return f"<{value}>"


def refusing(value: str) -> str:
    """An error, for some."""
    if "p" in value:
        raise ValueError(value)
    return value


def both(pair: tuple[str, str | None]) -> str:
    """A pair as one text."""
    return f"({pair[0]},{pair[1]})"


def glued(texts: list[str]) -> str:
    """A list as one text."""
    return "".join(texts)


def merged_and_folded() -> Flow:
    """Two sources, merged and folded: each order gives another end."""
    flow = Flow("merged")
    left, right = (flow.source(name, key=str, value=str) for name in ("a", "b"))
    flow.merge(left, right).group_by_key().fold("", appended).sink("out")
    return flow


def under(key: str, letters: str) -> list[tuple[str, str]]:
    """A record for each letter."""
    return [(key, letter) for letter in letters]


class Place(NamedTuple):
    """Where a random flow goes on."""

    flow: Flow
    one: Stream[str, Any]
    other: Stream[str, Any]
    number: int

    @property
    def by_key(self) -> Grouped[str, Any]:
        """The first, grouped."""
        return self.one.group_by_key()


def own_read_bare(at: Place) -> Stream[str, Any]:
    """Kept under a name, and read again without its keys."""
    at.one.sink(f"own{at.number}", value=str)
    return at.flow.source(f"own{at.number}", value=str).group_by(last)


STEPS: dict[str, Callable[[Place], Stream[str, Any]]] = {
    "map": lambda at: at.one.map(bracketed),
    "merge": lambda at: at.flow.merge(at.one, at.other),
    "group": lambda at: at.one.group_by(last),
    "fold": lambda at: at.by_key.fold("", appended, name=f"{at.number}"),
    "aggregate": lambda at: at.by_key.aggregate("", appended, name=f"{at.number}").updates(),
    "own": lambda at: at.flow.stream(f"own{at.number}", at.one),
    "own, read bare": own_read_bare,
    "refuse": lambda at: at.one.map(refusing, on_error=dead_letter("dead")),
    "join": lambda at: at.by_key.join(at.other.group_by_key().latest(), "left", name=f"{at.number}").map(
        both
    ),
    "grouped": lambda at: at.by_key.grouped(2, flush=True, name=f"{at.number}").map(glued),
}


@st.composite
def flows(draw: st.DrawFn) -> tuple[Flow, dict[str, list[In]]]:
    """A small flow of a few steps, and a few records for it."""
    flow = Flow("random")
    pool: list[Stream[str, Any]] = [flow.source(name, key=str, value=str) for name in ("a", "b")]
    for number in range(draw(st.integers(1, 4))):
        step = STEPS[draw(st.sampled_from(sorted(STEPS)))]
        pool.append(step(Place(flow, draw(st.sampled_from(pool)), draw(st.sampled_from(pool)), number)))
    pool[-1].sink("out")
    draw(st.sampled_from(pool)).sink("other")
    rows = draw(
        st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 1)), max_size=5)
    )
    inputs: dict[str, list[In]] = {"a": [], "b": []}
    for (source, key, shard), value in zip(rows, ("pk", "l", "mk", "pl", "ok"), strict=False):
        inputs[source].append(In(value, key, shard=shard))
    return flow, inputs


def frozen(result: Result) -> str:
    """What came out under each key, as something that a set can have."""
    return repr(sorted((name, sorted(keys.items(), key=repr)) for name, keys in result.outputs().items()))


def trace(result: Result) -> str:
    """What was chosen at each place: two runs with the same one are one run."""
    places: dict[str, list[object]] = {}
    for choice in result.schedule:
        places.setdefault(repr((choice.node, choice.key)), []).append(choice.took)
    return repr(sorted(places.items()))


def outputs_of(result: Result) -> dict[str, list[tuple[Any, Any]]]:
    """What came out, as pairs, as `can_produce` and `replays` are asked."""
    return {stream: [(out.key, out.value) for out in result.records(stream)] for stream in result.outputs()}


def every_run(flow: Flow, inputs: Inputs, *, finish: bool = False) -> Iterator[Result]:
    """All sequences of moves, those that are one run too: without sleep sets, and without persistent ones."""
    graph, machine, start = begun(flow, inputs)
    todo: list[tuple[World, list[Move], int]] = [(start, [], 0)]
    steps = closing(graph, finish=finish)
    while todo:
        world, schedule, closed = todo.pop()
        moves = world.enabled()
        for move in moves:
            machine.world = world.copy()
            machine.do(move)
            todo.append((machine.world, [*schedule, move], closed))
        if not moves and closed < len(steps):
            machine.world = world
            machine.finish(steps[closed])
            todo.append((world, schedule, closed + 1))
        elif not moves:
            yield Result(world, streams_of(graph), schedule)
