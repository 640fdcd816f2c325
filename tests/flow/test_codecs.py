"""Codecs: what goes comes back, of the same types; and what would not is refused, with words."""

from __future__ import annotations

import datetime as dt
import enum
import math
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, ClassVar, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.codec import Anything, Codec, codec_of, key_codec, state_codec
from millstream.codec.arrow import from_arrow, to_arrow
from millstream.codec.kind import records_in
from millstream.errors import UsageError, WrongType
from millstream.flow import Flow
from millstream.testing import replays, run, runs
from tests.flow.laws import Law, is_caught


class Point(msgspec.Struct, frozen=True):
    """A struct."""

    x: int
    y: float = 0.0


@dataclass(frozen=True)
class Line:
    """A dataclass, with structs in it."""

    start: Point
    ends: tuple[Point, ...] = ()
    note: str | None = None
    count: ClassVar[int] = 0


class Color(enum.Enum):
    """An enum whose values are of two types."""

    RED = 1
    BLUE = "b"


class Pair(NamedTuple):
    """A named tuple."""

    left: int
    right: str


class Cat(msgspec.Struct):
    """One of a union."""

    name: str


class Dog(msgspec.Struct):
    """Another, that nothing but its class tells apart."""

    name: str


CLASSES: dict[str, type] = {kind.__qualname__: kind for kind in (Point, Line, Color, Pair, Cat, Dog)}
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.datetimes(timezones=st.none() | st.just(dt.UTC) | st.just(ZoneInfo("Europe/Berlin")))
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.uuids()
    | st.sampled_from(Color)
    | st.builds(Point, st.integers(), st.floats(allow_nan=False))
    | st.builds(Pair, st.integers(), st.text())
)
KEYS = st.none() | st.booleans() | st.integers() | st.text() | st.tuples(st.integers(), st.text())
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.sets(KEYS, max_size=3)
        | st.frozensets(KEYS, max_size=3)
        | st.builds(Cat, inner)
        | st.builds(Line, st.builds(Point, st.integers()), st.just((Point(1),)), inner)
    ),
    max_leaves=8,
)


def shape(value: object) -> object:
    """A value with the types of all that is in it, and the zones of times."""
    kind = type(value).__name__
    if isinstance(value, dict):
        return kind, sorted((repr(shape(key)), shape(item)) for key, item in value.items())
    if isinstance(value, set | frozenset):
        return kind, sorted(repr(shape(item)) for item in value)
    if isinstance(value, list | tuple):
        return kind, [shape(item) for item in value]
    if isinstance(value, Line | Cat):
        return kind, [shape(getattr(value, name)) for name in type(value).__annotations__ if name != "count"]
    return kind, repr(value)


def comes_back(codec: Codec | Anything) -> Law:
    def law(value: object) -> None:
        assert shape(codec.decode(codec.encode(value))) == shape(value)

    return law


@given(VALUES)
@settings(max_examples=150)
def test_whatever_goes_through_the_codec_of_states_comes_back_as_it_went(value: object) -> None:
    comes_back(Anything(CLASSES))(value)


@pytest.mark.parametrize("name", ["json", "msgpack"])
def test_a_codec_that_forgets_types_is_caught(name: str) -> None:
    plain = codec_of(Any, name)
    is_caught(comes_back(plain), value=st.tuples(st.integers(0, 9), st.integers(0, 9)))
    is_caught(comes_back(plain), value=st.sets(st.integers(0, 9)))
    is_caught(comes_back(plain), value=st.decimals(allow_nan=False))


@given(VALUES, VALUES)
@settings(max_examples=50)
def test_equal_values_have_equal_bytes(one: object, other: object) -> None:
    encode = Anything(CLASSES).encode
    if shape(one) == shape(other) and not isinstance(one, dict):
        assert encode(one) == encode(other)
    assert encode({3, 1, 2}) == encode({2, 3, 1})


