"""The checks: what is let through, and the words for what is not."""

import datetime
import decimal
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.errors import (
    InvalidName,
    MillstreamError,
    ShardOutOfRange,
    TooLarge,
    UsageError,
    WrongType,
    shown,
)
from millstream.log import check
from millstream.log.batch import Limits
from millstream.log.commit import Append, Commit, Expect, Fence, Mark, Offset
from millstream.log.stream import Cleanup, Retention
from millstream.names import check_name
from millstream.record import (
    TIMESTAMP_MS_MAX,
    TIMESTAMP_MS_MIN,
    VALUE_BYTES,
    batch_schema,
    rows_schema,
    rows_to_batch,
)

UTC = datetime.UTC
ORDER = pa.struct([("item", pa.utf8()), ("count", pa.int32())])


@pytest.mark.parametrize("name", ["a", "orders.v1", "A_b-9", "...", ".a", "a" * 249, "0"])
def test_a_name_is_made_of_letters_digits_dots_dashes_and_underscores(name: str) -> None:
    assert check_name("stream", name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "a" * 250,
        "a/b",
        "../up",
        "a\\b",
        "/etc",
        "a b",
        "a\n",
        "\n",
        "a\0",
        "é",
        "\uff21",
        "\u0663",
        "a:b",
        "*",
    ],
)
def test_nothing_else_is_a_name(name: str) -> None:
    with pytest.raises(
        InvalidName, match=r"the name of a stream: expected 1 to 249 characters of \[a-zA-Z0-9"
    ):
        check_name("stream", name)


@given(st.text())
def test_a_name_that_is_accepted_is_one_component_of_a_path(name: str) -> None:
    try:
        check_name("stream", name)
    except InvalidName:
        return
    assert name.isascii()
    assert not set(name) & set("/\\\0\n:")
    assert name not in {"", ".", ".."}


@pytest.mark.parametrize("name", [None, 5, b"orders", ["orders"], True])
def test_what_is_no_text_is_no_name(name: object) -> None:
    with pytest.raises(InvalidName):
        check_name("stream", name)  # type: ignore[arg-type]


GOOD_ROWS = [
    (0, None, None, None),
    (TIMESTAMP_MS_MIN, b"", b"", ()),
    (TIMESTAMP_MS_MAX, b"k", b"v", (("h", b"x"), ("h", None), ("ä", b""))),
    [0, b"k", b"v", [["h", b"x"]]],
]
BAD_ROWS: list[tuple[object, str]] = [
    ((0, "k", b"v", None), r"a key must be bytes or None, not str 'k': encode it, as in key='k'.encode\(\)"),
    ((0, 5, b"v", None), "a key must be bytes or None, not int 5: encode it$"),
    (
        (0, b"k", 1.5, None),
        "a value must be bytes or None, not float 1.5: encode it, or create the stream with",
    ),
    ((0, b"k", bytearray(b"v"), None), "a value must be bytes or None, not bytearray"),
    ((0, b"k", memoryview(b"v"), None), "a value must be bytes or None, not memoryview"),
    ((TIMESTAMP_MS_MIN - 1, None, b"", None), r"timestamp -62135596800001 is out of range.*\(year 1\)"),
    ((TIMESTAMP_MS_MAX + 1, None, b"", None), r"253402300800000 is out of range.*\(year 9999\)"),
    ((True, None, b"", None), "timestamp True is out of range: expected whole milliseconds"),
    ((1.0, None, b"", None), "timestamp 1.0 is out of range"),
    ((None, None, b"", None), "timestamp None is out of range"),
    ((datetime.datetime(2020, 1, 1, tzinfo=UTC), None, b"", None), "timestamp datetime"),
    ((0, None, b"", {"h": b"x"}), "headers={'h': b'x'}: expected pairs of str and bytes or None, in a tuple"),
    ((0, None, b"", "ab"), "headers='ab': expected pairs"),
    ((0, None, b"", 0), "headers=0: expected pairs"),
    ((0, None, b"", ("ab",)), r"headers=\('ab',\): expected a mapping, or pairs, of str to bytes or None"),
    ((0, None, b"", (("h", "x"),)), "expected a mapping, or pairs, of str to bytes"),
    ((0, None, b"", ((b"h", b"x"),)), "expected a mapping, or pairs, of str to bytes"),
    ((0, None, b"", (("h", b"x", b"y"),)), "expected a mapping, or pairs, of str to bytes"),
    ((0, None, b"", (("\ud800", b"x"),)), "expected a mapping, or pairs, of str to bytes"),
    ((0, None, b""), r"\(0, None, b''\) is no record: expected a tuple \(timestamp, key, value, headers\)"),
    ((0, None, b"", None, None), "is no record"),
    (5, "5 is no record"),
    (b"abc", "is no record"),
]


