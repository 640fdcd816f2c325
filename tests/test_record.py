"""Records and their Arrow form: what goes in comes out."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.record import (
    TIMESTAMP_MS_MAX,
    TIMESTAMP_MS_MIN,
    VALUE_BYTES,
    Record,
    batch_schema,
    headers_array,
    records_of,
    rows_schema,
    rows_to_batch,
    with_seqs,
)

header_lists = st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=4)), max_size=3)
rows = st.tuples(
    st.integers(TIMESTAMP_MS_MIN, TIMESTAMP_MS_MAX),
    st.none() | st.binary(max_size=8),
    st.none() | st.binary(max_size=8),
    st.none() | header_lists.map(tuple),
)


@given(st.lists(rows, max_size=30), st.integers(0, 2**40))
def test_rows_come_back_as_records_with_their_seqs(
    listed: list[tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...] | None]],
    first: int,
) -> None:
    batch = with_seqs(rows_to_batch(listed, VALUE_BYTES), first)
    assert batch.schema.equals(batch_schema(VALUE_BYTES))
    batch.validate(full=True)
    assert list(records_of(batch, "orders", 3)) == [
        Record(first + place, timestamp, key, value, headers or (), "orders", 3)
        for place, (timestamp, key, value, headers) in enumerate(listed)
    ]


@pytest.mark.parametrize("count", [0, 1, 999, 1_000, 1_001, 2_500])
def test_records_of_a_large_batch_come_in_order(count: int) -> None:
    listed = [(seq, None, b"v", (("h", None),) if seq == 1_200 else None) for seq in range(count)]
    found = list(records_of(with_seqs(rows_to_batch(listed, VALUE_BYTES), 7), "orders", 0))
    assert [record.seq for record in found] == list(range(7, 7 + count))
    assert [record.seq for record in found if record.headers] == ([1_207] if count > 1_200 else [])


def test_records_of_a_slice_are_those_of_the_slice() -> None:
    batch = with_seqs(rows_to_batch([(seq, b"k", b"v", None) for seq in range(10)], VALUE_BYTES), 0)
    assert [record.seq for record in records_of(batch.slice(3, 4), "orders", 0)] == [3, 4, 5, 6]


def test_headers_that_nobody_has_are_null() -> None:
    assert headers_array([None, (), None]).null_count == 3
    assert headers_array([None, (("h", b"x"),), ()]).to_pylist() == [
        None,
        [{"name": "h", "value": b"x"}],
        None,
    ]


def test_a_columnar_value_stays_in_one_column() -> None:
    kind = pa.struct([("item", pa.utf8()), ("count", pa.int64())])
    batch = rows_to_batch([(0, None, {"item": "apple", "count": 2}, None), (0, b"k", None, None)], kind)
    assert batch.schema.equals(rows_schema(kind))
    values = [record.value for record in records_of(with_seqs(batch, 0), "orders", 0)]
    assert values == [{"item": "apple", "count": 2}, None]


def test_a_record_is_never_changed() -> None:
    record = Record(0, 0, None, b"v", (), "orders", 0)
    with pytest.raises(AttributeError):
        record.value = b"w"  # type: ignore[misc]
