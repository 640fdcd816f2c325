"""The laws of tables: updates and contents say the same, views equal what is computed anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st

from millstream import operators
from millstream.flow import Flow, steps
from millstream.operators import Meaning
from millstream.operators.changes import changes
from millstream.operators.latest_view import latest_view
from millstream.operators.sum_view import sum_view
from millstream.testing import run
from tests.flow.laws import Law, Value, holds, is_caught, table_of, through

MAPS = st.none() | st.dictionaries(st.sampled_from("pq"), st.integers(1, 9) | st.none(), max_size=2)
UPDATES = st.lists(st.tuples(st.sampled_from("xyz"), MAPS), max_size=10)
VALUES = st.lists(st.tuples(st.sampled_from("xyz"), st.none() | st.integers(0, 9)), max_size=12)
Rows = list[tuple[str, Any]]


def folded(updates: Rows) -> dict[str, Any]:
    """What a table holds after its updates."""
    table: dict[str, Any] = {}
    for key, value in updates:
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
    return table


def updates_make_the_table(fold: Callable[[Rows], dict[str, Any]]) -> Law:
    def law(updates: Rows) -> None:
        flow = Flow("table")
        table_of(flow, "in").sink("out")
        assert run(flow, {"in": updates}).table("out") == fold(updates)

    return law


def test_folding_the_updates_of_a_table_gives_the_table() -> None:
    holds(updates_make_the_table(folded), updates=VALUES)
    is_caught(updates_make_the_table(dict), updates=VALUES)  # None as a value
    is_caught(
        updates_make_the_table(lambda updates: folded(updates[::-1])), updates=VALUES
    )  # the first stays


def pairs_follow_each_other(get: Callable[[tuple[Any, Any]], Any]) -> Law:
    """Each pair begins with what the one before ended with."""

    def law(updates: Rows) -> None:
        for found in through(lambda s: s.latest().updated_pairs(), updates).values():
            before = None
            for pair in found:
                assert get(pair) == before
                before = pair[1]

    return law


def test_updated_pairs_are_the_value_before_and_the_value_now() -> None:
    holds(pairs_follow_each_other(lambda pair: pair[0]), updates=VALUES)
    is_caught(pairs_follow_each_other(lambda pair: pair[1]), updates=VALUES)
    assert through(
        lambda s: s.latest().updated_pairs(), [("k", None), ("k", 1), ("k", None), ("k", None)]
    ) == {"k": [(None, 1), (1, None)]}


def summed(maps: dict[str, dict[str, int | None]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in maps.values():
        for field, value in one.items():
            if value is not None:
                found[field] = found.get(field, 0) + value
    return found


def gathered(maps: dict[str, dict[str, int | None]]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for key, one in maps.items():
        for field, value in one.items():
            if value is not None:
                found.setdefault(field, {})[key] = value
    return found


def views_equal_recomputation(recompute: Callable[[dict[str, Any]], dict[str, Any]], view: str) -> Law:
    def law(updates: Rows) -> None:
        flow = Flow("view")
        getattr(table_of(flow, "in", dict[str, int | None]), view)().sink("out")
        for size in range(len(updates) + 1):
            assert run(flow, {"in": updates[:size]}).table("out") == recompute(folded(updates[:size]))

    return law


SUMS = views_equal_recomputation(summed, "sum_by_key")
LATEST = views_equal_recomputation(gathered, "latest_by_key")


def test_sum_by_key_equals_recomputation_at_each_step() -> None:
    holds(SUMS, updates=UPDATES)
    is_caught(
        views_equal_recomputation(
            lambda maps: {f: max(0, n - 1) for f, n in summed(maps).items()}, "sum_by_key"
        ),
        updates=UPDATES,
    )


def test_latest_by_key_equals_recomputation_at_each_step() -> None:
    holds(LATEST, updates=UPDATES)
    is_caught(
        views_equal_recomputation(lambda maps: dict(list(gathered(maps).items())[:1]), "latest_by_key"),
        updates=UPDATES,
    )


def never_takes_back(step: steps.SumView) -> Meaning:
    right = sum_view(step)
    return right._replace(run=lambda state, change: right.run(state, (*change[:2], None, change[3])))


def never_forgets(step: steps.LatestView) -> Meaning:
    right = latest_view(step)
    return right._replace(
        run=lambda state, change: right.run(state, change) if change[3] is not None else (state, (state,))
    )


def only_what_is_new(step: steps.Changes) -> Meaning:
    right = changes(step)

    def run(state: Value, update: Value) -> tuple[Value, list[Value]]:
        state, found = right.run(state, update)
        return state, [change for change in found if change[3] is not None]

    return right._replace(run=run)


@pytest.mark.parametrize(
    ("step", "wrong", "law"),
    [
        (steps.SumView, never_takes_back, SUMS),
        (steps.LatestView, never_forgets, LATEST),
        (steps.Changes, only_what_is_new, SUMS),
        (steps.Changes, only_what_is_new, LATEST),
    ],
    ids=["never takes back", "never forgets", "changes, sum", "changes, latest"],
)
def test_a_view_that_is_wrong_is_caught(
    step: type[steps.Step], wrong: Callable[[Any], Meaning], law: Law, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(operators._MEANINGS, step, wrong)
    is_caught(law, updates=UPDATES)


def joined(left: Rows, right: Rows, how: str) -> dict[str, Any]:
    lefts, rights = folded(left), folded(right)
    keys = {"inner": lefts.keys() & rights.keys(), "left": lefts.keys(), "full": lefts.keys() | rights.keys()}
    return {key: (lefts.get(key), rights.get(key)) for key in keys[how]}


def joins_equal_recomputation(how: str, recompute: str) -> Law:
    def law(left: Rows, right: Rows) -> None:
        flow = Flow("join")
        tables: list[Any] = [table_of(flow, name) for name in ("left", "right")]
        tables[0].join(tables[1], how).sink("out")
        found = run(flow, {"left": left, "right": right})
        assert found.table("out") == joined(left, right, recompute)

    return law


@pytest.mark.parametrize("how", ["inner", "left", "full"])
def test_a_join_of_tables_equals_a_join_of_what_they_hold(how: str) -> None:
    holds(joins_equal_recomputation(how, how), left=VALUES, right=VALUES)
    other = {"inner": "left", "left": "full", "full": "inner"}[how]
    is_caught(joins_equal_recomputation(how, other), left=VALUES, right=VALUES)