@pytest.mark.parametrize("row", GOOD_ROWS)
def test_a_record_of_bytes_passes(row: object) -> None:
    check.check_row(row)  # type: ignore[arg-type]
    check.check_commit(Commit(records=(Append("s", 0, [row]),)))


@pytest.mark.parametrize(("row", "words"), BAD_ROWS)
def test_a_record_that_is_wrong_is_refused_with_what_is_wrong(row: object, words: str) -> None:
    with pytest.raises(WrongType, match=words):
        check.check_row(row)  # type: ignore[arg-type]


def test_a_record_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "RECORD_BYTES_MAX", 1_000)
    check.check_row((0, b"k" * 500, b"v" * 490, (("12345", b"12345"),)))
    with pytest.raises(
        TooLarge, match="a record of 1,001 bytes is over the limit of 1,000: keep large objects"
    ):
        check.check_row((0, b"k" * 500, b"v" * 491, (("12345", b"12345"),)))


@given(st.lists(st.integers(0, 3_000), max_size=20))
def test_a_record_over_the_limit_is_found_in_a_batch(lengths: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check, "RECORD_BYTES_MAX", 1_000)
        batch = rows_to_batch([(0, None, b"v" * length, None) for length in lengths], VALUE_BYTES)
        if any(length > 1_000 + 64 for length in lengths):
            with pytest.raises(TooLarge, match="over the limit of 1,000"):
                check.check_batch(batch, "s", VALUE_BYTES)
        elif all(length <= 1_000 for length in lengths):
            check.check_batch(batch, "s", VALUE_BYTES)


def test_a_commit_over_its_limits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "COMMIT_BYTES_MAX", 100)
    monkeypatch.setattr(check, "COMMIT_PARTS_MAX", 3)
    row = (0, b"k" * 10, b"v" * 40, None)
    check.check_commit(Commit(records=(Append("s", 0, [row]), Append("s", 0, [row]))))
    with pytest.raises(TooLarge, match="a commit of 150 bytes is over the limit of 100: split it, or stage"):
        check.check_commit(Commit(records=(Append("s", 0, [row] * 3),)))
    with pytest.raises(TooLarge, match="a commit of 4 parts: at most 3"):
        check.check_commit(Commit(records=(Append("s", 0, []),) * 4))
    batch = rows_to_batch([row, row], VALUE_BYTES)
    with pytest.raises(TooLarge, match="over the limit of 100"):
        check.check_commit(Commit(records=(Append("s", 0, batch),)))


def test_records_are_a_list_a_tuple_or_a_batch() -> None:
    rows = (row for row in [(0, None, b"v", None)])
    with pytest.raises(
        WrongType, match=r"records=<generator .*expected rows .* in a list or tuple, or a pyarrow"
    ):
        check.check_commit(Commit(records=(Append("s", 0, rows),)))


