"""The laws of steps without state: identity, fusion, associativity, unit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

import pytest
from hypothesis import strategies as st

from millstream.flow.node import Pure
from millstream.operators import Outputs, pure
from tests.flow.laws import NUMBERS, RECORDS, Law, holds, is_caught, through

Function = Callable[[int], Any]
Many = Callable[[int], Iterable[int]]

FUNCTIONS = st.sampled_from([lambda n: n + 1, lambda n: 2 * n, lambda n: -n, lambda n: n % 5, lambda _: 0])
MANY = st.sampled_from(
    [lambda n: [n, n + 1], lambda n: range(n % 4), lambda _: (), lambda n: [n], lambda n: [n, -n, n]]
)


def same(number: int) -> int:
    return number


def then(first: Function, second: Function) -> Function:
    return lambda number: second(first(number))


def identity_of_map(identity: Function) -> Law:
    def law(records: list[tuple[str, int]]) -> None:
        assert through(lambda s: s.map(identity), records) == through(lambda s: s, records)

    return law


def test_mapping_what_changes_nothing_changes_nothing() -> None:
    holds(identity_of_map(same), records=RECORDS)
    is_caught(identity_of_map(abs), records=RECORDS)


def fusion_of_map(fused: Callable[[Function, Function], Function]) -> Law:
    def law(records: list[tuple[str, int]], one: Function, two: Function) -> None:
        apart = through(lambda s: s.map(one).map(two), records)
        assert apart == through(lambda s: s.map(fused(one, two)), records)

    return law


def test_two_maps_are_one() -> None:
    holds(fusion_of_map(then), records=RECORDS, one=FUNCTIONS, two=FUNCTIONS)
    is_caught(fusion_of_map(lambda one, two: then(two, one)), records=RECORDS, one=FUNCTIONS, two=FUNCTIONS)


def associativity_of_flat_map(fused: Callable[[Many, Many], Many]) -> Law:
    def law(records: list[tuple[str, int]], one: Many, two: Many) -> None:
        apart = through(lambda s: s.flat_map(one).flat_map(two), records)
        assert apart == through(lambda s: s.flat_map(fused(one, two)), records)

    return law


def each_in_turn(one: Many, two: Many) -> Many:
    return lambda number: [last for middle in one(number) for last in two(middle)]


def the_second_first(one: Many, two: Many) -> Many:
    return each_in_turn(two, one)


def test_flat_map_is_associative() -> None:
    holds(associativity_of_flat_map(each_in_turn), records=RECORDS, one=MANY, two=MANY)
    is_caught(associativity_of_flat_map(the_second_first), records=RECORDS, one=MANY, two=MANY)


def unit_of_flat_map(unit: Many) -> Law:
    def law(records: list[tuple[str, int]], one: Many) -> None:
        plain = through(lambda s: s.flat_map(one), records)
        assert plain == through(lambda s: s.flat_map(unit).flat_map(one), records)
        assert plain == through(lambda s: s.flat_map(one).flat_map(unit), records)

    return law


def test_a_list_of_one_is_the_unit_of_flat_map() -> None:
    holds(unit_of_flat_map(lambda number: [number]), records=RECORDS, one=MANY)
    is_caught(unit_of_flat_map(lambda number: [number, number]), records=RECORDS, one=MANY)


def filter_as_flat_map(kept: Function) -> Law:
    def law(records: list[tuple[str, int]], one: Function) -> None:
        assert through(lambda s: s.filter(one), records) == through(
            lambda s: s.flat_map(lambda n: [n] if kept(one(n)) else []), records
        )

    return law


def test_filter_and_collect_are_flat_maps_that_keep_or_leave_out() -> None:
    holds(filter_as_flat_map(bool), records=RECORDS, one=FUNCTIONS)
    is_caught(filter_as_flat_map(lambda found: not found), records=RECORDS, one=FUNCTIONS)
    records = [("x", number) for number in range(6)]
    found = through(lambda s: s.collect(lambda n: n * 10 if n % 2 else None, value=int), records)
    assert found == {"x": [10, 30, 50]}


def flattened(unflat: Callable[[list[int]], list[list[int]]]) -> Law:
    def law(numbers: list[int]) -> None:
        found = through(lambda s: s.flatten(), [("k", part) for part in unflat(numbers)])
        assert found.get("k", []) == numbers

    return law


def in_pairs(numbers: list[int]) -> list[list[int]]:
    return [numbers[start : start + 2] for start in range(0, len(numbers), 2)]


def test_flatten_undoes_cutting_into_lists() -> None:
    holds(flattened(in_pairs), numbers=NUMBERS)
    is_caught(flattened(lambda numbers: [part[::-1] for part in in_pairs(numbers)]), numbers=NUMBERS)


def identity_of_table_map(identity: Function) -> Law:
    def law(records: list[tuple[str, int]]) -> None:
        rows = [(key, None if value % 3 == 0 else value) for key, value in records]
        mapped = through(lambda s: s.latest().map(identity).updates(), rows)
        assert mapped == through(lambda s: s.latest().updates(), rows)

    return law


def test_mapping_a_table_by_what_changes_nothing_changes_nothing() -> None:
    holds(identity_of_table_map(same), records=RECORDS)
    is_caught(identity_of_table_map(abs), records=RECORDS)


def fusion_of_table_map(fused: Callable[[Function, Function], Function]) -> Law:
    def law(records: list[tuple[str, int]], one: Function, two: Function) -> None:
        rows = [(key, None if value % 3 == 0 else value) for key, value in records]
        apart = through(lambda s: s.latest().map(one).map(two).updates(), rows)
        assert apart == through(lambda s: s.latest().map(fused(one, two)).updates(), rows)

    return law


def test_two_maps_of_a_table_are_one() -> None:
    holds(fusion_of_table_map(then), records=RECORDS, one=FUNCTIONS, two=FUNCTIONS)
    is_caught(
        fusion_of_table_map(lambda one, two: then(two, one)), records=RECORDS, one=FUNCTIONS, two=FUNCTIONS
    )


def test_a_table_map_is_not_asked_about_keys_that_are_taken_away() -> None:
    assert through(lambda s: s.latest().map(abs).updates(), [("k", -1), ("k", None)]) == {"k": [1, None]}


def forgetful(node: Pure) -> Outputs:
    """Steps that lose what is 0."""
    right = pure(node)
    return lambda key, value: [one for one in right(key, value) if one != 0]


def repeating(node: Pure) -> Outputs:
    """Steps that give everything twice."""
    right = pure(node)
    return lambda key, value: list(right(key, value)) * 2


@pytest.mark.parametrize("wrong", [forgetful, repeating])
def test_operators_that_are_wrong_are_caught_by_the_laws(
    wrong: Callable[[Pure], Outputs], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("millstream.testing.machine"), "pure", wrong)
    is_caught(identity_of_map(same), records=RECORDS)
    is_caught(flattened(in_pairs), numbers=NUMBERS)
    is_caught(unit_of_flat_map(lambda number: [number]), records=RECORDS, one=MANY)
