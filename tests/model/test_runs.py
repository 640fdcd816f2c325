"""`run` and `runs`: one ordering, and orderings by chance, the same ones for the same seed."""

from __future__ import annotations

import time

import pytest

from millstream.flow import Flow
from millstream.testing import explore, run, runs
from tests.model.flows import frozen, merged_and_folded, trace, under

INPUTS = {"a": under("k", "123"), "b": under("k", "abc")}


def test_the_same_seed_gives_the_same_runs_and_another_others() -> None:
    first, again, other = (
        [trace(result) for result in runs(merged_and_folded(), INPUTS, seed=seed, count=20)]
        for seed in (7, 7, 8)
    )
    assert first == again
    assert first != other


def test_a_longer_walk_begins_as_a_shorter_one() -> None:
    short = [trace(result) for result in runs(merged_and_folded(), INPUTS, seed=1, count=3)]
    longer = [trace(result) for result in runs(merged_and_folded(), INPUTS, seed=1, count=9)]
    assert longer[:3] == short


def test_walks_find_every_ordering_in_time_and_none_that_there_is_not() -> None:
    all_there_are = {frozen(result) for result in explore(merged_and_folded(), INPUTS)}
    assert {frozen(result) for result in runs(merged_and_folded(), INPUTS, count=400)} == all_there_are


def test_coalescing_is_walked_too() -> None:
    flow = Flow("count")
    flow.source("a", key=str, value=str).group_by_key().count().sink("out")
    found = {tuple(result.values("out")) for result in runs(flow, {"a": under("k", "123")}, count=100)}
    assert found == {(1, 2, 3), (1, 3), (2, 3), (3,)}


def test_run_lets_every_update_go() -> None:
    flow = Flow("count")
    flow.source("a", key=str, value=str).group_by_key().count().sink("out")
    assert run(flow, {"a": under("k", "123")}).values("out") == [1, 2, 3]


def test_a_run_does_not_disturb_the_next_one_though_values_are_changed_in_place() -> None:
    flow = Flow("changing")
    sources = [flow.source(name, key=str, value=list[str]) for name in ("a", "b")]
    flow.merge(*sources).map(grown, value=list[str]).group_by_key().fold("", noted).sink("out")
    inputs = {"a": [("k", ["1"]), ("k", ["2"])], "b": [("k", ["x"])]}
    for result in [*runs(flow, inputs, count=5), *explore(flow, inputs)]:
        assert sorted(result.values("out")[-1]) == sorted("1!2!x!")


def test_branches_do_not_see_what_another_one_changes_in_place() -> None:
    flow = Flow("branches")
    source = flow.source("a", key=str, value=list[str])
    source.map(grown, value=list[str]).sink("changed")
    source.sink("plain")
    source.map(
        grown,
        value=list[str],
    ).sink("changed.too")
    found = run(flow, {"a": [("k", ["1"])]})
    assert found.values("plain") == [["1"]]
    assert found.values("changed") == found.values("changed.too") == [["1", "!"]]


def test_a_flow_of_three_thousand_steps_runs() -> None:
    flow = Flow("deep")
    stream = flow.source("a", value=int)
    for _ in range(3_000):
        stream = stream.map(one_more)
    stream.sink("out")
    assert run(flow, {"a": [0, 10]}).values("out") == [3_000, 3_010]
    assert [result.values("out") for result in explore(flow, {"a": [0, 10]})] == [[3_000, 3_010]]


@pytest.mark.long
def test_fifty_thousand_records_a_second_go_through_a_map_a_group_and_a_fold() -> None:
    flow = Flow("speed")
    flow.source("a", value=int).map(one_more).group_by(lambda v: v % 100, key=int).fold(0, added).sink("out")
    best = 0.0
    for _ in range(3):
        start = time.process_time()
        run(flow, {"a": range(50_000)})
        best = max(best, 50_000 / (time.process_time() - start))
    assert best > 50_000


def grown(value: list[str]) -> list[str]:
    value.append("!")
    return value


def noted(state: str, value: list[str]) -> str:
    return state + "".join(value)


def one_more(number: int) -> int:
    return number + 1


def added(state: int, number: int) -> int:
    return state + number
