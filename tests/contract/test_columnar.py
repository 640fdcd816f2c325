"""Columnar streams: every sort of Arrow value comes back as it was, and no other sort is taken."""

import datetime
import decimal
from pathlib import Path

import pyarrow as pa
import pytest

from millstream.errors import WrongType
from millstream.log import Append, Commit, Limits, Log
from millstream.log.can import Can
from millstream.record import batch_schema, rows_to_batch
from tests.contract.looking import arrow, records, refused, rows, values
from tests.contract.stores import Store
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.needs(Can.SCHEMA)
ORDER = pa.struct(
    [
        pa.field("item", pa.large_utf8(), nullable=False),
        ("price", pa.decimal128(9, 2)),
        ("when", pa.timestamp("us", "Europe/Berlin")),
        ("tags", pa.list_(pa.struct([("name", pa.utf8()), ("weight", pa.float32())]))),
        ("raw", pa.large_binary()),
    ]
)
NOON = datetime.datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=datetime.UTC)
FULL: dict[str, object] = {
    "item": "ä" * 300,
    "price": decimal.Decimal("-1234567.89"),
    "when": NOON,
    "tags": [{"name": "a", "weight": 0.5}, {"name": None, "weight": None}, None],
    "raw": b"\0\xff",
}
BARE: dict[str, object] = {"item": "", "price": None, "when": None, "tags": [], "raw": None}
KINDS: list[tuple[pa.DataType, list[object]]] = [
    (ORDER, [FULL, BARE]),
    (pa.int64(), [-(2**63), 2**63 - 1]),
    (pa.uint8(), [0, 255]),
    (pa.float64(), [1.5, float("inf"), -0.0]),
    (pa.float16(), [1.5]),
    (pa.bool_(), [True, False]),
    (pa.utf8(), ["", "ä\0"]),
    (pa.large_utf8(), ["", "ä\0"]),
    (pa.large_binary(), [b"", b"\xff"]),
    (pa.binary(3), [b"abc", b"\0\0\0"]),
    (pa.decimal128(38, 10), [decimal.Decimal("1.0000000001")]),
    (pa.decimal256(76, 0), [decimal.Decimal(10) ** 75]),
    (pa.timestamp("us", "Europe/Berlin"), [NOON]),
    (pa.timestamp("s"), [datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31)]),
    (pa.date32(), [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
    (pa.time64("us"), [datetime.time(23, 59, 59, 999_999)]),
    (pa.duration("ms"), [datetime.timedelta(days=-1)]),
    (pa.list_(pa.int64()), [[], [1, None, 3]]),
    (pa.large_list(pa.utf8()), [["a"], []]),
    (pa.list_(pa.int8(), 2), [[1, 2]]),
    (pa.list_(pa.list_(pa.int64())), [[[1], [], None]]),
    (pa.map_(pa.utf8(), pa.int64()), [[("a", 1)], []]),
    (pa.struct([("inner", pa.struct([("x", pa.int8())]))]), [{"inner": {"x": 1}}, {"inner": None}]),
]


@pytest.mark.parametrize(("kind", "sent"), KINDS, ids=[str(kind)[:40] for kind, _ in KINDS])
def test_a_value_comes_back_as_it_was(log: Log, kind: pa.DataType, sent: list[object]) -> None:
    log.create("orders", shards=2, value=kind)
    log.commit(Commit(records=(Append("orders", 0, rows(*sent, None)),)))
    log.commit(Commit(records=(Append("orders", 0, arrow(None, *sent, kind=kind).slice(0, len(sent) + 1)),)))
    log.commit(Commit(records=(Append("orders", 0, arrow(*sent, *sent, kind=kind).slice(len(sent))),)))
    for value in sent:
        log.append("orders", value, shard=1)
    batch = log.read("orders", 0, 0)
    table = batch.table()
    table.validate(full=True)
    assert table.schema.equals(batch_schema(kind))
    expected = pa.array([*sent, None, None, *sent, *sent], kind)
    assert table.column("value").combine_chunks().equals(expected)
    assert values(log, "orders") == expected.to_pylist()
    assert values(log, "orders", 1) == pa.array(sent, kind).to_pylist()
    assert [record.seq for record in records(log, "orders", limits=Limits(records=2))] == list(
        range(table.num_rows)
    )
    assert log.settings("orders").value == kind


def test_a_schema_is_a_struct_of_its_fields(log: Log) -> None:
    schema = pa.schema(list(ORDER))
    log.create("orders", value=schema)
    assert log.settings("orders").value_type == ORDER
    log.append("orders", FULL)
    assert values(log, "orders") == rows_to_batch(rows(FULL), ORDER).column("value").to_pylist()
    log.create("orders", value=ORDER, exist_ok=True)


def test_a_value_that_is_null_is_a_tombstone_and_one_of_nulls_is_not(log: Log) -> None:
    log.create("orders", value=pa.struct([("count", pa.int64())]))
    log.append("orders", None, key=b"a")
    log.append("orders", {"count": None}, key=b"a")
    log.append("orders", {}, key=b"a")
    assert values(log, "orders") == [None, {"count": None}, {"count": None}]


def test_a_stream_of_bytes_is_one_without_a_type(log: Log) -> None:
    log.create("orders", value=pa.binary())
    assert log.settings("orders").value is None
    log.append("orders", b"x")
    assert values(log, "orders") == [b"x"]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int64(), "5"),
        (pa.int64(), 1.5),
        (pa.int64(), b"5"),
        (pa.int8(), 300),
        (pa.utf8(), 5),
        (pa.utf8(), b"x"),
        (pa.utf8(), "\ud800"),
        (ORDER, {"item": 5}),
        (ORDER, {"item": "a", "colour": "red"}),
        (ORDER, b"bytes"),
        (pa.list_(pa.int64()), [1, "x"]),
        (pa.decimal128(5, 2), decimal.Decimal("1.001")),
    ],
    ids=ascii,
)
def test_a_value_of_another_type_is_refused(log: Log, kind: pa.DataType, value: object) -> None:
    log.create("orders", value=kind)
    log.create("bytes")
    good = Append("bytes", 0, rows(b"x"))
    with refused(log, WrongType, "a value does not fit stream 'orders', whose values are", str(kind)):
        log.commit(Commit(records=(good, Append("orders", 0, rows(None, value)))))


