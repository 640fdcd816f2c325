"""Seeking by time: the first record, in the order of seqs, that is not older."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.errors import ShardOutOfRange, WrongType
from millstream.log import Append, Commit, Log
from millstream.log.can import Can
from millstream.record import TIMESTAMP_MS_MAX, TIMESTAMP_MS_MIN
from tests.contract.looking import arrow, refused
from tests.contract.stores import Store

times = st.integers(-5, 5) | st.sampled_from([TIMESTAMP_MS_MIN, TIMESTAMP_MS_MAX])


def fill(log: Log, *parts: list[int]) -> None:
    log.create("orders")
    for part in parts:
        rows = [(timestamp, None, b"x", None) for timestamp in part]
        log.commit(Commit(records=(Append("orders", 0, rows),)))


@given(st.lists(st.lists(times, max_size=5), max_size=5), times)
def test_the_first_that_is_not_older_is_found_whatever_their_order(
    store: Store, parts: list[list[int]], timestamp: int
) -> None:
    with store.new() as log:
        fill(log, *parts)
        flat = [time for part in parts for time in part]
        expected = next((seq for seq, time in enumerate(flat) if time >= timestamp), len(flat))
        assert log.seek("orders", 0, timestamp) == expected


def test_of_equal_times_the_first_is_found(log: Log) -> None:
    fill(log, [1, 2, 2], [2, 2, 3])
    assert [log.seek("orders", 0, time) for time in (0, 1, 2, 3, 4)] == [0, 0, 1, 5, 6]


def test_times_out_of_order_are_found_where_they_are(log: Log) -> None:
    fill(log, [5, 1], [9, 3])
    assert [log.seek("orders", 0, time) for time in (1, 3, 5, 6, 9, 10)] == [0, 0, 0, 2, 2, 4]


def test_the_years_1_and_9999_and_those_before_1970_are_times(log: Log) -> None:
    fill(log, [TIMESTAMP_MS_MIN], [-1], [0, TIMESTAMP_MS_MAX])
    found = [log.seek("orders", 0, time) for time in (TIMESTAMP_MS_MIN, -2, -1, 0, 1, TIMESTAMP_MS_MAX)]
    assert found == [0, 1, 1, 2, 3, 3]


def test_an_empty_shard_gives_its_end(log: Log) -> None:
    fill(log)
    assert log.seek("orders", 0, 0) == 0
    log.commit(Commit(records=(Append("orders", 0, arrow()),)))
    assert log.seek("orders", 0, TIMESTAMP_MS_MIN) == 0


@pytest.mark.needs(Can.TRIM)
def test_what_was_trimmed_is_not_found(log: Log) -> None:
    fill(log, [9, 1, 2, 3], [4])
    log.trim("orders", 0, 2)
    assert [log.seek("orders", 0, time) for time in (0, 2, 3, 4, 9)] == [2, 2, 3, 4, 5]
    log.trim("orders", 0, 5)
    assert log.seek("orders", 0, 0) == 5


@pytest.mark.needs(Can.COMPACT)
def test_what_was_compacted_is_not_found(log: Log) -> None:
    log.create("orders", cleanup="compact")
    for time in (9, 1, 2, 8):
        log.append("orders", b"x", key=b"k" if time in {9, 2} else None, timestamp=time)
    log.compact("orders")
    assert [log.seek("orders", 0, time) for time in (0, 2, 3, 9)] == [1, 2, 3, 4]


@pytest.mark.parametrize("timestamp", [TIMESTAMP_MS_MIN - 1, TIMESTAMP_MS_MAX + 1, True, 1.0, None, "now"])
def test_what_is_no_time_is_refused(log: Log, timestamp: int) -> None:
    fill(log, [1])
    with refused(log, WrongType, f"timestamp {timestamp!r} is out of range", "whole milliseconds since 1970"):
        log.seek("orders", 0, timestamp)
    with refused(log, ShardOutOfRange, "'orders' has no shard 1"):
        log.seek("orders", 1, 0)
