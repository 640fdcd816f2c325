"""`explore` visits every run that is different, each once."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from itertools import islice
from math import comb, factorial
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millstream.errors import StepFailed
from millstream.flow import Flow
from millstream.testing import In, Result, explore
from millstream.testing.world import Label, Move, Place, Waiting, World
from tests.model.flows import FEW, appended, every_run, flows, frozen, last, merged_and_folded, trace, under


def ends(runs: list[Result]) -> list[str]:
    return sorted(result.values("out")[-1] for result in runs)


def test_two_sources_of_five_records_have_252_orderings_and_each_is_visited_once() -> None:
    found = explore(merged_and_folded(), {"a": under("k", "12345"), "b": under("k", "abcde")})
    runs = list(found)
    assert len(runs) == len(set(ends(runs))) == comb(10, 5) == 252
    assert (found.visited, found.left) == (252, 0)


@given(left=st.integers(0, 4), right=st.integers(0, 4), third=st.integers(0, 2))
@settings(max_examples=20)
def test_a_merge_of_three_has_as_many_runs_as_the_multinomial_says(left: int, right: int, third: int) -> None:
    flow = Flow("three")
    sources = [flow.source(name, key=str, value=str) for name in ("a", "b", "c")]
    flow.merge(*sources).group_by_key().fold("", appended).sink("out")
    inputs = {"a": under("k", "1234"[:left]), "b": under("k", "abcd"[:right]), "c": under("k", "XY"[:third])}
    size = left + right + third
    wanted = factorial(size) // (factorial(left) * factorial(right) * factorial(third))
    found = list(explore(flow, inputs))
    assert len(found) == wanted
    if size:
        assert len(set(ends(found))) == wanted


def test_keys_do_not_disturb_each_other_so_their_orders_multiply() -> None:
    inputs = {"a": [*under("x", "12"), *under("y", "3")], "b": [*under("x", "a"), *under("y", "bc")]}
    found = list(explore(merged_and_folded(), inputs))
    assert len(found) == len(set(map(frozen, found))) == 3 * 3


def test_a_group_interleaves_old_keys_and_keeps_each_in_order() -> None:
    flow = Flow("group")
    flow.source("a", key=str, value=str).group_by(len, key=int).fold("", appended).sink("out")
    found = list(explore(flow, {"a": [*under("x", "12"), *under("y", "ab")]}))
    assert ends(found) == sorted(["12ab", "1a2b", "1ab2", "a12b", "a1b2", "ab12"])


def test_records_of_one_old_key_stay_in_order_whatever_their_new_key_is() -> None:
    flow = Flow("group")
    flow.source("a", key=str, value=str).group_by(last, key=str).fold("", appended).sink("out")
    found = list(explore(flow, {"a": under("x", "1213")}))
    assert [result.per_key("out") for result in found] == [{"1": ["1", "11"], "2": ["2"], "3": ["3"]}]


def test_an_aggregates_updates_are_any_subsequence_that_ends_with_the_last() -> None:
    flow = Flow("count")
    flow.source("a", key=str, value=int).group_by_key().count().sink("out")
    found = sorted(tuple(result.values("out")) for result in explore(flow, {"a": [("k", 0)] * 4}))
    assert len(found) == len(set(found)) == 2**3
    assert all(one[-1] == 4 and list(one) == sorted(set(one)) for one in found)


def test_two_readers_of_one_table_see_the_same_updates() -> None:
    flow = Flow("two")
    counts = flow.source("a", key=str, value=int).group_by_key().count()
    counts.sink("one")
    counts.map(abs, value=int).sink("two")
    for result in explore(flow, {"a": [("k", 0)] * 3}):
        assert result.values("one") == result.values("two")


def test_two_readers_of_one_merge_see_one_order() -> None:
    flow = Flow("two")
    merged = flow.merge(*(flow.source(name, key=str, value=str) for name in ("a", "b")))
    merged.group_by_key().fold("", appended, name="one").sink("one")
    merged.group_by_key().fold("", appended, name="two").sink("two")
    found = list(explore(flow, {"a": under("k", "12"), "b": under("k", "ab")}))
    assert len(found) == 6
    assert all(result.values("one") == result.values("two") for result in found)


def test_a_fold_counts_every_output_and_a_streams_order_is_the_folds() -> None:
    flow = Flow("fold")
    flow.source("a", key=str, value=str).group_by_key().fold("", appended).sink("out")
    assert [result.values("out") for result in explore(flow, {"a": under("k", "abc")})] == [
        ["a", "ab", "abc"]
    ]


def test_what_is_merged_with_itself_may_be_overtaken_by_itself() -> None:
    flow = Flow("diamond")
    source = flow.source("a", key=str, value=str)
    flow.merge(source, source.map(str.upper)).group_by_key().fold("", appended).sink("out")
    found = ends(list(explore(flow, {"a": under("k", "ab")})))
    assert found == sorted(["abAB", "aAbB", "aABb", "AabB", "AaBb", "ABab"])


def test_a_search_that_is_cut_off_says_that_there_is_more() -> None:
    inputs = {"a": under("k", "12345"), "b": under("k", "abcde")}
    found = explore(merged_and_folded(), inputs, limit=10)
    assert len(list(found)) == found.visited == 10
    assert found.left > 0


def test_runs_that_are_looked_at_one_by_one_are_not_lost() -> None:
    found = explore(merged_and_folded(), {"a": under("k", "12"), "b": under("k", "ab")})
    assert len(list(islice(found, 2)) + list(found)) == 6


def test_an_input_without_records_has_one_run() -> None:
    assert [result.values("out") for result in explore(merged_and_folded(), {})] == [[]]


def test_a_cycle_that_never_rests_is_named_and_not_searched_for_ever() -> None:
    flow = Flow("endless")
    cycle = flow.cycle("again", key=str, value=int)
    merged = flow.merge(flow.source("a", key=str, value=int), cycle)
    flow.stream("again", merged.map(abs, value=int))
    with pytest.raises(StepFailed, match=r"flow 'endless' has not come to rest after .* cycle \('again'\)"):
        list(explore(flow, {"a": [("k", 1)]}))


def test_the_end_closes_one_step_after_the_other_so_nothing_is_lost_in_any_run() -> None:
    flow = Flow("closing")
    pairs = flow.source("a", key=str, value=str).group_by_key().grouped(2, flush=True, name="first")
    merged = flow.merge(pairs.map("".join, value=str), flow.source("b", key=str, value=str).group_by_key())
    merged.grouped(2, flush=True, name="second").map("".join, value=str).sink("out")
    found = list(explore(flow, {"a": under("k", "123"), "b": under("k", "x")}, finish=True))
    assert {"".join(sorted("".join(result.values("out")))) for result in found} == {"123x"}
    assert len(found) == 2


def agree(flow: Flow, inputs: dict[str, list[In]], *, finish: bool) -> int:
    """Compare it with a search without tricks, if that can be done; how many runs there are."""
    every = list(islice(every_run(flow, inputs, finish=finish), FEW + 1))
    if len(every) > FEW:
        return 0
    found = list(explore(flow, inputs, finish=finish))
    traces = {trace(result): frozen(result) for result in found}
    assert len(traces) == len(found)
    assert traces == {trace(result): frozen(result) for result in every}
    assert all(traces[trace(result)] == frozen(result) for result in every)
    return len(found)


@given(flows(), st.booleans())
@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow])
def test_it_finds_exactly_the_runs_that_a_search_without_tricks_finds(
    case: tuple[Flow, dict[str, list[In]]], finish: bool
) -> None:
    agree(*case, finish=finish)


def two_levels() -> tuple[Flow, dict[str, list[In]]]:
    """A merge, and below it another merge that has records before the first one has given any."""
    flow = Flow("levels")
    c, a, b = (flow.source(name, key=str, value=str) for name in ("c", "a", "b"))
    flow.merge(c, flow.merge(a, b)).group_by_key().fold("", appended).sink("out")
    return flow, {name: [In(name, "k")] for name in ("a", "b", "c")}


def test_two_levels_of_merges_have_six_orders_for_each_key() -> None:
    assert agree(*two_levels(), finish=False) == 6
    twice = {name: [In(name, "k"), In(name, "l")] for name in ("a", "b", "c")}
    assert len(list(explore(two_levels()[0], twice))) == 6 * 6


def shortened(regroup: bool) -> Flow:
    """A cycle in which each record comes again, one letter shorter, perhaps under another key."""
    flow = Flow("cycle")
    cycle = flow.cycle("again", key=str, value=str)
    merged = flow.merge(flow.source("a", key=str, value=str), cycle)
    merged.group_by_key().fold("", appended).sink("out")
    shorter = merged.filter(lambda value: len(value) > 1).map(lambda value: value[1:], value=str)
    flow.stream("again", shorter.group_by(last) if regroup else shorter)
    return flow


@given(
    st.lists(st.tuples(st.sampled_from("xy"), st.sampled_from(["a", "xy", "yx", "xyx"])), max_size=3),
    st.booleans(),
)
@settings(max_examples=40)
def test_what_goes_round_in_a_cycle_meets_what_comes_in_in_every_order(
    records: list[tuple[str, str]], regroup: bool
) -> None:
    agree(shortened(regroup), {"a": [In(value, key) for key, value in records]}, finish=False)


def test_a_search_in_which_nothing_sleeps_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    records = {"a": [In("12", "x"), In("34", "y")]}
    assert agree(shortened(False), records, finish=False) == 1
    monkeypatch.setattr(SEARCH, "frozenset", lambda *_: set(), raising=False)
    with pytest.raises(AssertionError):
        agree(shortened(False), records, finish=False)


def only_first_queues(world: World) -> list[Move]:
    return [Move(place, next(iter(labels))) for place, labels in world.queues.items()]


def first_place(world: World, _: object) -> list[Move]:
    moves = world.enabled()
    return [move for move in moves if move.place == moves[0].place]


Put: TypeAlias = Callable[[World, Place, Label, Waiting], None]
SEARCH = import_module("millstream.testing.explore")


@pytest.mark.parametrize(
    "wrong",
    [
        first_place,  # although another place can still disturb it
        lambda world, _: only_first_queues(world),  # one branch goes always first
    ],
)
def test_a_search_that_is_wrong_is_caught(wrong: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SEARCH, "choices", wrong)
    with pytest.raises(AssertionError):
        assert agree(*two_levels(), finish=False) == 6


def one_queue(put: Put) -> Put:
    return lambda world, place, _, waiting: put(world, place, 0, waiting)


def last_in_first_out(put: Put) -> Put:
    def wrong(world: World, place: Place, label: Label, waiting: Waiting) -> None:
        put(world, place, label, waiting)
        world.queues[place][label].rotate()

    return wrong


@pytest.mark.parametrize("wrong", [one_queue, last_in_first_out])
def test_queues_that_are_wrong_are_caught(
    wrong: Callable[[Put], Put], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(World, "put", wrong(World.put))
    with pytest.raises(AssertionError):
        test_a_group_interleaves_old_keys_and_keeps_each_in_order()
