"""Errors of the user's functions: what they name, and that they leave nothing behind."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from millstream.errors import InvalidFlow, StepFailed
from millstream.flow import Flow, Grouped, Stream, Table, dead_letter
from millstream.flow.letter import Letter
from millstream.flow.node import DeadLetters
from millstream.testing import explore, run
from tests.flow.laws import Value

Build = Callable[[Stream[str, Any]], Stream[Any, Any]]
Policy = Literal["fail", "skip"] | DeadLetters


def picky(number: int) -> int:
    if number == 13:
        raise ValueError("unlucky")
    return number


def spoiling(state: list[int], number: int) -> list[int]:
    state.append(number)
    return [*state[:-1], picky(number)]


def spoiling_both(state: list[int], number: int) -> tuple[list[int], list[list[int]]]:
    state.append(number)
    outputs = [list(state)]
    picky(number)
    return state, outputs


def flow_of(build: Build) -> Flow:
    flow = Flow("failing")
    build(flow.source("in", key=str, value=Any)).sink("out")
    return flow


def failed(build: Build, *values: object, finish: bool = False) -> str:
    with pytest.raises(StepFailed) as caught:
        run(flow_of(build), {"in": [("k", value) for value in values]}, finish=finish)
    return str(caught.value)


def test_an_error_names_step_function_file_line_and_record() -> None:
    line = picky.__code__.co_firstlineno
    text = failed(lambda s: s.map(picky), 1, 13)
    assert "the step 'map picky' (" in text
    assert f"picky (tests/flow/test_errors_of_functions.py:{line}) raised ValueError: unlucky" in text
    assert "It was given 13, of the record stream 'in', shard 0, seq 1, key 'k'" in text
    assert "on_error='skip'" in text


def test_the_error_itself_is_the_cause_and_the_names_are_kept() -> None:
    with pytest.raises(StepFailed) as caught:
        run(flow_of(lambda s: s.map(picky)), {"in": [("k", 13)]})
    assert isinstance(caught.value.__cause__, ValueError)
    assert caught.value.step == "map picky"
    assert caught.value.record == "stream 'in', shard 0, seq 0, key 'k'"


def everywhere(policy: Policy) -> dict[str, Build]:
    return {
        "map": lambda s: s.map(picky, on_error=policy),
        "flat_map": lambda s: s.flat_map(lambda n: [picky(n)], on_error=policy),
        "a generator": lambda s: s.flat_map(lambda n: (picky(m) for m in (1, n)), on_error=policy),
        "filter": lambda s: s.filter(lambda n: picky(n) > 0, on_error=policy),
        "collect": lambda s: s.collect(picky, on_error=policy),
        "group_by": lambda s: s.group_by(picky, on_error=policy),
        "fold": lambda s: s.group_by_key().fold([], spoiling, on_error=policy),
        "transform": lambda s: s.group_by_key().transform([], spoiling_both, on_error=policy),
        "aggregate": lambda s: (
            s.group_by_key().aggregate(0, lambda a, b: a + picky(b), name="sum", on_error=policy).updates()
        ),
        "table": lambda s: latest(s).map(picky, on_error=policy).updates(),
    }


def latest(stream: Stream[str, Any]) -> Table[str, Any]:
    return stream.group_by_key().latest()


@pytest.mark.parametrize("where", everywhere("fail"))
def test_a_step_that_fails_stops_the_run(where: str) -> None:
    text = failed(everywhere("fail")[where], 1, 13)
    assert "ValueError: unlucky" in text
    assert "seq 1, key 'k'" in text


@pytest.mark.parametrize("where", everywhere("fail"))
def test_a_record_that_is_skipped_leaves_everything_as_if_it_had_not_been(where: str) -> None:
    flow = flow_of(everywhere("skip")[where])
    without = run(flow, {"in": [("k", 1), ("k", 2), ("l", 3)]})
    found = run(flow, {"in": [("k", 13), ("k", 1), ("k", 13), ("k", 2), ("l", 13), ("l", 3)]})
    assert found == without
    assert sum(found.skipped.values()) == 3
    assert without.skipped == {}


@pytest.mark.parametrize("where", everywhere("fail"))
def test_a_dead_letter_says_why_and_leaves_everything_as_it_was(where: str) -> None:
    flow = flow_of(everywhere(dead_letter("dead"))[where])
    without = run(flow, {"in": [("k", 1), ("k", 2)]})
    found = run(flow, {"in": [("k", 1), ("k", 13), ("k", 2)]})
    assert found.per_key("out") == without.per_key("out")
    (out,) = found.records("dead")
    assert out.key == "k"
    assert out.value == Letter(out.value.step, "ValueError: unlucky", "in", 0, 1, 13)


@pytest.mark.parametrize("where", ["fold", "transform", "aggregate"])
def test_in_every_order_too(where: str) -> None:
    flow = flow_of(everywhere("skip")[where])
    found = {repr(one.outputs()) for one in explore(flow, {"in": [("k", 1), ("k", 13), ("k", 2)]})}
    assert found == {repr(one.outputs()) for one in explore(flow, {"in": [("k", 1), ("k", 2)]})}


def test_a_check_of_this_kind_catches_a_step_that_keeps_what_it_changed() -> None:
    kept: list[int] = []

    def leaking(_: list[int], number: int) -> list[int]:
        kept.append(number)
        return [*kept[:-1], picky(number)]

    flow = flow_of(lambda s: s.group_by_key().fold([], leaking, on_error="skip"))
    found = run(flow, {"in": [("k", 13), ("k", 1)]})
    kept.clear()
    assert found != run(flow, {"in": [("k", 1)]})


def spoiled(value: list[int]) -> list[int]:
    value.append(13)
    raise ValueError("after the change")


def test_a_value_that_was_changed_before_the_error_is_in_the_letter_as_it_was_given() -> None:
    steps: list[Build] = [
        lambda s: s.map(spoiled, on_error=dead_letter("dead")),
        lambda s: s.group_by(spoiled, on_error=dead_letter("dead")),
        lambda s: s.group_by_key().fold(
            0, lambda _, v: len(spoiled(v)), name="f", on_error=dead_letter("dead")
        ),
    ]
    for step in steps:
        assert run(flow_of(step), {"in": [("k", [1])]}).values("dead")[0].value == [1]


def test_a_branch_that_fails_does_not_change_what_the_others_see() -> None:
    flow = Flow("branches")
    source = flow.source("in", key=str, value=list[int])
    source.map(spoiled, on_error="skip").sink("spoiled")
    source.sink("plain")
    assert run(flow, {"in": [("k", [1])]}).values("plain") == [[1]]


def test_the_flows_policy_is_for_steps_that_say_nothing() -> None:
    flow = Flow("lenient", on_error="skip")
    source = flow.source("in", key=str, value=int)
    source.map(picky).sink("skipping")
    source.map(picky, on_error=dead_letter("dead")).sink("telling")
    found = run(flow, {"in": [("k", 13), ("k", 1)]})
    assert (found.values("skipping"), len(found.values("dead"))) == ([1], 1)


def test_a_letter_has_any_value_in_plain_form() -> None:
    values: list[object] = [{1, 2}, (1, Cat("tom")), object]
    for value in values:
        flow = flow_of(lambda s, v=value: s.map(lambda _: v).map(refuse, on_error=dead_letter("dead")))  # type: ignore[misc]
        (letter,) = run(flow, {"in": [("k", 1)]}).values("dead")
        assert letter.error == "ValueError: no"


def refuse(_: object) -> object:
    raise ValueError("no")


# -- what functions give that is of no use


@dataclass
class Cat:
    """A record."""

    name: str


@dataclass
class Tiger(Cat):
    """A record that is more than its type says."""

    stripes: int = 0


class Size(enum.IntEnum):
    """A number, and more than that."""

    SMALL = 1


class Unknown:
    """What nothing is known of."""


class Silent(Exception):
    """An error whose text is an error."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


