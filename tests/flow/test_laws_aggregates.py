"""The laws of aggregates: any bracketing gives the same; and of `grouped`: nothing is lost."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import chain
from typing import Any

import pytest
from hypothesis import strategies as st

from millstream import operators
from millstream.flow import Aggregate, Flow, steps
from millstream.flow.aggregate import count, distinct, largest, mean, smallest, top_k, total, variance
from millstream.operators import Meaning
from millstream.operators.grouped import grouped
from millstream.testing import run
from tests.flow.laws import NUMBERS, Law, Value, holds, is_caught, through

EXACT: list[Aggregate[Any, Any, Any]] = [
    count(),
    total(),
    smallest(),
    largest(),
    mean(),
    top_k(3),
    distinct(),
]
FLOATS = st.lists(st.floats(-1e6, 1e6), max_size=12)
ANY_FLOATS = st.lists(st.sampled_from([0.0, -0.0, 1.0, 2.5, -3.0, math.inf, -math.inf, math.nan]), max_size=8)
CUTS = st.randoms(use_true_random=False)


def straight(aggregate: Aggregate[Any, Any, Any], values: list[Any]) -> Value:
    state = aggregate.zero
    for value in values:
        state = aggregate.plus(state, aggregate.lift(value))
    return state


def bracketed(aggregate: Aggregate[Any, Any, Any], values: list[Any], chance: Value) -> Value:
    """Parts put together in some bracketing, with zeros in between."""
    parts = [aggregate.lift(value) for value in values] or [aggregate.zero]
    while len(parts) > 1:
        place = chance.randrange(len(parts) - 1)
        parts[place : place + 2] = [aggregate.plus(parts[place], parts[place + 1])]
        if chance.random() < 0.2:
            parts.insert(chance.randrange(len(parts) + 1), aggregate.zero)
    return parts[0]


def alike(one: Value, other: Value) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return (
            math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-3)
            or one == other
            or (math.isnan(one) and math.isnan(other))
        )
    if isinstance(one, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other) and type(one) is type(other)


def any_bracketing_is_right(aggregate: Aggregate[Any, Any, Any]) -> Law:
    def law(values: list[Any], chance: Value) -> None:
        one, other = straight(aggregate, values), bracketed(aggregate, values, chance)
        assert alike(aggregate.present(one), aggregate.present(other))

    return law


@pytest.mark.parametrize("aggregate", EXACT, ids=lambda one: one.title)
def test_an_aggregate_of_whole_numbers_is_the_same_in_any_bracketing(
    aggregate: Aggregate[Any, Any, Any],
) -> None:
    holds(any_bracketing_is_right(aggregate), values=NUMBERS, chance=CUTS)


@pytest.mark.parametrize("aggregate", [*EXACT, variance()], ids=lambda one: one.title)
def test_an_aggregate_of_floats_is_the_same_but_for_rounding(aggregate: Aggregate[Any, Any, Any]) -> None:
    holds(any_bracketing_is_right(aggregate), values=FLOATS, chance=CUTS)


@pytest.mark.parametrize(
    "aggregate", [count(), smallest(), largest(), top_k(3), distinct()], ids=lambda one: one.title
)
def test_nan_and_the_infinities_make_no_difference_to_that(aggregate: Aggregate[Any, Any, Any]) -> None:
    holds(any_bracketing_is_right(aggregate), values=ANY_FLOATS, chance=CUTS)


def mean_of_means() -> Aggregate[Any, Any, Any]:
    return Aggregate("mean", 0, float, lambda left, right: (left + right) / 2, float)


def larger_by_less() -> Aggregate[Any, Any, Any]:
    """The largest as it is usually written: NaN is sometimes lost."""
    return Aggregate("max", -math.inf, float, lambda left, right: right if left < right else left, float)


def test_aggregates_that_are_not_associative_are_caught() -> None:
    is_caught(any_bracketing_is_right(mean_of_means()), values=NUMBERS, chance=CUTS)
    is_caught(any_bracketing_is_right(larger_by_less()), values=ANY_FLOATS, chance=CUTS)
    difference: Aggregate[int, int, int] = Aggregate("minus", 0, int, lambda left, right: left - right, int)
    is_caught(any_bracketing_is_right(difference), values=NUMBERS, chance=CUTS)
    unstable = Aggregate("first", 0, int, lambda left, _: left, int)
    is_caught(any_bracketing_is_right(unstable), values=NUMBERS, chance=CUTS)


RECOMPUTED: list[tuple[Aggregate[Any, Any, Any], Callable[[list[int]], Any]]] = [
    (count(), len),
    (total(), sum),
    (smallest(), min),
    (largest(), max),
    (mean(), lambda values: sum(values) / len(values)),
    (variance(), lambda values: float(statistics.pvariance([Fraction(value) for value in values]))),
    (top_k(3), lambda values: sorted(values, reverse=True)[:3]),
    (distinct(), lambda values: len(set(values))),
]


def equals(aggregate: Aggregate[Any, Any, Any], recompute: Callable[[list[int]], Any]) -> Law:
    def law(values: list[int]) -> None:
        flow = Flow("aggregate")
        flow.source("in", key=str, value=int).group_by_key().aggregate(aggregate).sink("out")
        found = run(flow, {"in": [("k", value) for value in values]}).values("out")
        wanted = [recompute(values[: size + 1]) for size in range(len(values))]
        assert len(found) == len(wanted)
        assert all(map(alike, found, wanted))

    return law


@pytest.mark.parametrize(("aggregate", "recompute"), RECOMPUTED, ids=lambda one: getattr(one, "title", ""))
def test_an_aggregate_equals_recomputation_at_each_step(
    aggregate: Aggregate[Any, Any, Any], recompute: Callable[[list[int]], Any]
) -> None:
    holds(equals(aggregate, recompute), values=NUMBERS)
    is_caught(equals(aggregate, lambda values: recompute([*values, 100, -101])), values=NUMBERS)


def test_of_equal_values_the_first_stays_first() -> None:
    flow = Flow("top")
    source = flow.source("in", key=str, value=tuple[int, str]).group_by_key()
    source.top_k(2, of=first).sink("top")
    source.min(of=first).sink("min")
    records = [("k", (1, "a")), ("k", (2, "b")), ("k", (2, "c")), ("k", (1, "d"))]
    found = run(flow, {"in": records})
    assert found.values("top")[-1] == [(2, "b"), (2, "c")]
    assert found.values("min")[-1] == 1


def first(pair: tuple[int, str]) -> int:
    return pair[0]


def nothing_is_lost(finish: bool) -> Law:
    def law(values: list[int], size: int) -> None:
        records = [("xy"[value % 2], value) for value in values]
        found = through(lambda s: s.grouped(size, flush=True), records, finish=finish)
        for key, lists in found.items():
            assert all(len(one) == size for one in lists[:-1])
            assert 1 <= len(lists[-1]) <= size
            assert list(chain(*lists)) == [value for one, value in records if one == key]
        assert Counter(v for lists in found.values() for one in lists for v in one) == Counter(values)

    return law


def loses_the_last(step: steps.Grouped) -> Meaning:
    right = grouped(step)
    return right._replace(finish=lambda _, __: ([], ()))


def turns_round(step: steps.Grouped) -> Meaning:
    right = grouped(step)

    def run(state: Value, value: Value) -> tuple[Value, Value]:
        state, lists = right.run(state, value)
        return state, [one[::-1] for one in lists]

    return right._replace(run=run)


SIZES = st.integers(1, 4)


def test_grouped_loses_nothing() -> None:
    holds(nothing_is_lost(finish=True), values=NUMBERS, size=SIZES)
    is_caught(nothing_is_lost(finish=False), values=NUMBERS, size=SIZES)


@pytest.mark.parametrize("wrong", [loses_the_last, turns_round])
def test_a_grouped_that_loses_or_turns_round_is_caught(
    wrong: Callable[[Any], Meaning], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(operators._MEANINGS, steps.Grouped, wrong)
    is_caught(nothing_is_lost(finish=True), values=NUMBERS, size=SIZES)


def test_what_is_left_over_stays_unless_flush_was_asked_for() -> None:
    records = [("k", number) for number in range(5)]
    assert through(lambda s: s.grouped(2), records, finish=True) == {"k": [[0, 1], [2, 3]]}
    assert through(lambda s: s.grouped(2, flush=True), records) == {"k": [[0, 1], [2, 3]]}
    assert through(lambda s: s.grouped(2, flush=True), records, finish=True) == {"k": [[0, 1], [2, 3], [4]]}
