"""Joins and views: what a table does to another, and to the events that meet it."""

from __future__ import annotations

from typing import Any

import pytest

from millstream.errors import InvalidFlow, StepFailed
from millstream.flow import Flow, Grouped
from millstream.testing import In, explore, run
from tests.flow.laws import table_of

LEFT = [("a", 1), ("b", 2), ("a", None)]
RIGHT = [("b", 20), ("c", 30), ("b", None)]


def joined(how: Any, left: list[Any], right: list[Any]) -> dict[Any, list[Any]]:  # noqa: ANN401
    flow = Flow("join")
    table_of(flow, "left").join(table_of(flow, "right"), how).sink("out")
    inputs = {
        "left": [In(value, key, timestamp=2 * n) for n, (key, value) in enumerate(left)],
        "right": [In(value, key, timestamp=2 * n + 1) for n, (key, value) in enumerate(right)],
    }
    return run(flow, inputs).per_key("out")


def test_an_inner_join_has_the_keys_that_both_have() -> None:
    assert joined("inner", [("a", 1), ("b", 2)], [("b", 20), ("c", 30)]) == {"b": [(2, 20)]}


def test_a_left_join_has_the_keys_of_the_left() -> None:
    assert joined("left", [("a", 1), ("b", 2)], [("c", 30), ("b", 20)]) == {
        "a": [(1, None)],
        "b": [(2, None), (2, 20)],
    }


def test_a_full_join_has_the_keys_of_either() -> None:
    assert joined("full", [("a", 1), ("b", 2)], [("c", 30), ("b", 20)]) == {
        "a": [(1, None)],
        "b": [(2, None), (2, 20)],
        "c": [(None, 30)],
    }


@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        ("inner", [(1, 10), None]),
        ("left", [(1, None), (1, 10), (1, None), None]),
        ("full", [(1, None), (1, 10), (1, None), None]),
    ],
)
def test_a_row_that_is_no_more_is_taken_away(how: str, wanted: list[object]) -> None:
    assert joined(how, [("k", 1), ("x", 0), ("k", None)], [("k", 10), ("k", None)])["k"] == wanted


def test_a_row_that_never_was_is_not_taken_away() -> None:
    assert joined("inner", [("k", 1), ("k", None)], []) == {}
    assert joined("full", [("k", None)], [("k", None)]) == {}


def test_a_table_joined_with_itself_ends_with_its_own_values() -> None:
    flow = Flow("self")
    table = table_of(flow, "in")
    table.join(table).sink("out")
    ends = {repr(one.table("out")) for one in explore(flow, {"in": [("k", 1), ("k", 2)]})}
    assert ends == {"{'k': (2, 2)}"}


def test_joins_end_alike_in_every_order() -> None:
    for how in ("inner", "left", "full"):
        flow = Flow("join")
        tables: list[Any] = [table_of(flow, name) for name in ("left", "right")]
        tables[0].join(tables[1], how).sink("out")
        assert len({repr(one.table("out")) for one in explore(flow, {"left": LEFT, "right": RIGHT})}) == 1


@pytest.mark.parametrize("how", ["outer", "right", "", None])
def test_a_way_to_join_that_there_is_not_is_refused(how: object) -> None:
    with pytest.raises(InvalidFlow, match="expected 'inner' or 'left' or 'full'"):
        joined(how, [], [])


def enriched(how: Any, value: type[Any] = str) -> Flow:  # noqa: ANN401
    flow = Flow("events")
    events: Grouped[str, Any] = flow.source("events", key=str, value=value).group_by_key()
    events.join(table_of(flow, "table"), how).sink("out")
    return flow


EVENTS = [In("early", "k", timestamp=0), In("late", "k", timestamp=20), In("after", "k", timestamp=40)]
TABLE = [In(7, "k", timestamp=10), In(None, "k", timestamp=30)]


def test_an_event_meets_what_the_table_has_at_that_moment() -> None:
    inputs = {"events": EVENTS, "table": TABLE}
    assert run(enriched("inner"), inputs).values("out") == [("late", 7)]
    assert run(enriched("left"), inputs).values("out") == [("early", None), ("late", 7), ("after", None)]


def test_an_event_may_meet_any_state_of_the_table_and_never_an_older_one_again() -> None:
    found = {
        tuple(value for _, value in one.values("out"))
        for one in explore(enriched("left"), {"events": EVENTS, "table": TABLE[:1]})
    }
    assert found == {(None, None, None), (None, None, 7), (None, 7, 7), (7, 7, 7)}


def test_an_event_without_a_value_is_an_event() -> None:
    inputs = {"events": [In(None, "k", timestamp=20)], "table": TABLE[:1]}
    assert run(enriched("inner", Any), inputs).values("out") == [(None, 7)]
    with pytest.raises(StepFailed, match=r"is no tuple.str, int."):  # unless its type says that there is none
        run(enriched("inner"), inputs)


def test_invert_swaps_the_key_and_the_first_of_a_pair() -> None:
    flow = Flow("invert")
    flow.source("in", key=str, value=tuple[int, str]).invert().sink("out")
    found = run(flow, {"in": [("ann", (1, "x")), ("bob", (1, "y")), ("ann", (2, "z"))]})
    assert found.per_key("out") == {1: [("ann", "x"), ("bob", "y")], 2: [("ann", "z")]}


def test_inverting_twice_changes_nothing() -> None:
    flow = Flow("invert")
    flow.source("in", key=str, value=tuple[int, str]).invert().invert().sink("out")
    records = [("ann", (1, "x")), ("bob", (1, "y")), ("ann", (2, "z"))]
    assert run(flow, {"in": records}).per_key("out") == {"ann": [(1, "x"), (2, "z")], "bob": [(1, "y")]}


CARTS = [("ann", {"figs": 2, "nuts": 1}), ("bob", {"figs": 5}), ("ann", {"nuts": 4}), ("bob", None)]


def test_sum_by_key_follows_every_change_and_takes_an_empty_sum_away() -> None:
    flow = Flow("sums")
    table_of(flow, "in", dict[str, int]).sum_by_key().sink("out")
    assert run(flow, {"in": CARTS}).per_key("out") == {"figs": [2, 7, 5, None], "nuts": [1, 4]}


def test_latest_by_key_has_for_each_field_who_has_it() -> None:
    flow = Flow("latest")
    table_of(flow, "in", dict[str, int]).latest_by_key().sink("out")
    assert run(flow, {"in": CARTS}).per_key("out") == {
        "figs": [{"ann": 2}, {"ann": 2, "bob": 5}, {"bob": 5}, None],
        "nuts": [{"ann": 1}, {"ann": 4}],
    }


def test_a_view_ends_alike_in_every_order() -> None:
    for view in ("sum_by_key", "latest_by_key"):
        flow = Flow("view")
        getattr(table_of(flow, "in", dict[str, int]), view)().sink("out")
        ends = [one.table("out") for one in explore(flow, {"in": CARTS})]
        assert all(end == ends[0] for end in ends)


def test_a_table_has_no_methods_of_streams_and_says_where_they_are() -> None:
    flow = Flow("t")
    table: Any = table_of(flow, "in")
    table.group_by(str).sink("out")
    with pytest.raises(InvalidFlow, match=r"put \.updates\(\) before \.group_by"):
        flow.build()
