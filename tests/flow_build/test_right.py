"""What is right is not refused: functions of every kind, and types as far as they are known."""

from __future__ import annotations

import datetime as dt
import json
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, partial, wraps
from threading import Lock
from typing import Any, NamedTuple, NewType, Protocol, TypedDict, TypeVar

import msgspec
import pytest

from millstream.errors import StepFailed
from millstream.flow import Branch, Flow, Stream, emit, on, skip, update
from millstream.testing import run

T = TypeVar("T")
Cents = NewType("Cents", int)


class Pair(NamedTuple):
    left: int
    right: str


class Fields(TypedDict):
    cents: int


class Sized(Protocol):
    def __len__(self) -> int: ...


@dataclass(frozen=True)
class Scale:
    by: int

    def __call__(self, value: int) -> int:
        return self.by * value

    def times(self, value: int) -> int:
        return self.by * value

    @staticmethod
    def twice(value: int) -> int:
        return 2 * value

    @classmethod
    def of(cls, value: int) -> Scale:
        return cls(value)


def guarded(function: Callable[[T], T]) -> Callable[[T], T]:
    lock = Lock()  # the function goes by its name, so this one stays here

    @wraps(function)
    def called(value: T) -> T:
        with lock:
            return function(value)

    return called


@guarded
def same(value: int) -> int:
    return value


@cache
def squared(value: int) -> int:
    return value * value


def sized(value: Sized) -> int:
    return len(value)


def half(value: float) -> float:
    return value / 2


def anything(value: T) -> T:
    return value


def several(*values: int) -> int:
    return sum(values)


def with_more(value: int, scale: int = 2, *, more: object = None) -> int:
    return value * scale if more is None else 0


def closure(by: int) -> Callable[[int], int]:
    table = {"by": by, "names": ["a", "b"]}

    def down(value: int) -> int:
        return down(value - 1) if value > 0 else int(table["by"] == by)

    return down