EXACT: list[tuple[Any, Any]] = [
    (int, -7),
    (float, 0.1),
    (str, "ä"),
    (bytes, b"\x00\xff"),
    (bool, True),
    (tuple[int, ...], (1, 2)),
    (set[str], {"a", "b"}),
    (frozenset[int], frozenset({1})),
    (dict[tuple[int, str], list[int]], {(1, "a"): [2]}),
    (Decimal, Decimal("1.10")),
    (dt.datetime, dt.datetime(2024, 7, 1, 12, tzinfo=ZoneInfo("Europe/Berlin"))),
    (dt.datetime, dt.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin"))),
    (dt.datetime, dt.datetime(2024, 7, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=-3)))),
    (dt.datetime, dt.datetime(2024, 7, 1, 12)),
    (dt.time, dt.time(1, 2, 3, tzinfo=dt.UTC)),
    (dt.date, dt.date(2024, 2, 29)),
    (dt.timedelta, dt.timedelta(days=-1, microseconds=5)),
    (UUID, UUID(int=5)),
    (Point, Point(1, 2.5)),
    (Line, Line(Point(1), (Point(2), Point(3)), "note")),
    (list[Line | None], [None, Line(Point(1))]),
    (Color, Color.BLUE),
    (Cat | Dog, Dog("rex")),
    (list[Cat | Dog], [Cat("tom"), Dog("rex")]),
    (Pair, Pair(1, "a")),
    (int | str | None, "a"),
    (Any, (1, {2}, {"a": Decimal(1)})),
    (Any, dt.time(1, 2, 3, tzinfo=ZoneInfo("Europe/Berlin"), fold=1)),
]


@pytest.mark.parametrize(("kind", "value"), EXACT, ids=repr)
def test_a_state_of_a_known_type_comes_back_as_it_went(kind: object, value: object) -> None:
    comes_back(state_codec(kind, records_in(kind)))(value)


@pytest.mark.parametrize(
    ("kind", "name"), [(str, "str"), (bytes, "bytes"), (int, "json"), (Point, "json"), (Line, "json")]
)
def test_a_streams_codec_follows_from_its_type(kind: type, name: str) -> None:
    assert codec_of(kind).name == name


@pytest.mark.parametrize("name", ["json", "msgpack"])
@pytest.mark.parametrize(
    "value", [Point(1, 2.0), Line(Point(1), (Point(2),)), 5, "text", 0.5, True], ids=repr
)
def test_a_value_comes_back_by_the_codec_that_was_stated(name: str, value: object) -> None:
    codec = codec_of(type(value), name)
    assert codec.name == name
    comes_back(codec)(value)


def test_a_flow_reads_and_writes_by_the_codecs_that_were_stated() -> None:
    flow = Flow("codecs")
    source = flow.source("in", key=int, value=Point, key_codec="msgpack", value_codec="msgpack")
    source.sink("own", value_codec="json")
    flow.source("own", key=int, value=Point).sink("out", key_codec="msgpack", value_codec="msgpack")
    assert run(flow, {"in": [(1, Point(2))]}).per_key("out") == {1: [Point(2)]}


@pytest.mark.parametrize(("kind", "name"), [(int, "str"), (Point, "bytes"), (str, "bytes"), (bytes, "str")])
def test_a_codec_that_does_not_suit_the_type_is_refused(kind: type, name: str) -> None:
    with pytest.raises(WrongType, match="are not written as"):
        codec_of(kind, name)


def test_a_codec_that_there_is_not_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        UsageError, match="there is no codec 'yaml': expected 'json', 'msgpack', 'str', 'bytes'"
    ):
        codec_of(int, "yaml")


def test_advice_on_a_state_that_cannot_be_kept_can_be_followed() -> None:
    with pytest.raises(WrongType, match="Say its type, as in state=Point"):
        Anything().encode(Point(1))
    with pytest.raises(WrongType, match=r"Keep a plain value \(a dict"):
        Anything().encode(Counter("abc"))