def test_a_batch_of_another_type_is_refused(log: Log) -> None:
    log.create("orders", value=pa.int64())
    log.create("bytes")
    for kind in (pa.int32(), pa.uint64(), pa.float64(), pa.binary(), pa.struct([("value", pa.int64())])):
        with refused(
            log, WrongType, "must have the columns", "value: int64", "this one has timestamp: int64"
        ):
            log.commit(Commit(records=(Append("orders", 0, arrow(None, kind=kind)),)))
    with refused(log, WrongType, "value: binary"):
        log.commit(Commit(records=(Append("bytes", 0, arrow(5, kind=pa.int64())),)))


def test_a_field_that_must_not_be_null_is_not(log: Log) -> None:
    log.create("orders", value=ORDER)
    with refused(log, WrongType, "a record for stream 'orders' has no 'item'"):
        log.append("orders", {**BARE, "item": None})
    with refused(log, WrongType, "a record for stream 'orders' has no 'item'"):
        log.commit(Commit(records=(Append("orders", 0, arrow({"price": None}, kind=ORDER)),)))


@pytest.mark.parametrize(
    "kind",
    [
        pa.dictionary(pa.int32(), pa.utf8()),
        pa.list_(pa.dictionary(pa.int32(), pa.utf8())),
        pa.struct([("item", pa.dictionary(pa.int8(), pa.utf8()))]),
    ],
    ids=str,
)
def test_dictionaries_are_refused_with_what_to_use_instead(log: Log, kind: pa.DataType) -> None:
    with refused(log, WrongType, "a dictionary", "string"):
        log.create("orders", value=kind)
    assert log.streams() == []


@pytest.mark.parametrize("value", ["int64", int, 5, pa.field("x", pa.int64()), {"x": pa.int64()}], ids=repr)
def test_what_is_no_arrow_type_is_refused(log: Log, value: pa.DataType) -> None:
    with refused(
        log, WrongType, f"value={value!r} is no Arrow type: expected None, a pyarrow type or schema"
    ):
        log.create("orders", value=value)


def test_columnar_values_survive_with_the_log(store: Store, tmp_path: Path, clock: ManualClock) -> None:
    with store.open(tmp_path, clock) as log:
        log.create("orders", value=ORDER)
        log.commit(Commit(records=(Append("orders", 0, rows(FULL, None, BARE)),)))
        known = records(log, "orders")
    if store.survives:
        with store.open(tmp_path, clock) as log:
            assert records(log, "orders") == known
            log.append("orders", BARE)
            assert log.read("orders", 0, 3).table().schema.equals(batch_schema(ORDER))