FENCE = Fence("sink", 0, 0)
BAD_COMMITS: list[tuple[Commit, type[MillstreamError], str]] = [
    (Commit(fence=Fence("", 0, 0)), InvalidName, "'' cannot be the name of a fence"),
    (Commit(fence=Fence("a", -1, 0)), WrongType, "run=-1: a seq is a whole number from 0 on"),
    (Commit(fence=Fence("a", 0, True)), WrongType, "number=True"),
    (Commit(fence=Fence("a", 0, 2**62 + 1)), WrongType, "number=4611686018427387905"),
    (Commit(fence=Fence("a", 0, 0, b"d" * 65)), TooLarge, "a digest of 65 bytes: at most 64"),
    (Commit(fence=Fence("a", 0, 0, "d")), WrongType, "a digest must be bytes"),  # type: ignore[arg-type]
    (
        Commit(fence=Fence("a", 0, 0, b"", b"p" * 65_537)),
        TooLarge,
        "a position of 65,537 bytes: at most 65,536",
    ),
    (Commit(fence=Fence("a", 0, 0, b"", "p")), WrongType, "a position must be bytes"),  # type: ignore[arg-type]
    (Commit(offsets=(Offset("g/h", "s", 0, None, 0),)), InvalidName, "'g/h' cannot be the name of a group"),
    (Commit(offsets=(Offset("g", "s", 0, None, -1),)), WrongType, "next=-1"),
    (Commit(expect=(Expect("s", 0, True),)), WrongType, "expect.seq=True"),
    (Commit(marks=(Mark("s", 0, "", 0),)), InvalidName, "'' cannot be the name of a writer"),
    (Commit(marks=(Mark("s", 0, "w", 2**60),)), WrongType, "is out of range"),
]


@pytest.mark.parametrize(("commit", "error", "words"), BAD_COMMITS)
def test_a_commit_that_is_wrong_in_itself_is_refused(
    commit: Commit, error: type[MillstreamError], words: str
) -> None:
    with pytest.raises(error, match=words):
        check.check_commit(commit)


BAD_NUMBERS: list[tuple[Callable[[], object], type[UsageError], str]] = [
    (lambda: check.check_seq("from_seq", -1), WrongType, "from_seq=-1: a seq is a whole number from 0 on"),
    (lambda: check.check_seq("from_seq", True), WrongType, "from_seq=True"),
    (lambda: check.check_seq("from_seq", 2**62 + 1), WrongType, "from_seq=4611686018427387905"),
    (lambda: check.check_positive("n", 0), WrongType, "n=0: expected a whole number from 1 to"),
    (lambda: check.check_shards(0), ShardOutOfRange, "shards=0: a stream has 1 to 10000 shards"),
    (lambda: check.check_shards(10_001), ShardOutOfRange, "shards=10001"),
    (lambda: check.check_shards(True), ShardOutOfRange, "shards=True"),
    (lambda: check.check_shard("s", 2, 2), ShardOutOfRange, "'s' has no shard 2: it has 2, 0 to 1"),
    (lambda: check.check_shard("s", -1, 2), ShardOutOfRange, "no shard -1"),
    (lambda: check.check_shard("s", True, 2), ShardOutOfRange, "no shard True"),
    (lambda: check.check_limits(Limits(records=0)), WrongType, "limits.records=0"),
    (lambda: check.check_limits(Limits(bytes=-1)), WrongType, "limits.bytes=-1"),
    (lambda: check.check_limits(Limits(records=1.5)), WrongType, "records=1.5"),  # type: ignore[arg-type]
    (lambda: check.check_limits(7), WrongType, "limits=7: expected a millstream.Limits"),  # type: ignore[arg-type]
    (lambda: check.check_cleanup("shred"), WrongType, "cleanup='shred': expected 'delete' or 'compact'"),
    (lambda: check.check_durability("maybe"), WrongType, "'maybe': expected 'fire' or 'written' or 'synced'"),
    (lambda: check.check_retention(Retention(age_ms=0)), WrongType, "retention.age_ms=0"),
    (lambda: check.check_retention(Retention(force=1)), WrongType, "force=1"),  # type: ignore[arg-type]
    (lambda: check.check_retention(5), WrongType, "retention=5: expected a"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "error", "words"), BAD_NUMBERS)
def test_a_number_or_choice_out_of_range_is_refused(
    call: Callable[[], object], error: type[UsageError], words: str
) -> None:
    with pytest.raises(error, match=words):
        call()