FUNCTIONS: dict[str, Callable[[int], object]] = {
    "a builtin": abs,
    "of another module": math.sqrt,
    "one that does not say what it takes": json.dumps,
    "a class": str,
    "a partial": partial(pow, 2),
    "a partial by name": partial(with_more, scale=3),
    "an operator": operator.neg,
    "a bound method": Scale(2).times,
    "a method of an object that is built in": {1: 2}.get,
    "a static method": Scale.twice,
    "a class method": Scale.of,
    "an object that can be called": Scale(2),
    "a lambda": lambda value: value + 1,
    "a recursive closure over plain data": closure(2),
    "one with a decorator": same,
    "one that remembers": squared,
    "one that takes a number": half,
    "one that takes anything": anything,
    "one that takes any number of values": several,
    "one with more arguments that have values": with_more,
    "a lambda over a module": lambda value: json.dumps([value]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_not_refused(name: str) -> None:
    function = FUNCTIONS[name]
    flow = Flow("f")
    numbers = flow.source("numbers", key=str, value=int)
    numbers.map(function, value=object).sink("mapped")
    numbers.filter(function).sink("filtered")
    numbers.group_by(lambda value: function(value) is None, key=bool).sink("grouped")
    flow.build()


def test_methods_of_texts_are_not_refused() -> None:
    flow = Flow("f")
    lines = flow.source("lines", value=str)
    lines.flat_map(str.split).map(str.lower).group_by(len, key=int).map(sized).sink("out")
    assert run(flow, {"lines": ["To be", "or not"]}).values("out") == [2, 2, 2, 3]


def total(values: Iterable[float], more: Mapping[str, float] | None = None) -> float:
    return sum(values) + len(more or {})


def first(pair: tuple[int, Any]) -> int:
    return int(pair[0])


def pairs(value: int) -> Iterator[tuple[int, str]]:
    yield value, str(value)


def to_date(moment: dt.date) -> str:
    return moment.isoformat()


def fields(value: Fields) -> Cents:
    return Cents(value["cents"])


def test_types_that_may_be_right_are_not_refused() -> None:
    flow = Flow("f")
    numbers = flow.source("numbers", key=str, value=int)
    numbers.map(lambda value: [value], value=list[int]).map(total).sink("a", value=float)
    numbers.flat_map(pairs).map(first).sink("b", value=int)
    numbers.map(half).sink("c", value=float)
    flow.source("moments", value=dt.datetime).map(to_date).sink("d")
    maps: Any = flow.source("maps", value=dict[str, int])
    maps.map(total).sink("e")
    maps.map(fields).map(abs).sink("f")
    maybe: Stream[None, int | None] = flow.source("maybe", value=int | None)
    maybe.map(lambda value: value or 0, value=int).sink("g")
    flow.source("named", value=Pair).map(first).sink("h")
    flow.source("exact", value=Decimal).group_by(str, key=str).sum().sink("i")
    sequence: Any = Sequence[str]
    flow.source("texts", value=sequence).map(sized).sink("j")
    left, right = numbers.group_by_key(), flow.source("others", key=str, value=str).group_by_key()
    left.join(right.latest()).map(first).sink("k")
    left.latest().join(right.latest(), "full").map(lambda pair: pair[0] or 0, value=int).sink("l")
    flow.build()


def test_a_merge_of_streams_whose_types_are_known_in_part_is_not_refused() -> None:
    flow = Flow("f")
    numbers = flow.source("numbers", key=str, value=int)
    tagged = numbers.map(lambda value: ("a", value), value=tuple[str, Any])
    flow.merge(tagged, numbers.map(lambda value: ("b", value), value=tuple[str, int])).sink("out")
    flow.build()


def test_steps_by_branch_are_found_through_filters_and_new_keys() -> None:
    def see(state: int, value: int) -> int:
        return state + value

    flow = Flow("f")
    numbers = flow.source("numbers", key=str, value=int)
    merged = flow.merge(left=numbers, right=numbers).filter(bool).group_by_key()
    merged.process(0, on(left=update(see), right=skip()).and_then(emit(see)), name="a").sink("a")
    merged.map(lambda branch: Branch("other", branch.value), value=Branch).process(
        0, on(other=update(see)), name="b"
    ).sink("b")
    flow.build()


def test_a_struct_that_holds_others_of_its_own_is_not_refused() -> None:
    flow = Flow("f")
    trees = flow.source("trees", value=Tree)
    trees.map(lambda tree: tree.children).flatten().sink("children", value=Tree)
    flow.build()


class Tree(msgspec.Struct):
    children: list[Tree]


def test_a_table_may_be_kept_under_a_name_and_stays_a_table() -> None:
    flow = Flow("f")
    numbers = flow.source("numbers", key=str, value=int).group_by_key()
    kept = flow.stream("totals", numbers.sum())
    numbers.join(kept, "left").sink("joined")
    found = run(flow, {"numbers": [("a", 1), ("a", 2)]})
    assert found.table("totals") == {"a": 3}
    assert len(found.values("joined")) == 2


@pytest.mark.parametrize("zero", [Scale(2), Pair(1, "a")])
def test_a_first_state_says_what_it_is_made_of(zero: object) -> None:
    flow = Flow("f")
    numbers = flow.source("numbers", key=str, value=int).group_by_key()
    numbers.process(zero, emit(lambda state, _: f"{state}"), name="kept", value=str).sink("out")
    assert run(flow, {"numbers": [("a", 1), ("a", 2)]}).values("out") == [f"{zero}"] * 2


def test_a_first_state_of_zero_is_no_reason_to_refuse_floats() -> None:
    flow = Flow("f")
    weights = flow.source("weights", key=str, value=float).group_by_key()
    zero: Any = 0  # type checkers would have 0.0
    weights.fold(zero, lambda total, weight: total + weight, name="total").sink("out")
    assert run(flow, {"weights": [("a", 0.5), ("a", 1.0)]}).values("out") == [0.5, 1.5]


def test_a_state_of_another_type_is_told_by_its_value() -> None:
    flow = Flow("f")
    numbers = flow.source("numbers", key=str, value=int).group_by_key()
    zero: Any = Scale(2)
    numbers.fold(zero, lambda _, value: value, name="last").sink("out")
    with pytest.raises(StepFailed, match="the state became 7, which is no Scale: say its type with state="):
        run(flow, {"numbers": [("a", 7)]})


def test_texts_of_a_step_that_does_not_say_its_type_go_round_in_a_cycle() -> None:
    flow = Flow("f")
    again = flow.cycle("again", key=str, value=str)
    texts = flow.merge(flow.source("texts", key=str, value=str), again).group_by_key()
    shorter = texts.filter(len).process(0, emit(lambda _, text: text[1:]), name="shorter")
    flow.stream("again", shorter).sink("out")
    assert run(flow, {"texts": [("a", "xyz")]}).values("out") == ["yz", "z", ""]


def test_what_was_said_of_a_cycle_where_it_begins_is_known_where_it_is_closed() -> None:
    flow = Flow("f")
    numbers = flow.source("numbers", key=str, value=int)
    again = flow.cycle("again", key=str, value=str)
    flow.merge(numbers.map(lambda value: f"{value}"), again).filter(lambda text: len(text) > 3).sink("again")
    assert flow.build().own_streams["again"].value is str
