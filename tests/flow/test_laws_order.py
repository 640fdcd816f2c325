"""The laws of order: what merge and group may change, and what they may not; and cycles that rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from hypothesis import strategies as st

from millstream.flow import Flow, Grouped
from millstream.testing import explore, run, runs
from millstream.testing.world import Label, Place, Waiting, World
from tests.flow.laws import NUMBERS, RECORDS, Law, holds, is_caught

Put: TypeAlias = Callable[[World, Place, Label, Waiting], None]
SMALL = st.lists(st.sampled_from("xy"), max_size=3)


def merged(left: list[str], right: list[str]) -> list[dict[Any, list[Any]]]:
    flow = Flow("merge")
    flow.merge(*(flow.source(name, key=str, value=int) for name in ("left", "right"))).sink("out")
    inputs = {
        "left": [(key, number) for number, key in enumerate(left)],
        "right": [(key, 10 + number) for number, key in enumerate(right)],
    }
    return [result.per_key("out") for result in explore(flow, inputs)]


def merge_keeps_each_side(sides: Callable[[list[int]], list[int]] = sorted) -> Law:
    def law(left: list[str], right: list[str]) -> None:
        seen = set()
        for found in merged(left, right):
            seen.add(repr(sorted(found.items())))
            for key, numbers in found.items():
                assert [n for n in numbers if n < 10] == sides(
                    [n for n, one in enumerate(left) if one == key]
                )
                assert [n for n in numbers if n >= 10] == [
                    10 + n for n, one in enumerate(right) if one == key
                ]
        wanted = 1
        for key in "xy":
            wanted *= interleavings(left.count(key), right.count(key))
        assert len(seen) == wanted

    return law


def interleavings(left: int, right: int) -> int:
    if not left or not right:
        return 1
    return interleavings(left - 1, right) + interleavings(left, right - 1)


def last_in_first_out(world: World, place: Place, label: Label, waiting: Waiting) -> None:
    RIGHT_PUT(world, place, label, waiting)
    world.queues[place][label].rotate()


def all_in_one(world: World, place: Place, _: Label, waiting: Waiting) -> None:
    RIGHT_PUT(world, place, 0, waiting)


def each_for_itself(world: World, place: Place, label: Label, waiting: Waiting) -> None:
    RIGHT_PUT(world, place, (label, waiting[0].seq), waiting)


RIGHT_PUT = World.put
WRONG_PUTS = [last_in_first_out, all_in_one, each_for_itself]


def test_a_merge_is_any_interleaving_that_keeps_each_sides_order() -> None:
    holds(merge_keeps_each_side(), left=SMALL, right=SMALL)


@pytest.mark.parametrize("wrong", WRONG_PUTS)
def test_a_merge_that_is_wrong_is_caught(wrong: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(World, "put", wrong)
    is_caught(merge_keeps_each_side(), left=SMALL, right=SMALL)


def group_keeps_order(one_source: bool) -> Law:
    """From one source, under one old key, order stays; between two old keys any is possible."""

    def law(keys: list[str]) -> None:
        flow = Flow("group")
        source = flow.source("in", key=str, value=int)
        source.group_by(lambda number: number % 2, key=int).sink("out")
        records = [(key if one_source else str(number), number) for number, key in enumerate(keys)]
        found = [result.per_key("out") for result in explore(flow, {"in": records})]
        for one in found:
            for numbers in one.values():
                for key in "xy":
                    mine = [number for number in numbers if keys[number] == key]
                    assert mine == sorted(mine)
        wanted = 1
        for rest in (0, 1):
            sides = [sum(one == key for one in keys[rest::2]) for key in "xy"]
            wanted *= interleavings(*sides)
        assert len({repr(sorted(one.items())) for one in found}) == wanted

    return law


def test_group_by_keeps_the_order_of_one_source_under_one_key() -> None:
    holds(group_keeps_order(one_source=True), keys=st.lists(st.sampled_from("xy"), max_size=6))
    is_caught(group_keeps_order(one_source=False), keys=st.lists(st.sampled_from("xy"), max_size=6))


@pytest.mark.parametrize("wrong", WRONG_PUTS)
def test_a_group_that_is_wrong_is_caught(wrong: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(World, "put", wrong)
    is_caught(group_keeps_order(one_source=True), keys=st.lists(st.sampled_from("xy"), max_size=6))


def shrinking(smaller: Callable[[int], int]) -> Flow:
    flow = Flow("cycle")
    cycle = flow.cycle("smaller", key=str, value=int)
    merged = flow.merge(flow.source("in", key=str, value=int), cycle)
    grouped: Grouped[str, Any] = merged.group_by_key()
    grouped.latest().sink("latest")
    flow.stream("smaller", merged.filter(lambda n: n > 0).map(smaller, value=int))
    return flow


def a_cycle_stays_at_rest(smaller: Callable[[int], int]) -> Law:
    """What comes after a cycle has come to rest finds it as if nothing had been before."""

    def law(first: list[tuple[str, int]], second: list[tuple[str, int]]) -> None:
        flow = shrinking(smaller)
        before, both = run(flow, {"in": first}), run(flow, {"in": [*first, *second]})
        again = run(flow, {"in": [*first, *second]})
        assert both == again
        assert set(before.table("latest").values()) <= {n for _, n in first if n < 0} | {0}
        for key, values in before.per_key("smaller").items():
            assert both.per_key("smaller")[key][: len(values)] == values
            alone = run(flow, {"in": second}).per_key("smaller").get(key, [])
            assert both.per_key("smaller")[key][len(values) :] == alone
        for walk in runs(flow, {"in": first}, count=3):
            assert set(walk.table("latest")) == set(before.table("latest"))

    return law


def test_a_cycle_that_has_come_to_rest_stays() -> None:
    holds(a_cycle_stays_at_rest(lambda n: n // 2), first=RECORDS, second=RECORDS)
    is_caught(a_cycle_stays_at_rest(Counting().smaller), first=RECORDS, second=RECORDS)


class Counting:
    """A function that remembers: a second run finds it another one."""

    def __init__(self) -> None:
        self.calls = 0

    def smaller(self, number: int) -> int:
        self.calls += 1
        return number // (2 + self.calls % 3)


def test_numbers_that_go_round_end_at_nought() -> None:
    def law(numbers: list[int]) -> None:
        found = run(shrinking(lambda n: n // 2), {"in": [("k", n) for n in numbers]})
        assert found.values("smaller").count(0) == sum(n > 0 for n in numbers)

    holds(law, numbers=NUMBERS)
