"""Retention and trim: the oldest go first, and never more than was said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.errors import SeqPastEnd, ShardOutOfRange, WrongType
from millstream.log import Append, Commit, Log, Retention
from millstream.log.can import Can
from tests.contract.looking import arrow, records, refused, rows, values
from tests.contract.stores import Store
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.needs(Can.TRIM)


def test_trim_forgets_what_lies_before_and_keeps_the_seqs(log: Log) -> None:
    log.create("orders", shards=2)
    log.commit(Commit(records=(Append("orders", 0, arrow(*[b"%d" % seq for seq in range(10)])),)))
    log.append("orders", b"other", shard=1)
    assert log.trim("orders", 0, 4) == 4
    assert log.ends("orders") == [(4, 10), (0, 1)]
    assert [record.seq for record in records(log, "orders")] == [4, 5, 6, 7, 8, 9]
    assert log.trim("orders", 0, 10) == 10
    assert log.append("orders", b"next", shard=0).placed[0].first == 10
    info = log.describe("orders").shards[0]
    assert (info.first, info.end, info.records) == (10, 11, 1)


def test_trim_does_not_go_back_and_not_past_the_end(log: Log) -> None:
    log.create("orders")
    log.commit(Commit(records=(Append("orders", 0, rows(b"a", b"b", b"c")),)))
    assert log.trim("orders", 0, 2) == 2
    assert log.trim("orders", 0, 1) == 2
    with refused(log, SeqPastEnd, "ends at 3: it cannot be trimmed to 4") as caught:
        log.trim("orders", 0, 4)
    assert isinstance(caught.value, SeqPastEnd)
    assert caught.value.end == 3
    with refused(log, SeqPastEnd):
        log.trim("orders", 0, 4, force=True)
    with refused(log, ShardOutOfRange, "'orders' has no shard 1"):
        log.trim("orders", 1, 0)
    with refused(log, WrongType, "to_seq=-1"):
        log.trim("orders", 0, -1)


def test_records_over_their_number_go(log: Log) -> None:
    log.create("orders", shards=2, retention=Retention(records=3))
    for number in range(5):
        log.append("orders", b"%d" % number, shard=0)
    log.append("orders", b"a", shard=1)
    assert log.retain("orders") == 2
    assert (values(log, "orders"), values(log, "orders", 1)) == ([b"2", b"3", b"4"], [b"a"])
    assert log.retain("orders") == 0


def test_records_over_their_age_go_by_their_own_timestamps(log: Log, clock: ManualClock) -> None:
    log.create("orders", retention=Retention(age_ms=10_000))
    start = clock.now_ms()
    for age in (0, 1, 2, 3):
        log.append("orders", b"%d" % age, timestamp=start + age * 1_000)
    clock.forward(10)
    assert log.retain("orders") == 0
    clock.forward(2)
    assert log.retain("orders") == 2
    assert values(log, "orders") == [b"2", b"3"]
    clock.forward(100)
    assert log.retain("orders") == 2
    assert log.ends("orders") == [(4, 4)]


def test_an_old_record_behind_a_young_one_waits_for_it(log: Log, clock: ManualClock) -> None:
    log.create("orders", retention=Retention(age_ms=10_000))
    now = clock.now_ms()
    for age_ms in (20_000, 5_000, 20_000):
        log.append("orders", b"%d" % age_ms, timestamp=now - age_ms)
    assert log.retain() == 1
    assert values(log, "orders") == [b"5000", b"20000"]


def test_bytes_over_their_limit_go(log: Log) -> None:
    log.create("orders", retention=Retention(bytes=50_000))
    for _ in range(20):
        log.append("orders", b"x" * 10_000)
    gone = log.retain("orders")
    assert 15 <= gone < 20
    assert len(values(log, "orders")) == 20 - gone


def test_without_limits_nothing_goes(log: Log, clock: ManualClock) -> None:
    log.create("orders")
    log.append("orders", b"a", timestamp=0)
    clock.forward(10**9)
    assert log.retain("orders") == log.retain() == 0


def test_the_strictest_limit_counts_and_altering_it_counts_from_then_on(log: Log, clock: ManualClock) -> None:
    log.create("orders", retention=Retention(age_ms=1_000, records=4))
    for _ in range(5):
        log.append("orders", b"x")
    assert log.retain() == 1
    log.alter("orders", retention=Retention(age_ms=1_000, records=2))
    assert log.retain() == 2
    clock.forward(5)
    assert log.retain() == 2


def test_all_streams_are_tended_when_none_is_named(log: Log) -> None:
    for name in ("a", "b", "c"):
        log.create(name, retention=None if name == "c" else Retention(records=1))
        log.commit(Commit(records=(Append(name, 0, rows(b"1", b"2")),)))
    assert log.retain("a") == 1
    assert log.retain() == 1
    assert [values(log, name) for name in "abc"] == [[b"2"], [b"2"], [b"1", b"2"]]
    assert log.statistics()["records_retired"] == 2


@pytest.mark.needs(Can.COMPACT)
def test_a_compacted_stream_is_not_retained(log: Log) -> None:
    log.create("orders", cleanup="compact", retention=Retention(records=1))
    log.commit(Commit(records=(Append("orders", 0, rows(b"1", b"2")),)))
    assert log.retain("orders") == log.retain() == 0


def test_a_clock_that_goes_back_brings_nothing_back_and_takes_nothing(log: Log, clock: ManualClock) -> None:
    log.create("orders", retention=Retention(age_ms=10_000))
    log.append("orders", b"a")
    clock.now -= 10**8
    log.append("orders", b"b")
    assert log.retain() == 0
    assert values(log, "orders") == [b"a", b"b"]


@given(st.lists(st.lists(st.integers(0, 20), max_size=4), max_size=5), st.integers(1, 20), st.integers(1, 10))
def test_what_stays_is_what_a_plain_loop_would_keep(
    store: Store, parts: list[list[int]], age: int, most: int
) -> None:
    with store.new() as log:
        now = log.clock.now_ms()
        log.create("orders", retention=Retention(age_ms=age, records=most))
        for part in parts:
            log.commit(
                Commit(records=(Append("orders", 0, [(now - old, None, b"x", None) for old in part]),))
            )
        ages = [old for part in parts for old in part]
        young = next((seq for seq, old in enumerate(ages) if old <= age), len(ages))
        first = max(young, len(ages) - most, 0)
        assert log.retain() == first
        assert log.ends("orders") == [(first, len(ages))]
        assert [record.timestamp for record in records(log, "orders")] == [now - old for old in ages[first:]]
