"""Compaction: the latest record of each key stays, and so does every record without a key."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millstream.log.compaction import latest_seqs, survivors
from millstream.record import VALUE_BYTES, Row, rows_to_batch, with_seqs

rows = st.tuples(
    st.integers(0, 5),
    st.sampled_from([None, b"", b"a", b"b"]),
    st.sampled_from([None, b"", b"v"]),
    st.none(),
)


def batches_of(listed: list[list[Row]]) -> list[pa.RecordBatch]:
    found, first = [], 0
    for part in listed:
        found.append(with_seqs(rows_to_batch(part, VALUE_BYTES), first))
        first += len(part)
    return found


@given(st.lists(st.lists(rows, max_size=6), max_size=4), st.integers(0, 6))
def test_what_stays_is_what_a_plain_loop_would_keep(
    listed: list[list[Row]], tombstones_before_ms: int
) -> None:
    batches = batches_of(listed)
    flat = [row for part in listed for row in part]
    last = {key: seq for seq, (_, key, _, _) in enumerate(flat)}
    kept = [
        seq
        for seq, (timestamp, key, value, _) in enumerate(flat)
        if key is None or (last[key] == seq and not (value is None and timestamp < tombstones_before_ms))
    ]
    latest = latest_seqs(batches)
    masks = [survivors(batch, latest, tombstones_before_ms=tombstones_before_ms) for batch in batches]
    left = [batch.filter(mask) for batch, mask in zip(batches, masks, strict=True)]
    assert [seq for batch in left for seq in batch.column("seq").to_pylist()] == kept


def test_nothing_is_compacted_to_nothing() -> None:
    assert latest_seqs([]).to_pylist() == []
    (batch,) = batches_of([[]])
    assert survivors(batch, latest_seqs([batch]), tombstones_before_ms=0).to_pylist() == []


def test_a_columnar_value_that_is_null_is_a_tombstone() -> None:
    kind = pa.struct([("count", pa.int64())])
    batch = with_seqs(rows_to_batch([(0, b"a", {"count": None}, None), (0, b"b", None, None)], kind), 0)
    latest = latest_seqs([batch])
    assert survivors(batch, latest, tombstones_before_ms=0).to_pylist() == [True, True]
    assert survivors(batch, latest, tombstones_before_ms=1).to_pylist() == [True, False]
