"""Reading: whatever its limits, following `next_seq` gives every record once and in order."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.errors import SeqPastEnd, SeqTrimmed
from millstream.log import Append, Commit, Limits, Log
from millstream.log.can import Can
from millstream.record import VALUE_BYTES, Row, batch_schema
from tests.contract.looking import arrow, records, refused, rows, values
from tests.contract.stores import Store

limits = st.builds(Limits, st.integers(1, 20), st.integers(1, 2_000))


@given(
    store_parts=st.lists(st.tuples(st.lists(st.integers(0, 300), max_size=8), st.booleans()), max_size=6),
    some=limits,
)
def test_following_next_seq_gives_everything_once_for_any_limits(
    store: Store, store_parts: list[tuple[list[int], bool]], some: Limits
) -> None:
    with store.new() as log:
        log.create("orders")
        sent = []
        for sizes, as_arrow in store_parts:
            part = [b"%d" % place * size for place, size in enumerate(sizes)]
            log.commit(Commit(records=(Append("orders", 0, arrow(*part) if as_arrow else rows(*part)),)))
            sent += part
        found = records(log, "orders", limits=some)
        assert [record.value for record in found] == sent
        assert [record.seq for record in found] == list(range(len(sent)))


@given(st.integers(1, 30), limits)
def test_a_read_starts_where_it_is_asked_to(store: Store, count: int, some: Limits) -> None:
    with store.new() as log:
        log.create("orders")
        for start in range(0, count, 7):
            part = [b"%d" % seq for seq in range(start, min(count, start + 7))]
            log.commit(Commit(records=(Append("orders", 0, rows(*part)),)))
        for from_seq in range(count):
            batch = log.read("orders", 0, from_seq, some)
            found = list(batch.records())
            assert found[0].seq == from_seq
            assert [record.value for record in found] == [
                b"%d" % seq for seq in range(from_seq, batch.next_seq)
            ]
            assert len(found) <= some.records


def test_one_record_comes_whatever_its_size(log: Log) -> None:
    log.create("orders")
    for value in (b"x" * 100_000, b"", b"y" * 100_000):
        log.append("orders", value)
    log.commit(Commit(records=(Append("orders", 0, rows(b"z" * 100_000, b"z" * 100_000)),)))
    found = records(log, "orders", limits=Limits(bytes=1))
    assert [len(record.value) for record in found] == [100_000, 0, 100_000, 100_000, 100_000]
    for seq in (0, 2, 3, 4):
        assert log.read("orders", 0, seq, Limits(bytes=1)).num_records == 1


@pytest.mark.parametrize("commits", [1, 100])
def test_a_read_keeps_to_its_limit_of_bytes(log: Log, commits: int) -> None:
    log.create("orders")
    for _ in range(commits):
        log.commit(Commit(records=(Append("orders", 0, arrow(*[b"x" * 1_000] * (100 // commits))),)))
    assert 1 <= log.read("orders", 0, 0, Limits(bytes=10_000)).num_records <= 10
    assert log.read("orders", 0, 0, Limits(records=7)).num_records == 7
    assert log.read("orders", 0, 0).num_records == 100


def test_a_read_at_the_end_gives_nothing_and_the_form_of_it(log: Log) -> None:
    log.create("orders")
    for end in (0, 1):
        batch = log.read("orders", 0, end)
        assert (batch.from_seq, batch.next_seq, batch.end, batch.num_records) == (end, end, end, 0)
        assert batch.schema.equals(batch_schema(VALUE_BYTES))
        assert batch.table().schema.equals(batch.schema)
        assert list(batch.records()) == []
        log.append("orders", b"x")


def test_a_batch_tells_where_the_shard_ends(log: Log) -> None:
    log.create("orders")
    log.commit(Commit(records=(Append("orders", 0, rows(*[b"x"] * 10)),)))
    batch = log.read("orders", 0, 2, Limits(records=3))
    assert (batch.from_seq, batch.next_seq, batch.end) == (2, 5, 10)
    assert log.read("orders", 0, batch.next_seq, history=batch.history).next_seq == 10


def test_shards_do_not_see_each_other(log: Log) -> None:
    log.create("orders", shards=3)
    log.create("other", shards=2)
    log.append("orders", b"a", shard=0)
    log.append("orders", b"b", shard=2)
    log.append("other", b"c", shard=0)
    assert [values(log, "orders", shard) for shard in range(3)] == [[b"a"], [], [b"b"]]
    assert [values(log, "other", shard) for shard in range(2)] == [[b"c"], []]


def test_every_part_of_a_record_comes_back(log: Log) -> None:
    log.create("orders")
    sent: list[Row] = [
        (0, None, None, None),
        (1, b"", b"", ()),
        (-1, b"key", b"value", (("name", b"x"), ("name", None), ("", b""), ("ä\0", b"\xff"))),
        (2, b"\0\xff" * 50, b"\xff", None),
    ]
    log.commit(Commit(records=(Append("orders", 0, sent),)))
    found = [(r.timestamp, r.key, r.value, r.headers) for r in records(log, "orders")]
    assert found == [(timestamp, key, value, headers or ()) for timestamp, key, value, headers in sent]


def test_batches_have_the_stored_form_however_they_came(log: Log) -> None:
    log.create("orders")
    log.commit(Commit(records=(Append("orders", 0, rows(b"a")), Append("orders", 0, arrow(b"b", b"c")))))
    log.append("orders", b"d", headers={"h": b"x"})
    batch = log.read("orders", 0, 0)
    table = batch.table()
    table.validate(full=True)
    assert table.schema.equals(batch_schema(VALUE_BYTES))
    assert all(part.schema.equals(table.schema) for part in batch.batches)
    assert table.column("seq").to_pylist() == [0, 1, 2, 3]
    assert isinstance(table, pa.Table)


def test_past_the_end_is_refused_and_the_end_is_told(log: Log) -> None:
    log.create("orders")
    log.commit(Commit(records=(Append("orders", 0, rows(b"a", b"b")),)))
    for seq in (3, 2**40):
        with refused(
            log, SeqPastEnd, f"seq {seq} lies past the end, 2", "read from the end or before"
        ) as caught:
            log.read("orders", 0, seq)
        assert isinstance(caught.value, SeqPastEnd)
        assert caught.value.end == 2


@pytest.mark.needs(Can.TRIM)
def test_before_the_first_is_refused_and_the_first_and_the_missing_are_told(log: Log) -> None:
    log.create("orders")
    log.commit(Commit(records=(Append("orders", 0, rows(*[b"x"] * 10)),)))
    assert log.trim("orders", 0, 6) == 6
    for seq in (0, 5):
        with refused(
            log, SeqTrimmed, f"seq {seq} is gone", "6, the first that is left; go on from"
        ) as caught:
            log.read("orders", 0, seq)
        assert isinstance(caught.value, SeqTrimmed)
        assert (caught.value.first, caught.value.missing) == (6, 6 - seq)
    assert [record.seq for record in log.read("orders", 0, 6).records()] == [6, 7, 8, 9]
