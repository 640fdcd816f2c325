"""Compaction: the latest record of each key stays where it is; seqs have gaps afterwards."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.log import Append, Commit, Limits, Log
from millstream.log.can import Can
from tests.contract.looking import keyed, records, values
from tests.contract.stores import Store
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.needs(Can.COMPACT)
DAY = 86_400.0


def send(log: Log, *pairs: tuple[bytes | None, bytes | None], at: int | None = None) -> None:
    when = log.clock.now_ms() if at is None else at
    log.commit(Commit(records=(Append("orders", 0, keyed(*pairs, at=when)),)))


def kept(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.seq, record.key, record.value) for record in records(log, "orders")]


def test_the_latest_of_each_key_stays_at_its_seq(log: Log) -> None:
    log.create("orders", cleanup="compact")
    send(log, (b"a", b"1"), (b"b", b"2"), (b"a", b"3"))
    send(log, (b"b", b"4"), (b"c", b"5"))
    assert log.compact("orders") == 2
    assert kept(log) == [(2, b"a", b"3"), (3, b"b", b"4"), (4, b"c", b"5")]
    assert log.ends("orders")[0][1] == 5
    assert log.compact("orders") == 0
    assert log.append("orders", b"6", key=b"a").placed[0].first == 5


def test_records_without_a_key_all_stay_and_the_empty_key_is_one(log: Log) -> None:
    log.create("orders", cleanup="compact")
    send(log, (None, b"1"), (b"", b"2"), (None, b"3"), (b"", b"4"), (None, None))
    assert log.compact("orders") == 1
    assert kept(log) == [(0, None, b"1"), (2, None, b"3"), (3, b"", b"4"), (4, None, None)]


def test_tombstones_stay_for_their_time_and_what_they_delete_goes_at_once(
    log: Log, clock: ManualClock
) -> None:
    log.create("orders", cleanup="compact", tombstones_ms=int(2 * DAY * 1_000))
    send(log, (b"a", b"1"), (b"b", b"2"), (b"a", None))
    assert log.compact("orders") == 1
    assert kept(log) == [(1, b"b", b"2"), (2, b"a", None)]
    clock.forward(2 * DAY)
    assert log.compact("orders") == 0
    clock.forward(1)
    assert log.compact("orders") == 1
    assert kept(log) == [(1, b"b", b"2")]


def test_a_key_may_come_back_after_its_tombstone(log: Log, clock: ManualClock) -> None:
    log.create("orders", cleanup="compact")
    send(log, (b"a", b"1"), (b"a", None), (b"a", b"2"))
    clock.forward(2 * DAY)
    log.compact("orders")
    assert kept(log) == [(2, b"a", b"2")]


def test_readers_go_over_gaps(log: Log) -> None:
    log.create("orders", cleanup="compact")
    for number in range(20):
        send(log, (b"k%d" % (number % 2), b"%d" % number), (None if number == 7 else b"x", b""))
    log.compact("orders")
    assert [seq for seq, _, _ in kept(log)] == [15, 36, 38, 39]
    for from_seq in range(40):
        batch = log.read("orders", 0, from_seq, Limits(records=1))
        found = [record.seq for record in batch.records()]
        assert found == [seq for seq in (15, 36, 38, 39) if seq >= from_seq][: len(found)]
        assert found or batch.next_seq > from_seq
        assert batch.next_seq <= 40


def test_the_end_stays_when_all_before_it_is_gone(log: Log, clock: ManualClock) -> None:
    log.create("orders", cleanup="compact", tombstones_ms=1)
    send(log, (b"a", None))
    clock.forward(1)
    assert log.compact("orders") == 1
    assert log.ends("orders")[0][1] == 1
    assert kept(log) == []
    assert log.append("orders", b"1").placed[0].first == 1
    assert values(log, "orders") == [b"1"]


def test_shards_are_compacted_each_for_itself(log: Log) -> None:
    log.create("orders", shards=2, cleanup="compact")
    for shard in (0, 1, 1):
        log.append("orders", b"%d" % shard, key=b"k", shard=shard)
    assert log.compact("orders") == 1
    assert (len(values(log, "orders", 0)), len(values(log, "orders", 1))) == (1, 1)


def test_all_streams_that_ask_for_it_are_compacted_when_none_is_named(log: Log) -> None:
    for name in ("a", "b", "c"):
        log.create(name, cleanup="delete" if name == "b" else "compact")
        log.commit(Commit(records=(Append(name, 0, keyed((b"k", b"1"), (b"k", b"2"))),)))
    assert log.compact() == 2
    assert [values(log, name) for name in "abc"] == [[b"2"], [b"1", b"2"], [b"2"]]


def test_a_description_counts_what_compaction_left(log: Log) -> None:
    log.create("orders", cleanup="compact")
    send(log, (b"a", b"1"), at=5)
    send(log, (b"a", b"2"), (b"b", b"3"), at=7)
    log.compact("orders")
    (info,) = log.describe("orders").shards
    assert (info.records, info.end, info.oldest_ms, info.newest_ms) == (2, 3, 7, 7)


def test_what_was_trimmed_is_not_counted_as_compacted(log: Log) -> None:
    log.create("orders", cleanup="compact")
    send(log, (b"a", b"1"), (b"a", b"2"), (b"a", b"3"), (b"a", b"4"))
    log.trim("orders", 0, 2)
    assert log.compact("orders") == 1
    assert kept(log) == [(3, b"a", b"4")]


def test_columnar_streams_are_compacted_too(log: Log) -> None:
    import pyarrow as pa

    log.create("orders", cleanup="compact", value=pa.struct([("count", pa.int64())]), tombstones_ms=1)
    log.append("orders", {"count": 1}, key=b"a")
    log.append("orders", {"count": None}, key=b"a")
    log.append("orders", None, key=b"b", timestamp=0)
    assert log.compact("orders") == 2
    assert values(log, "orders") == [{"count": None}]


pairs = st.tuples(st.sampled_from([None, b"", b"a", b"b"]), st.sampled_from([None, b"v"]))


@given(st.lists(st.lists(pairs, max_size=4), max_size=6), st.integers(0, 6), st.booleans())
def test_what_stays_is_what_a_plain_loop_would_keep(
    store: Store, parts: list[list[tuple[bytes | None, bytes | None]]], compact_after: int, late: bool
) -> None:
    with store.new() as log:
        clock = log.clock
        assert isinstance(clock, ManualClock)
        log.create("orders", cleanup="compact", tombstones_ms=1_000)
        for number, part in enumerate(parts):
            send(log, *part)
            if number == compact_after:
                log.compact()
        if late:
            clock.forward(2)
        log.compact("orders")
        flat = [pair for part in parts for pair in part]
        last = {key: seq for seq, (key, _) in enumerate(flat)}
        assert kept(log) == [
            (seq, key, value)
            for seq, (key, value) in enumerate(flat)
            if key is None or (last[key] == seq and not (value is None and late))
        ]
