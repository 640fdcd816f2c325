"""What a producer promises when the store fails, when it is restarted, and when there are two of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import millstream
from millstream import Limits, Log, Producer, Sent
from millstream.errors import (
    Bug,
    Closed,
    Fenced,
    MillstreamError,
    Overflow,
    ReadOnly,
    StoreFailed,
    StoreFull,
    SyncFailed,
    TimedOut,
    UnknownStream,
)
from millstream.log import ProducerOptions
from millstream.record import VALUE_BYTES, rows_to_batch
from tests.trouble import Trouble

NEVER_MS = 3_600_000  # a linger that no test waits for
STORES = ["memory", "file"]


@pytest.fixture(params=STORES)
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    url = "memory:" if request.param == "memory" else f"file:{tmp_path}/log"
    with millstream.open(url) as log:
        log.create("s")
        log.create("wide", shards=4)
        yield log


def values(log: Log, stream: str = "s") -> list[bytes]:
    shards = range(log.settings(stream).shards)
    return [record.value for shard in shards for record in log.read(stream, shard, 0).records()]


# -- a commit is tried again


@pytest.mark.parametrize("error", [StoreFailed("eio"), StoreFull("enospc"), TimedOut("late")])
def test_with_a_name_a_commit_that_fails_after_it_was_applied_is_there_once(
    log: Log, error: MillstreamError
) -> None:
    trouble = Trouble(log)
    trouble.after = [error, error]
    with log.producer("wide", name="p") as producer:
        sent = [producer.send(b"%d" % n, key=b"k%d" % n) for n in range(50)]
        places = {sent[n].wait(60) for n in range(50)}
        counts = producer.statistics()
    assert sorted(map(int, values(log, "wide"))) == list(range(50))
    assert len(places) == 50
    assert counts["retries"] == counts["errors"] == 2
    assert counts["commits_recognised"] == 1


def test_a_retry_is_the_same_commit_and_the_next_one_has_the_next_number(log: Log) -> None:
    trouble = Trouble(log)
    trouble.before = [StoreFailed("eio"), StoreFailed("eio")]
    with log.producer("s", name="p") as producer:
        producer.send(b"a").wait(60)
        producer.send(b"b").wait(60)
    first, again, last, other = (commit.fence for commit in trouble.seen)
    assert first is again is last
    assert last is not None
    assert other is not None
    assert (other.run, other.number, other.digest) == (last.run, last.number + 1, last.digest)
    assert values(log) == [b"a", b"b"]


def test_without_a_name_a_record_comes_at_least_once(log: Log) -> None:
    trouble = Trouble(log)
    trouble.before = [StoreFailed("eio")]
    trouble.after = [StoreFailed("eio")]
    with log.producer("s") as producer:
        assert producer.send(b"a").wait(60).seq == 1
    assert values(log) == [b"a", b"a"]


def test_the_order_is_kept_while_commits_are_tried_again(log: Log) -> None:
    trouble = Trouble(log)
    trouble.after = [StoreFailed("eio"), None] * 10
    with log.producer("s", name="p", batch_records=3, linger_ms=0) as producer:
        for n in range(30):
            producer.send(b"%d" % n, key=b"k")
    assert [int(value) for value in values(log)] == list(range(30))


def test_a_commit_that_fails_too_often_is_given_up_and_the_next_one_is_tried(log: Log) -> None:
    trouble = Trouble(log)
    trouble.before = [StoreFailed("eio")] * 3
    with log.producer("s", retries=2) as producer:
        lost = producer.send(b"lost")
        with pytest.raises(StoreFailed, match="eio") as raised:
            lost.wait(60)
        assert raised.value.__notes__ == ["given up after 3 tries"]
        assert producer.send(b"kept").wait(60).seq == 0
        counts = producer.statistics()
    assert (counts["records_acknowledged"], counts["records_failed"], counts["retries"]) == (1, 1, 2)
    assert values(log) == [b"kept"]


def test_a_commit_is_given_up_after_its_time(log: Log) -> None:
    trouble = Trouble(log)
    trouble.before = [StoreFailed("eio")] * 1_000
    producer = log.producer("s", timeout=0.02)
    producer.send(b"lost")
    with pytest.raises(StoreFailed):
        producer.flush(60)
    assert len(trouble.seen) > 1
    producer.flush(60)  # it was told


def test_what_follows_a_commit_given_up_is_not_written_under_a_name(log: Log) -> None:
    trouble = Trouble(log)
    trouble.hold(producer := log.producer("s", name="p", retries=0))
    trouble.before = [StoreFailed("eio")]
    after = producer.send(b"after", position=b"2")
    trouble.open.set()
    for call in (after.wait, producer.flush, producer.last_position, lambda: producer.send(b"x", key=b"k")):
        with pytest.raises(StoreFailed):
            call()
    producer.close()
    assert values(log) == []
    with log.producer("s", name="p") as producer:
        assert producer.last_position() is None


# -- what is not tried again


@pytest.mark.parametrize("error", [SyncFailed("fsync"), ReadOnly("no"), ValueError("unforeseen")])
def test_an_error_that_is_not_retriable_stops_the_producer_for_good(log: Log, error: Exception) -> None:
    trouble = Trouble(log)
    producer = log.producer("s")
    trouble.hold(producer)
    trouble.before = [error]
    sent = producer.send(b"v")
    trouble.open.set()
    kind = type(error) if isinstance(error, MillstreamError) else Bug
    for call in (sent.wait, producer.flush, lambda: producer.send(b"v"), producer.flush):
        with pytest.raises(kind) as raised:
            call()
    assert raised.value.__cause__ is (error if kind is Bug else None)
    producer.close()
    assert len(trouble.seen) == 1
    assert producer.statistics()["records_failed"] == 2


def test_a_stream_that_is_deleted_stops_its_producer(log: Log) -> None:
    producer = log.producer("s")
    producer.send(b"v").wait(60)
    log.delete("s")
    with pytest.raises(UnknownStream):
        producer.send(b"v").wait(60)
    with pytest.raises(UnknownStream):
        producer.send(b"v")
    producer.close()


def test_a_log_that_is_closed_stops_its_producers(log: Log) -> None:
    producer = log.producer("s", linger_ms=NEVER_MS)
    producer.send(b"v")
    log.close()
    with pytest.raises(Closed, match="was closed; open it again"):
        producer.close(60)


# -- two of one name


def test_a_zombie_is_fenced_for_good(log: Log) -> None:
    old = log.producer("s", name="p")
    old.send(b"1").wait(60)
    new = log.producer("s", name="p")
    zombie = old.send(b"zombie")
    for call in (zombie.wait, old.flush, old.last_position, lambda: old.send(b"x"), old.flush):
        with pytest.raises(Fenced, match="another has taken the name over"):
            call()
    new.send(b"2").wait(60)
    old.close()
    new.close()
    assert values(log) == [b"1", b"2"]


def test_a_commit_that_was_on_its_way_when_the_name_was_taken_over_is_refused(log: Log) -> None:
    trouble = Trouble(log)
    old = log.producer("s", name="p")
    trouble.hold(old)
    new = log.producer("s", name="p")
    trouble.open.set()
    with pytest.raises(Fenced):
        old.close(60)
    new.close()
    assert values(log) == []


# -- positions


def test_a_restarted_producer_goes_on_from_its_last_position(log: Log) -> None:
    with log.producer("s", name="p") as producer:
        assert producer.last_position() is None
        for n in range(5):
            producer.send(b"%d" % n, position=b"line %d" % n)
        producer.flush(60)
        assert producer.last_position() == b"line 4"
    with log.producer("s", name="p") as producer:
        assert producer.last_position() == b"line 4"


def test_a_commit_without_a_position_keeps_the_one_before(log: Log) -> None:
    with log.producer("s", name="p") as producer:
        producer.send(b"1", position=b"line 1").wait(60)
        producer.send(b"2").wait(60)
    with log.producer("s", name="p") as producer:
        producer.send(b"3").wait(60)
    with log.producer("s", name="p") as producer:
        assert producer.last_position() == b"line 1"


def test_an_arrow_batch_and_its_position_are_one_commit(log: Log) -> None:
    batch = millstream.log.Settings().schema.remove(0).empty_table()
    with log.producer("s", name="p") as producer:
        producer.send_batch(batch, position=b"file 1").wait(60)
    with log.producer("s", name="p") as producer:
        assert producer.last_position() == b"file 1"


FAULTS = st.lists(st.sampled_from(["", "before", "after", "death before", "death after"]), max_size=12)


@given(faults=FAULTS, batch=st.integers(1, 5), count=st.integers(0, 20))
def test_with_positions_every_record_is_there_once_whatever_fails_and_however_often_it_restarts(
    faults: list[str], batch: int, count: int
) -> None:
    options: ProducerOptions = {"name": "p", "linger_ms": 0, "batch_records": batch}
    with millstream.open("memory:") as log:
        log.create("s")
        trouble = Trouble(log)
        trouble.before = [fault_error(fault) if fault.endswith("before") else None for fault in faults]
        trouble.after = [
            fault_error(f) if f.endswith("after") else None for f in faults if not f.endswith("before")
        ]
        for _ in range(len(faults) + 1):
            producer = log.producer("s", **options)
            try:
                send_lines(producer, count)
                producer.close(60)
                break
            except ReadOnly:
                producer.close(60)
        assert values(log) == [b"%d" % n for n in range(count)]


def fault_error(fault: str) -> MillstreamError:
    return ReadOnly("dead") if fault.startswith("death") else StoreFailed("eio")


def send_lines(producer: Producer, count: int) -> None:
    last = producer.last_position()
    for n in range(0 if last is None else int(last) + 1, count):
        producer.send(b"%d" % n, key=b"k", position=b"%d" % n)


# -- when the store is slow


def held(log: Log, options: ProducerOptions) -> tuple[Producer, Trouble]:
    """A producer whose writer is held up, with nothing in its buffer."""
    trouble = Trouble(log)
    producer = log.producer("s", **options)
    trouble.hold(producer)
    return producer, trouble


def fate(sent: Sent) -> bytes:
    """What became of a record: its seq, or the error."""
    try:
        return b"%d" % sent.wait(60).seq
    except Overflow:
        return b"dropped"


def test_a_full_buffer_blocks_until_there_is_room(log: Log) -> None:
    producer, trouble = held(log, {"buffer": 2})
    sent = [producer.send(b"%d" % n) for n in range(2)]
    blocked = threading.Thread(target=lambda: sent.append(producer.send(b"2")))
    blocked.start()
    assert len(sent) == 2
    trouble.open.set()
    blocked.join(60)
    assert [fate(each) for each in sent] == [b"1", b"2", b"3"]
    producer.close()
    assert values(log) == [b"held", b"0", b"1", b"2"]


def test_a_buffer_that_stays_full_times_out(log: Log) -> None:
    producer, trouble = held(log, {"buffer": 2, "timeout": 0.01})
    producer.send(b"0")
    producer.send(b"1")
    with pytest.raises(TimedOut, match="no room for another record"):
        producer.send(b"2")
    trouble.open.set()
    producer.close()
    counts = producer.statistics()
    assert (counts["records_sent"], counts["refused_timed_out"]) == (3, 1)
    assert values(log) == [b"held", b"0", b"1"]


def test_the_newest_are_dropped_and_counted(log: Log) -> None:
    producer, trouble = held(log, {"buffer": 3, "overflow": "drop_newest"})
    sent = [producer.send(b"%d" % n, key=b"k") for n in range(10)]
    assert [each.done for each in sent] == [False] * 3 + [True] * 7
    with pytest.raises(Overflow, match=r"3 records or .* 'drop_newest': this record is not written"):
        sent[3].wait()
    trouble.open.set()
    assert [fate(each) for each in sent] == [b"1", b"2", b"3"] + [b"dropped"] * 7
    producer.close()
    counts = producer.statistics()
    assert (counts["records_sent"], counts["records_acknowledged"], counts["dropped_newest"]) == (11, 4, 7)
    assert values(log) == [b"held", b"0", b"1", b"2"]


def test_the_oldest_are_dropped_and_counted(log: Log) -> None:
    producer, trouble = held(log, {"buffer": 3, "overflow": "drop_oldest"})
    sent = [producer.send(b"%d" % n, key=b"k") for n in range(10)]
    assert [each.done for each in sent] == [True] * 7 + [False] * 3
    with pytest.raises(Overflow, match="'drop_oldest'"):
        sent[6].wait(1)
    trouble.open.set()
    assert [fate(each) for each in sent] == [b"dropped"] * 7 + [b"1", b"2", b"3"]
    producer.close()
    counts = producer.statistics()
    assert (counts["records_sent"], counts["records_acknowledged"], counts["dropped_oldest"]) == (11, 4, 7)
    assert values(log) == [b"held", b"7", b"8", b"9"]


def test_a_record_dropped_from_the_middle_of_a_batch_is_told_at_once(log: Log) -> None:
    log.alter("s", shards=4)
    producer, trouble = held(log, {"buffer": 80, "overflow": "drop_oldest"})
    sent = [producer.send(b"%d" % n, key=b"k", shard=n % 4) for n in range(83)]
    assert [each.done for each in sent] == [True] * 3 + [False] * 80
    with pytest.raises(Overflow):
        sent[2].wait(1)
    trouble.open.set()
    places = {sent[n].wait(60): n for n in range(3, 83)}
    producer.close()
    for place, n in places.items():
        assert place.shard == n % 4
        (record,) = log.read("s", place.shard, place.seq, Limits(records=1)).records()
        assert record.value == b"%d" % n


def test_a_full_buffer_is_an_error_if_that_is_the_policy(log: Log) -> None:
    producer, trouble = held(log, {"buffer": 3, "overflow": "error"})
    for n in range(3):
        producer.send(b"%d" % n)
    with pytest.raises(Overflow):
        producer.send(b"3")
    trouble.open.set()
    producer.close()
    assert producer.statistics()["refused_overflow"] == 1
    assert len(values(log)) == 4


def test_a_buffer_is_full_by_bytes_too(log: Log) -> None:
    producer, trouble = held(log, {"buffer_bytes": 100, "overflow": "drop_newest"})
    sent = [producer.send(b"v" * size, key=b"k") for size in (1_000, 10, 10)]
    assert [each.done for each in sent] == [False, True, True]  # the first came alone
    trouble.open.set()
    producer.close()
    assert producer.statistics()["dropped_newest"] == 2


@pytest.mark.parametrize("policy", ["drop_oldest", "drop_newest"])
def test_an_arrow_batch_is_dropped_whole(log: Log, policy: str) -> None:
    producer, trouble = held(log, {"buffer": 4, "overflow": policy})
    three = rows_to_batch([(0, b"k", b"v", None)] * 3, VALUE_BYTES)
    batches = [producer.send_batch(three) for _ in range(2)]
    kept, dropped = batches if policy == "drop_newest" else reversed(batches)
    assert dropped.done
    with pytest.raises(Overflow):
        dropped.wait()
    trouble.open.set()
    assert [(placed.first, placed.next) for placed in kept.wait(60)] == [(1, 4)]
    producer.close()
    counts = producer.statistics()
    assert (counts["records_sent"], counts["records_acknowledged"], counts[policy_count(policy)]) == (7, 4, 3)


def policy_count(policy: str) -> str:
    return policy.replace("drop_", "dropped_")


# -- fire and forget


def test_with_fire_errors_are_counted_and_not_raised(log: Log) -> None:
    trouble = Trouble(log)
    trouble.before = [StoreFailed("eio"), None, SyncFailed("fsync")]
    with log.producer("s", durability="fire", retries=0) as producer:
        for value in (b"lost", b"kept", b"lost", b"lost"):
            producer.send(value, key=b"k")
            producer.flush(60)
    counts = producer.statistics()
    assert (counts["records_sent"], counts["records_acknowledged"], counts["records_failed"]) == (4, 1, 3)
    assert counts["errors"] == 2
    assert values(log) == [b"kept"]
    with pytest.raises(Closed):
        producer.send(b"v")


def test_with_fire_a_record_without_room_is_counted_and_not_raised(log: Log) -> None:
    producer, trouble = held(log, {"durability": "fire", "buffer": 1, "timeout": 0.01})
    producer.send(b"kept")
    with pytest.raises(TimedOut):
        producer.send(b"lost").wait()
    trouble.open.set()
    producer.close()
    counts = producer.statistics()
    assert (counts["records_sent"], counts["records_acknowledged"], counts["refused_timed_out"]) == (3, 2, 1)
