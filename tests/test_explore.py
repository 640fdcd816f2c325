"""Exploring: what is left out makes no difference. Compared with a search that leaves nothing out."""

from collections.abc import Callable
from typing import Any

import pytest

from examples import (
    connected_components,
    customers,
    denormalisation,
    entity_resolution,
    linear_road,
    word_count,
)
from millstream.errors import WrongType
from millstream.flow import Flow
from millstream.testing import In, Inputs, Result, explore
from millstream.testing.inputs import begun
from millstream.testing.marks import marks
from millstream.testing.run import streams_of
from millstream.testing.world import Move, World


def all_runs(flow: Flow, inputs: Inputs, *, meet: bool) -> list[Result]:
    """Every run there is: each choice in each order, at whatever places.

    With `meet`, what happens after two runs were at the same moment is only looked at once.
    """
    graph, machine, start = begun(flow, inputs)
    todo: list[tuple[World, tuple[Move, ...]]] = [(start, ())]
    seen: set[object] = set()
    mark = marks(graph)
    found = []
    while todo:
        world, schedule = todo.pop()
        here = Result(world, streams_of(graph), schedule)
        moment = world.fingerprint(mark), repr(sorted(here.outputs().items()))
        if meet and moment in seen:
            continue
        seen.add(moment)
        moves = world.enabled()
        if not moves:
            found.append(here)
        for move in moves:
            machine.world = world.copy()
            machine.do(move)
            todo.append((machine.world, (*schedule, move)))
    return found


def different(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


def same(left: list[Any], right: list[Any]) -> bool:
    return all(value in right for value in left) and all(value in left for value in right)


def joined(left: str, right: str) -> str:
    return left + right


def folded() -> Flow:
    """A merge and a group, and a fold that tells every order from every other."""
    flow = Flow("folded")
    left, right = (flow.source(name, key=str, value=str) for name in ("left", "right"))
    flow.merge(left, right).group_by(lambda _: "all", key=str).fold("", joined).sink("all")
    return flow


def counted() -> Flow:
    """An aggregate that goes on: what is coalesced makes a difference further down."""
    flow = Flow("counted")
    counts = flow.source("in", key=str, value=str).group_by_key().count()
    counts.updates().map(str, value=str).group_by(lambda _: "all", key=str).fold("", joined).sink("all")
    return flow


def passed() -> Flow:
    """A merge and nothing more: only what was written tells one order from another."""
    flow = Flow("passed")
    left, right = (flow.source(name, key=str, value=str) for name in ("left", "right"))
    flow.merge(left, right).sink("all")
    return flow


def kept() -> Flow:
    """The same, and the counts are kept in a stream before they go on."""
    flow = Flow("kept")
    counts = flow.source("in", key=str, value=str).group_by_key().count()
    texts = flow.stream("counts", counts.updates()).map(str, value=str)
    texts.group_by(lambda _: "all", key=str).fold("", joined).sink("all")
    return flow


def turning() -> Flow:
    """A cycle, beside which something comes from outside."""
    flow = Flow("turning")
    again = flow.cycle("again", key=str, value=str).group_by_key()
    texts = flow.merge(flow.source("in", key=str, value=str).group_by_key(), again).fold("", joined)
    texts.sink("texts")
    flow.stream("again", texts.filter(lambda text: len(text) < 3).group_by(lambda text: text[-1], key=str))
    return flow


SMALL = (folded, turning)
ARTICLE = denormalisation.Article("M", ["a"])
CASES: list[tuple[Callable[[], Flow], Inputs, str]] = [
    (folded, {"left": [("a", "1"), ("b", "2")], "right": [("a", "3"), ("c", "4")]}, "all"),
    (folded, {"left": [In("1", "a"), In("2", "a", shard=1)], "right": [("a", "3")]}, "all"),
    (passed, {"left": [("a", "1"), ("b", "2")], "right": [("a", "3")]}, "all"),
    (counted, {"in": [("a", "1"), ("b", "2"), ("a", "3")]}, "all"),
    (counted, {"in": [In("1", "a"), In("2", "a", shard=1), In("3", "a", shard=1)]}, "all"),
    (kept, {"in": [("a", "1"), ("b", "2"), ("a", "3")]}, "all"),
    (turning, {"in": [("a", "b"), ("b", "a")]}, "texts"),
    (customers.flow, {"customers": customers.CUSTOMERS, "payments": [("c1", 1), ("c1", 2)]}, "regions"),
    (customers.flow, {"customers": customers.CUSTOMERS, "payments": [("c1", 1), ("c1", 2)]}, "statements"),
    (linear_road.flow, {"reports": [("a", 1), ("b", 1)]}, "bills"),
    (denormalisation.flow, {"authors": [("a", "A"), ("a", "B")], "articles": [("m", ARTICLE)]}, "lines"),
    (connected_components.flow, {"edges": [(2, 3), (1, 2)]}, "components"),
    (entity_resolution.flow, {"records": [(2, ["a"]), (1, ["a"])]}, "people"),
]


@pytest.mark.parametrize(("flow", "inputs", "table"), CASES)
def test_exploring_leaves_nothing_out(flow: Callable[[], Flow], inputs: Inputs, table: str) -> None:
    everything = all_runs(flow(), inputs, meet=flow not in SMALL)
    exploration = explore(flow(), inputs)
    found = list(exploration)
    assert exploration.left == 0
    assert same(different([r.outputs() for r in found]), different([r.outputs() for r in everything]))
    schedules = [choices_by_place(result) for result in found]
    assert len(different(schedules)) == len(schedules)  # and comes to nothing twice
    ends = [result.table(table) for result in explore(flow(), inputs, tables=[table])]
    assert same(ends, different([result.table(table) for result in everything]))


def choices_by_place(result: Result) -> dict[tuple[int, bytes | None], list[Any]]:
    found: dict[tuple[int, bytes | None], list[Any]] = {}
    for choice in result.schedule:
        found.setdefault((choice.node, choice.key), []).append(choice.took)
    return found


def test_tables_that_are_not_written_are_named() -> None:
    with pytest.raises(WrongType, match="the flow does not write 'sum': it writes 'all'"):
        explore(folded(), {}, tables=["sum"])


def test_tables_alone_take_less_looking() -> None:
    lines = {"lines": [In("a b"), In("b a", shard=1), In("b", shard=2)]}
    assert len(list(explore(word_count.flow(), lines))) == (2 * 2) * (6 * 4)  # orders, coalesced
    assert len(list(explore(word_count.flow(), lines, tables=["counts"]))) == 1