def endless(state: Value, value: Value) -> Value:
    return endless(state, value)


def deep(size: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(size):
        found = [found]
    return found


def cat(_: Cat, __: int) -> Cat:
    return Tiger("tom", 3)


def size(_: int, __: int) -> int:
    return Size.SMALL


def counted(_: dict[str, int], __: int) -> dict[str, int]:
    return Counter("ab")


def huge(_: int, __: int) -> int:
    return 2**100


def silent(_: object) -> object:
    raise Silent


def state_of(zero: object, function: Callable[[Any, Any], Any]) -> Build:
    return lambda s: s.group_by_key().fold(zero, function, name="state")


def transformed(found: object) -> Build:
    return lambda s: s.group_by_key().transform(0, lambda _, __: found, name="t")  # type: ignore[arg-type,return-value]


WRONG: dict[str, tuple[Build, str]] = {
    "transform, no pair": (transformed(3), "it gave 3: expected a pair"),
    "transform, three": (transformed((1, [], 3)), "expected a pair"),
    "transform, a list": (transformed([1, []]), "expected a pair"),
    "transform, no outputs": (transformed((1, None)), "'NoneType' object is not iterable"),
    "transform, None": (transformed(None), "it gave None: expected a pair"),
    "flat_map, None": (lambda s: s.flat_map(lambda _: None), "'NoneType' object is not iterable"),  # type: ignore[arg-type,return-value]
    "flatten": (lambda s: s.flatten(), "'int' object is not iterable"),
    "group_by, an object": (lambda s: s.group_by(lambda _: Unknown()), "cannot be written as 'json'"),
    "group_by, a number": (lambda s: s.group_by(lambda _: 1, key=str), "1 is int"),
    "group_by, a text": (lambda s: s.group_by(lambda _: "a", key=int), "is no int in 'json'"),
    "group_by, a huge key": (lambda s: s.group_by(lambda _: float("nan"), key=float), "is no float"),
    "map, an object": (lambda s: s.map(lambda _: Unknown()), "the step 'out'"),
    "map, another type": (lambda s: s.map(lambda _: "x", value=int), "is no int in 'json'"),
    "map, too deep": (lambda s: s.map(lambda _: deep(100_000)), "recursion"),
    "state, an object": (state_of(None, lambda _, __: Unknown()), "nothing says what it is made of"),
    "state, a subclass": (state_of(Cat("a"), cat), "Tiger(name='tom', stripes=3) would come back as Cat"),
    "state, an enum for an int": (state_of(0, size), "would come back as 1"),
    "state, a Counter for a dict": (state_of({}, counted), "would come back as {'a': 1, 'b': 1}"),
    "state, a huge int": (state_of(0, huge), "cannot be written as 'msgpack'"),
    "state, too deep": (state_of(None, lambda _, __: deep(100_000)), "RecursionError"),
    "state, endless": (state_of(None, endless), "RecursionError: maximum recursion depth"),
    "an error without text": (lambda s: s.map(silent), "Silent, whose text raises RuntimeError"),
    "sum of texts": (lambda s: s.map(str).group_by_key().sum().updates(), "unsupported operand"),
    "distinct lists": (lambda s: s.map(lambda n: [n]).group_by_key().distinct().updates(), "unhashable type"),
    "sum_by_key of numbers": (lambda s: latest(s).sum_by_key().updates(), "'int' object is not iterable"),
    "map_batches, None": (
        lambda s: s.map_batches(lambda _: None, value=int),
        "it gave None: expected a pyarrow",
    ),
    "map_batches, no value": (
        lambda s: s.map_batches(lambda b: b.select(["key"]), value=int),
        "must be 'value'",
    ),
    "map_batches, no key": (
        lambda s: s.map_batches(lambda b: b.slice(0, 0).select(["value"]), value=int),
        "give the column 'key'",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_a_function_gives_that_is_of_no_use_is_told_with_its_place(wrong: str) -> None:
    build, what = WRONG[wrong]
    text = failed(build, 1)
    assert text.startswith("the step '")
    assert "stream 'in', shard 0, seq 0, key 'k'" in text
    assert what in text


@pytest.mark.parametrize("zero", [Unknown(), [Unknown()], {"a": object()}], ids=["object", "list", "dict"])
def test_a_first_state_that_cannot_be_kept_is_told_with_its_place(zero: object) -> None:
    with pytest.raises(InvalidFlow, match=r"tests/flow/test_errors.*cannot be kept"):
        run(flow_of(state_of(zero, lambda state, _: state)), {})


def test_a_float_state_may_be_given_a_whole_number() -> None:
    def longest(state: float, value: int) -> float:
        return max(state, value)

    flow = flow_of(lambda s: s.group_by_key().fold(0, longest))
    assert run(flow, {"in": [("k", 3), ("k", 2)]}).values("out") == [3, 3]


def test_int_states_without_a_type_may_be_huge() -> None:
    source: Build = lambda s: s.group_by_key().sum().updates()  # noqa: E731
    assert run(flow_of(source), {"in": [("k", 2**62)] * 5}).values("out")[-1] == 5 * 2**62


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ([1, [2]], (1, (2,))),
        ({"a": [1]}, (("a", (1,)),)),
        (None, None),
        (2**80, 2**80),
        (Cat("tom"), (("name", "tom"),)),
    ],
    ids=repr,
)
def test_keys_that_a_dict_cannot_have_are_keys_all_the_same(key: object, shown: object) -> None:
    kind: Any = type(key) if isinstance(key, Cat) else Any
    flow = flow_of(lambda s: counts(s.group_by(lambda _: key, key=kind)))
    assert run(flow, {"in": [("x", 1), ("y", 2)]}).per_key("out") == {shown: [1, 2]}


def counts(grouped: Grouped[Any, Any]) -> Stream[Any, Any]:
    return grouped.count().updates()