def test_settings_know_a_schema_as_a_struct_and_bytes_as_nothing() -> None:
    def settings(value: object) -> object:
        return check.check_settings(
            shards=1,
            value=value,
            codec="json",
            retention=None,
            cleanup="compact",
            tombstones_ms=5,
        ).value

    assert settings(pa.schema(list(ORDER))) == ORDER
    assert settings(pa.binary()) is None
    assert check.check_cleanup("compact") is Cleanup.COMPACT
    with pytest.raises(
        WrongType, match="value='int64' is no Arrow type: expected None, a pyarrow type or schema"
    ):
        settings("int64")


FITTING: list[tuple[pa.DataType, object]] = [
    (pa.int8(), 127),
    (pa.int8(), np.int64(5)),
    (pa.float32(), 1),
    (pa.float64(), 1.5),
    (pa.utf8(), "ä"),
    (pa.large_binary(), b"\xff"),
    (pa.bool_(), True),
    (pa.decimal128(5, 2), decimal.Decimal("1.25")),
    (pa.timestamp("ms", "UTC"), datetime.datetime(2020, 1, 1, tzinfo=UTC)),
    (pa.timestamp("ms"), 5),
    (pa.list_(pa.int64()), [1, None]),
    (pa.list_(pa.int64()), np.array([1, 2])),
    (pa.map_(pa.utf8(), pa.int64()), {"a": 1}),
    (pa.map_(pa.utf8(), pa.int64()), [("a", 1)]),
    (ORDER, {"item": "apple", "count": 2}),
    (ORDER, {"item": "apple"}),
    (ORDER, ("apple", 2)),
    (pa.list_(ORDER), [{"item": "apple"}, None]),
]
NOT_FITTING: list[tuple[pa.DataType, object]] = [
    (pa.int8(), 128),
    (pa.int64(), 1.5),
    (pa.int64(), 1.0),
    (pa.int64(), np.float32(1.5)),
    (pa.int64(), decimal.Decimal("1.5")),
    (pa.int64(), "5"),
    (pa.int64(), True),
    (pa.timestamp("ms"), 1.5),
    (pa.date32(), 1.5),
    (pa.utf8(), 5),
    (pa.utf8(), b"x"),
    (pa.utf8(), "\ud800"),
    (pa.binary(4), "four"),
    (pa.large_binary(), "x"),
    (pa.decimal128(5, 2), decimal.Decimal("1.255")),
    (pa.decimal128(5, 2), 1.5),
    (pa.list_(pa.int64()), [1.5]),
    (pa.list_(pa.int64()), 5),
    (pa.list_(pa.int64()), np.array([1.5])),
    (pa.map_(pa.utf8(), pa.int64()), {"a": 1.5}),
    (pa.map_(pa.utf8(), pa.int64()), [("a", 1.5)]),
    (ORDER, {"item": "apple", "colour": "red"}),
    (ORDER, {"item": "apple", "count": 1.5}),
    (ORDER, ("apple", 1.5)),
    (ORDER, ("apple",)),
    (ORDER, 5),
    (pa.list_(ORDER), [{"colour": "red"}]),
    (pa.int64(), 2**70),
]


@pytest.mark.parametrize(("kind", "value"), FITTING, ids=str)
def test_a_value_that_fits_its_column_passes(kind: pa.DataType, value: object) -> None:
    found = check.check_records(Append("s", 0, [(0, b"k", value, None), (1, b"k", None, None)]), kind)
    assert isinstance(found, pa.RecordBatch)
    assert found.schema.equals(rows_schema(kind))
    assert found.column(2).null_count == 1


@pytest.mark.parametrize(("kind", "value"), NOT_FITTING, ids=ascii)
def test_a_value_that_does_not_fit_is_refused_and_never_changed(kind: pa.DataType, value: object) -> None:
    with pytest.raises(WrongType, match="a value does not fit stream 's', whose values are"):
        check.check_records(Append("s", 0, [(0, b"k", value, None)]), kind)


