"""The names under which states are kept: given or derived, never from where a step stands."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from millstream.errors import InvalidFlow
from millstream.flow import Flow, Grouped, update
from millstream.flow.node import Stateful


def add(total: int, value: int) -> int:
    return total + value


def scaled(scale: int, total: int, value: int) -> int:
    return total + scale * value


class Left:
    @staticmethod
    def add(total: int, value: int) -> int:
        return total + value


class Right:
    @staticmethod
    def add(total: int, value: int) -> int:
        return total - value


class Adder:
    def __call__(self, total: int, value: int) -> int:
        return total + value

    def plus(self, total: int, value: int) -> int:
        return total + value


def cents(value: int) -> int:
    return value


def numbers_of(flow: Flow, stream: str = "numbers") -> Grouped[str, int]:
    return flow.source(stream, key=str, value=int).group_by_key()


def names(flow: Flow) -> list[str]:
    return [node.name for node in flow.build().nodes if isinstance(node, Stateful)]


def name_of(build: Callable[[Grouped[str, int]], Any]) -> str:
    flow = Flow("f")
    build(numbers_of(flow)).sink("out")
    [found] = names(flow)
    return found


@pytest.mark.parametrize(
    ("expected", "build"),
    [
        ("mine", lambda numbers: numbers.fold(0, add, name="mine")),
        ("fold add of numbers", lambda numbers: numbers.fold(0, add)),
        ("fold Left.add of numbers", lambda numbers: numbers.fold(0, Left.add)),
        ("fold Right.add of numbers", lambda numbers: numbers.fold(0, Right.add)),
        ("fold Adder of numbers", lambda numbers: numbers.fold(0, Adder())),
        ("fold Adder.plus of numbers", lambda numbers: numbers.fold(0, Adder().plus)),
        ("fold scaled of numbers", lambda numbers: numbers.fold(0, partial(scaled, 2))),
        ("fold max of numbers", lambda numbers: numbers.fold(0, max)),
        ("transform divmod of numbers", lambda numbers: numbers.transform(0, divmod)),
        ("process add of numbers", lambda numbers: numbers.process(0, add)),
        ("aggregate add of numbers", lambda numbers: numbers.aggregate(0, add)),
        ("count of numbers", lambda numbers: numbers.count()),
        ("sum of numbers", lambda numbers: numbers.sum()),
        ("sum cents of numbers", lambda numbers: numbers.sum(cents)),
        ("top 3 cents of numbers", lambda numbers: numbers.top_k(3, cents)),
        ("grouped 5 of numbers", lambda numbers: numbers.grouped(5)),
        ("updated_pairs of numbers", lambda numbers: numbers.latest().updated_pairs()),
    ],
    ids=str,
)
def test_a_name_is_given_or_derived(expected: str, build: Callable[[Grouped[str, int]], Any]) -> None:
    assert name_of(build) == expected


def test_steps_without_state_do_not_change_the_names_of_those_that_follow() -> None:
    assert name_of(lambda numbers: numbers.map(abs).filter(bool).fold(0, add)) == "fold add of numbers"


def test_the_nearest_name_that_was_given_counts() -> None:
    flow = Flow("f")
    numbers_of(flow).grouped(5, name="fives").flatten().fold(0, add).sink("out")
    assert names(flow) == ["fives", "fold add of fives"]


def test_a_function_within_another_is_known_by_both() -> None:
    def add(total: int, value: int) -> int:
        return total + value

    assert name_of(lambda numbers: numbers.fold(0, add)) == (
        "fold test_a_function_within_another_is_known_by_both.add of numbers"
    )


def test_names_do_not_follow_from_the_order_in_which_steps_were_written() -> None:
    def flow_of(*order: str) -> Flow:
        flow = Flow("f")
        for stream in order:
            numbers = numbers_of(flow, stream)
            numbers.fold(0, add).sink(f"{stream}-sums")
            numbers.count().sink(f"{stream}-counts")
        return flow

    assert names(flow_of("a", "b")) == ["fold add of a", "count of a", "fold add of b", "count of b"]
    assert sorted(names(flow_of("a", "b"))) == sorted(names(flow_of("b", "a")))


def test_a_named_stream_between_gives_its_name() -> None:
    flow = Flow("f")
    kept = flow.stream("kept", numbers_of(flow).fold(0, add))
    kept.fold(0, add).sink("out")
    assert names(flow) == ["fold add of numbers", "fold add of kept"]


def test_the_name_after_a_merge_does_not_depend_on_the_order_of_what_is_merged() -> None:
    def flow_of(*order: str) -> Flow:
        flow = Flow("f")
        flow.merge(*(numbers_of(flow, stream) for stream in order)).fold(0, add).sink("out")
        return flow

    assert names(flow_of("a", "b")) == names(flow_of("b", "a")) == ["fold add of a+b"]


@pytest.mark.parametrize(
    "function", [lambda total, value: total + value, partial(lambda _, total, value: total + value, 1)]
)
def test_a_lambda_needs_a_name(function: Callable[[int, int], int]) -> None:
    flow = Flow("f")
    numbers_of(flow).fold(0, function).sink("out")
    with pytest.raises(InvalidFlow, match="pass name="):
        flow.build()
    assert name_of(lambda numbers: numbers.fold(0, function, name="mine")) == "mine"


def test_a_process_that_was_put_together_needs_a_name() -> None:
    flow = Flow("f")
    numbers_of(flow).process(0, update(add)).sink("out")
    with pytest.raises(InvalidFlow, match="process keeps state and has no name to keep it under"):
        flow.build()


@pytest.mark.parametrize("functions", [(add, add), (partial(scaled, 1), partial(scaled, 2))])
def test_two_equal_ones_are_refused_so_that_they_cannot_change_places(
    functions: tuple[Callable[[int, int], int], Callable[[int, int], int]],
) -> None:
    for first, second in (functions, functions[::-1]):
        flow = Flow("f")
        numbers = numbers_of(flow)
        numbers.filter(bool).fold(0, first).sink("a")
        numbers.map(abs).fold(0, second).sink("b")
        with pytest.raises(InvalidFlow, match="which state is whose would depend on their order"):
            flow.build()


def test_a_derived_name_that_was_given_to_another_step_is_refused() -> None:
    flow = Flow("f")
    numbers = numbers_of(flow)
    numbers.fold(0, add).sink("a")
    numbers.count(name="fold add of numbers").sink("b")
    with pytest.raises(InvalidFlow, match="'fold add of numbers' too"):
        flow.build()


def test_functions_of_one_name_in_two_classes_keep_states_of_their_own() -> None:
    flow = Flow("f")
    numbers = numbers_of(flow)
    numbers.fold(0, Left.add).sink("a")
    numbers.fold(0, Right.add).sink("b")
    assert names(flow) == ["fold Left.add of numbers", "fold Right.add of numbers"]


def test_views_of_a_table_are_two_steps_with_names_of_their_own() -> None:
    flow = Flow("f")
    maps = flow.source("maps", key=str, value=dict[str, int]).group_by_key().latest()
    maps.sum_by_key().sink("sums")
    maps.latest_by_key().sink("latest")
    found = names(flow)
    assert len(set(found)) == 4
    assert "sum_by_key of maps" in found