@pytest.mark.parametrize(
    ("codec", "value"),
    [
        (codec_of(str), 5),
        (codec_of(bytes), "text"),
        (codec_of(int), object()),
        (codec_of(int, "msgpack"), 2**70),
        (Anything(), object()),
        (Anything(), Point(1)),
    ],
    ids=lambda one: getattr(one, "name", type(one).__name__),
)
def test_what_cannot_be_written_is_refused_with_the_value(codec: Codec, value: object) -> None:
    with pytest.raises(WrongType):
        codec.encode(value)


@pytest.mark.parametrize("data", [b"", b"{", b'"x"', b"\xff", b"1.5"])
def test_what_cannot_be_read_is_refused_with_the_bytes(data: bytes) -> None:
    with pytest.raises(WrongType, match="is no int in 'json'"):
        codec_of(int).decode(data)


@given(st.binary(max_size=30))
def test_kept_bytes_that_are_damaged_are_an_error_of_msgspec_and_no_other(data: bytes) -> None:
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        Anything(CLASSES).decode(data)


def test_equal_keys_have_one_text_of_bytes_however_they_were_made() -> None:
    maps = key_codec(dict[str, int])
    assert maps.encode({"a": 1, "b": 2}) == maps.encode({"b": 2, "a": 1})
    sets = key_codec(set[str])
    assert len({sets.encode(set(order)) for order in ("abc", "cab", "bca")}) == 1


def test_nan_comes_back_and_is_not_refused_for_not_being_equal() -> None:
    flow = Flow("nan")
    flow.source("in", key=str, value=int).group_by_key().fold(0.0, lambda _, __: math.nan, name="nan").map(
        repr, value=str
    ).sink("out")
    assert run(flow, {"in": [("k", 1), ("k", 2)]}).values("out") == ["nan", "nan"]


def deepest(state: list[Any], value: int) -> list[Any]:
    return [state, value]


def test_a_state_may_be_nested() -> None:
    flow = Flow("nested")
    flow.source("in", key=str, value=int).group_by_key().fold([], deepest).map(repr, value=str).sink("out")
    assert run(flow, {"in": [("k", 1), ("k", 2)]}).values("out")[-1] == "[[[], 1], 2]"


def seen(state: set[int], value: int) -> set[int]:
    state.add(value)
    return state


def test_every_run_passes_state_through_its_codec() -> None:
    flow = Flow("seen")
    flow.source("in", key=str, value=int).group_by_key().fold(set[int](), seen).map(
        sorted, value=list[int]
    ).sink("out")
    inputs = {"in": [("k", 1), ("k", 2), ("l", 1)]}
    for result in [run(flow, inputs), *runs(flow, inputs, count=2)]:
        assert result.per_key("out") == {"k": [[1], [1, 2]], "l": [[1]]}
    assert replays(flow, inputs, [], {"out": [("k", [1]), ("k", [1, 2]), ("l", [1])]})


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (int, [1, None, -3]),
        (str, ["a", None]),
        (Point, [Point(1, 2.0), None]),
        (Line, [Line(Point(1), (Point(2),))]),
        (dict[str, int], [{"a": 1}]),
        (dt.datetime, [dt.datetime(2024, 1, 1, tzinfo=dt.UTC)]),
        (Decimal, [Decimal("1.50")]),
        (list[float], [[0.5], []]),
    ],
    ids=repr,
)
def test_values_go_into_arrow_and_come_back(kind: type[Any], values: list[object]) -> None:
    column = to_arrow(values, kind)
    assert isinstance(column, pa.Array)
    assert from_arrow(column, kind) == values


def test_a_type_without_a_form_in_arrow_is_refused_by_name() -> None:
    with pytest.raises(WrongType, match="have no form in Arrow: there is no Arrow type for union"):
        to_arrow([1], int | str)


@dataclass
class Computed:
    """A dataclass with a field that cannot be given."""

    x: int
    twice: int = field(init=False)

    def __post_init__(self) -> None:
        self.twice = 2 * self.x


def test_a_class_that_cannot_be_made_from_its_fields_is_told_when_it_is_read() -> None:
    codec = Anything({"Computed": Computed})
    with pytest.raises(msgspec.DecodeError, match="a kept value cannot be read: TypeError"):
        codec.decode(codec.encode(Computed(1)))