def test_a_batch_has_the_columns_of_its_stream_in_their_order() -> None:
    batch = rows_to_batch([(0, b"k", b"v", None)], VALUE_BYTES)
    assert check.check_batch(batch, "s", VALUE_BYTES) is batch
    columns = (
        r"must have the columns timestamp: int64, key: binary, value: binary, headers: list.*this one has .*"
    )
    for wrong, has in [
        (pa.record_batch([], schema=pa.schema([])), "none$"),
        (batch.select(["key", "timestamp", "value", "headers"]), "key: binary, timestamp"),
        (batch.slice(0, 1).drop_columns(["headers"]), "timestamp: int64, key: binary, value: binary$"),
        (
            pa.RecordBatch.from_arrays([pa.array([0]), *batch.columns], schema=batch_schema(VALUE_BYTES)),
            "seq",
        ),
        (rows_to_batch([(0, b"k", 5, None)], pa.int64()), "value: int64"),
    ]:
        with pytest.raises(WrongType, match=columns + has):
            check.check_batch(wrong, "s", VALUE_BYTES)


@pytest.mark.parametrize("times", [[None], [0, None], [TIMESTAMP_MS_MAX + 1], [0, TIMESTAMP_MS_MIN - 1]])
def test_a_batch_whose_times_are_missing_or_out_of_range_is_refused(times: list[int | None]) -> None:
    nulls = pa.nulls(len(times), pa.binary())
    headers = pa.nulls(len(times), rows_schema(VALUE_BYTES).field("headers").type)
    schema = pa.schema([field.with_nullable(True) for field in rows_schema(VALUE_BYTES)])
    batch = pa.RecordBatch.from_arrays([pa.array(times, pa.int64()), nulls, nulls, headers], schema=schema)
    with pytest.raises(WrongType, match=r"without a timestamp|out of range"):
        check.check_batch(batch, "s", VALUE_BYTES)


def test_a_batch_whose_fields_are_said_otherwise_gets_the_fields_of_its_stream() -> None:
    batch = rows_to_batch([(0, b"k", b"v", None)], VALUE_BYTES)
    nullable = pa.schema([field.with_nullable(True) for field in batch.schema])
    said_otherwise = pa.RecordBatch.from_arrays(batch.columns, schema=nullable)
    assert check.check_batch(said_otherwise, "s", VALUE_BYTES).schema.equals(batch.schema)


PROMISED = pa.struct([pa.field("count", pa.int64(), nullable=False), ("more", pa.int64())])


@pytest.mark.parametrize(
    "wrap",
    [lambda kind: kind, pa.list_, pa.large_list, lambda kind: pa.list_(kind, 2)],
    ids=["bare", "list", "large", "two"],
)
def test_a_field_that_is_never_null_is_looked_after(wrap: Callable[[pa.DataType], pa.DataType]) -> None:
    kind = wrap(PROMISED)
    whole, holed = {"count": 1, "more": None}, {"count": None, "more": 1}
    many = kind != PROMISED
    good, bad = ([whole, None], [whole, holed]) if many else (whole, holed)
    for value, count in ((good, 2), (None, 2)):
        batch = rows_to_batch([(0, None, value, None)] * count + [(0, None, None, None)], kind)
        check.check_batch(batch, "s", kind)
    batch = rows_to_batch([(0, None, good, None), (0, None, None, None), (0, None, bad, None)], kind)
    check.check_batch(batch.slice(0, 2), "s", kind)
    with pytest.raises(WrongType, match="a record for stream 's' has no 'count', and its type is not null"):
        check.check_batch(batch, "s", kind)
    with pytest.raises(WrongType, match="has no 'count'"):
        check.check_records(Append("s", 0, [(0, None, bad, None)]), kind)


def test_a_header_has_a_name() -> None:
    batch = rows_to_batch([(0, None, b"v", ((None, b"x"),))], VALUE_BYTES)  # type: ignore[list-item]
    with pytest.raises(WrongType, match="has no 'name'"):
        check.check_batch(batch, "s", VALUE_BYTES)


@pytest.mark.parametrize("value", ["x" * 1_000, b"x" * 1_000, bytearray(1_000), list(range(1_000))])
def test_a_large_value_is_shown_short(value: object) -> None:
    assert len(shown(value)) <= 80
