"""Strategies: what they make can be written, read again as it was, and is as varied as it was asked for."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from millstream.codec import codec_of
from millstream.errors import WrongType
from millstream.flow import Flow
from millstream.testing import In, Poison, explore, run
from millstream.testing.strategies import Fault, inputs_of, records_of
from millstream.testing.values import values_of


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Tree(msgspec.Struct):
    name: str
    children: list[Tree] = []


class Order(msgspec.Struct, frozen=True):
    customer: str
    cents: Annotated[int, msgspec.Meta(ge=0, le=100)]
    colour: Colour | None = None


@dataclass(frozen=True)
class Point:
    x: float
    y: float


class Pair(NamedTuple):
    left: int
    right: str


class Fields(TypedDict):
    number: int


KINDS: list[Any] = [
    str,
    bytes,
    int,
    float,
    bool,
    Decimal,
    UUID,
    dt.datetime,
    dt.date,
    dt.timedelta,
    int | None,
    str | int | None,
    list[str],
    set[int],
    frozenset[str],
    tuple[int, str],
    tuple[int, ...],
    dict[str, list[int]],
    dict[int, str],
    Colour,
    Literal["a", "b"],
    Order,
    Point,
    Pair,
    Fields,
    Tree,
    Annotated[str, msgspec.Meta(min_length=2, max_length=3)],
    Annotated[int, msgspec.Meta(gt=3, multiple_of=5)],
    Annotated[str, msgspec.Meta(pattern="^[a-f]+$")],
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_value_comes_back_as_it_went(kind: object) -> None:
    codec = codec_of(kind)

    @settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
    @given(values_of(kind))
    def check(value: object) -> None:
        assert codec.decode(codec.encode(value)) == value

    check()


def test_numbers_are_small_enough_for_their_sums_to_be_written() -> None:
    with pytest.raises(NoSuchExample):
        find(values_of(int), lambda value: abs(value) > 2**53)


def test_a_type_that_says_nothing_is_refused() -> None:
    with pytest.raises(WrongType, match="values of type Plain cannot be made up"):
        values_of(type("Plain", (), {}))


def numbers_flow() -> Flow:
    flow = Flow("sums", on_error="skip")
    flow.source("numbers", key=str, value=int).group_by_key().sum().sink("sums")
    return flow


def found(condition: Callable[[list[In]], bool], *faults: Fault) -> list[In]:
    """Some inputs of which that is true; they are not made smaller."""
    quick = settings(phases=[Phase.generate], database=None)
    return find(records_of(numbers_flow(), "numbers", faults=faults), condition, settings=quick)


def test_records_have_few_keys_and_go_on_in_time() -> None:
    records = records_of(numbers_flow(), "numbers", size_max=20, keys=2, shards=3)

    @settings(max_examples=30)
    @given(records)
    def check(records: list[In]) -> None:
        assert len(records) <= 20
        assert len({record.key for record in records}) <= 2
        times = [record.timestamp or 0 for record in records]
        assert times == sorted(times)
        assert len({(record.key, record.shard) for record in records}) <= 2  # a key lies in one shard

    check()


def test_faults_are_made_when_they_are_asked_for() -> None:
    def times(records: list[In]) -> list[int]:
        return [record.timestamp or 0 for record in records]

    def is_out_of_order(records: list[In]) -> bool:
        return times(records) != sorted(times(records))

    assert found(is_out_of_order, "late")
    assert found(is_out_of_order, "reordered")
    assert found(lambda records: any(a == b for a, b in pairwise(records)), "duplicate")
    bad = found(lambda records: any(isinstance(record.value, Poison) for record in records), "poison")
    assert run(numbers_flow(), {"numbers": bad}).skipped["numbers"] > 0


def test_a_fault_that_there_is_not_is_refused() -> None:
    with pytest.raises(WrongType, match="faults has 'lost': expected some of 'late', 'duplicate'"):
        inputs_of(numbers_flow(), faults=["lost"])  # type: ignore[list-item]  # it is the mistake


def test_a_source_that_there_is_not_is_refused_with_those_there_are() -> None:
    with pytest.raises(WrongType, match=r"reads no records of 'orders': it reads those of 'numbers'"):
        records_of(numbers_flow(), "orders")


def whole_flow() -> Flow:
    """A source of each kind."""
    flow = Flow("all")
    orders = flow.source("orders", key=str, value=Order).map(lambda order: order.cents)
    lines = flow.from_file("*.txt", value=str).map(len).group_by(str, key=str)
    made = flow.generate("made", abs, count=3, value=int).group_by(str, key=str)
    ticks = flow.clock(every="1s").group_by(str, key=str)
    flow.merge(orders, lines, made, ticks).group_by_key().count().sink("counts")
    return flow


@settings(max_examples=30)
@given(inputs_of(whole_flow(), faults=["late", "duplicate", "reordered"]))
def test_inputs_are_those_of_all_sources(inputs: dict[str, Any]) -> None:
    assert sorted(inputs) == ["*.txt", "clock", "made", "orders"]
    result = run(whole_flow(), inputs)
    sizes = [one if isinstance(one, int) else len(one) for one in inputs.values()]
    assert len(result.values("counts")) == sum(sizes)


@settings(max_examples=20)
@given(inputs_of(numbers_flow(), size_max=3, faults=["duplicate"]), st.data())
def test_a_law_of_a_users_flow(inputs: dict[str, Any], data: st.DataObject) -> None:
    runs = list(explore(numbers_flow(), inputs, limit=50))
    chosen = data.draw(st.sampled_from(runs))
    expected: dict[str, int] = {}
    for record in inputs["numbers"]:
        expected[record.key] = expected.get(record.key, 0) + record.value
    assert chosen.table("sums") == expected


WITHOUT = """
import sys
sys.modules["hypothesis"] = None
import millstream.testing
from millstream.errors import MissingExtra
try:
    import millstream.testing.strategies
except MissingExtra as error:
    print(error)
"""


def test_without_hypothesis_it_is_said_what_to_install() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == (
        "millstream.testing.strategies needs the package 'hypothesis', which is not installed: "
        "run pip install 'millstream[testing]'\n"
    )
