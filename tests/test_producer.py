"""The producer: what it writes, where, in which order, how often, and what it says when it cannot."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import millstream
from millstream import Log, Producer, Record, RecordId
from millstream.errors import (
    Closed,
    InvalidName,
    MillstreamError,
    ShardOutOfRange,
    SyncFailed,
    TimedOut,
    TooLarge,
    UnknownStream,
    Unsupported,
    UsageError,
    WrongType,
)
from millstream.keyhash import shard_of
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
        log.create("points", value=pa.schema([("x", pa.int32()), ("name", pa.utf8())]))
        yield log


def records(log: Log, stream: str = "s") -> list[Record]:
    """All records of a stream, shard by shard."""
    shards = range(log.settings(stream).shards)
    return [record for shard in shards for record in log.read(stream, shard, 0).records()]


def values(log: Log, stream: str = "s") -> list[Any]:
    return [record.value for record in records(log, stream)]


# -- sending


def test_a_receipt_tells_where_the_record_went(log: Log) -> None:
    with log.producer("s") as producer:
        first, second = producer.send(b"a"), producer.send(b"b", key=b"k")
        assert second.wait(60) == RecordId("s", 0, 1)
        assert first.wait() == RecordId("s", 0, 0)
        assert first.done


def test_everything_of_a_record_is_kept(log: Log) -> None:
    with log.producer("wide") as producer:
        producer.send(b"v", b"k", timestamp=5, headers={"a": b"1", "b": None}, shard=3)
        producer.send(None, key=b"k", shard=3)
    one, two = log.read("wide", 3, 0).records()
    assert (one.key, one.value, one.timestamp, one.headers) == (b"k", b"v", 5, (("a", b"1"), ("b", None)))
    assert (two.value, two.headers) == (None, ())
    assert two.timestamp == pytest.approx(log.clock.now_ms(), abs=60_000)


SENDS = st.lists(
    st.tuples(
        st.none() | st.integers(0, 9).map(lambda n: b"key-%d" % n),
        st.none() | st.integers(0, 3),  # a shard of its own
    ),
    max_size=150,
)


@given(sends=SENDS, batch=st.sampled_from([1, 2, 40, 1_000]), shards=st.sampled_from([1, 4]))
def test_every_receipt_names_the_place_of_its_record_and_keys_keep_their_order(
    sends: list[tuple[bytes | None, int | None]], batch: int, shards: int
) -> None:
    with millstream.open("memory:") as log:
        log.create("s", shards=shards)
        with log.producer("s", batch_records=batch, linger_ms=NEVER_MS) as producer:
            sent = [
                producer.send(b"%d" % number, key=key, shard=None if shard is None else shard % shards)
                for number, (key, shard) in enumerate(sends)
            ]
            producer.flush(60)
        by_place = {RecordId("s", record.shard, record.seq): record for record in records(log)}
        assert len(by_place) == len(sends)
        for number, (key, shard) in enumerate(sends):
            record = by_place[sent[number].wait()]
            assert (record.value, record.key) == (b"%d" % number, key)
            if shard is not None:
                assert record.shard == shard % shards
            elif key is not None:
                assert record.shard == shard_of(key, shards)
        for shard in range(shards):
            numbers = [int(r.value) for r in by_place.values() if r.shard == shard]
            assert numbers == sorted(numbers)


@pytest.mark.parametrize("many", [1, 50])
def test_records_without_a_key_go_to_one_shard_a_batch_and_to_all_in_turn(log: Log, many: int) -> None:
    with log.producer("wide", linger_ms=NEVER_MS) as producer:
        for _ in range(8):
            for _ in range(many):
                producer.send(b"v")
            producer.flush(60)
    assert log.ends("wide") == [(0, 2 * many)] * 4


def test_records_without_a_key_share_their_shard_among_records_with_one(log: Log) -> None:
    with log.producer("wide", linger_ms=NEVER_MS) as producer:
        for turn in range(4):
            sent = [producer.send(b"v", key=None if n % 2 else b"%d" % n) for n in range(100)]
            producer.flush(60)
            assert {sent[n].wait().shard for n in range(1, 100, 2)} == {turn}


def test_added_shards_are_used(log: Log) -> None:
    with log.producer("s") as producer:
        producer.send(b"v", key=b"ann").wait(60)
        log.alter("s", shards=4)
        assert producer.send(b"v", key=b"ann").wait(60).shard == shard_of(b"ann", 4) > 0


def test_added_shards_can_be_asked_for(log: Log) -> None:
    with log.producer("s") as producer:
        with pytest.raises(ShardOutOfRange, match="has no shard 1: it has 1"):
            producer.send(b"v", shard=1)
        log.alter("s", shards=8)
        assert producer.send(b"v", shard=1).wait(60).shard == 1


def test_a_record_alone_is_written_after_its_linger(log: Log) -> None:
    with log.producer("s", linger_ms=1) as producer:
        producer.send(b"v")
        assert log.wait({("s", 0): 0}, 60)


def test_a_full_batch_does_not_linger(log: Log) -> None:
    with log.producer("s", linger_ms=NEVER_MS, batch_records=3) as producer:
        for _ in range(4):
            producer.send(b"v", key=b"k")
        assert log.wait({("s", 0): 2}, 60)
        assert log.ends("s") == [(0, 3)]


def test_a_batch_is_full_by_bytes_too(log: Log) -> None:
    with log.producer("s", linger_ms=NEVER_MS, batch_bytes=100) as producer:
        for _ in range(3):
            producer.send(b"v" * 49, key=b"k")
        assert log.wait({("s", 0): 1}, 60)
        assert log.ends("s") == [(0, 2)]
        assert producer.statistics()["bytes_pending"] == 50


def test_who_waits_does_not_wait_for_the_linger(log: Log) -> None:
    with log.producer("s", linger_ms=NEVER_MS) as producer:
        sent = producer.send(b"v")
        assert not sent.done
        assert sent.wait(60).seq == 0
        producer.send(b"v")
        producer.flush(60)
        assert len(records(log)) == 2


def test_threads_may_send_at_once_and_each_keeps_its_order(log: Log) -> None:
    with log.producer("wide", linger_ms=0, batch_records=100) as producer:

        def run(key: bytes) -> None:
            for number in range(1_000):
                producer.send(b"%d" % number, key=key)

        threads = [threading.Thread(target=run, args=(b"%d" % n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for n in range(4):
        found = [int(r.value) for r in records(log, "wide") if r.key == b"%d" % n]
        assert found == list(range(1_000))


# -- Arrow


def test_an_arrow_batch_is_one_commit_split_by_key(log: Log) -> None:
    rows = [(n, None if n % 5 == 0 else b"k%d" % n, b"%d" % n, None) for n in range(100)]
    trouble = Trouble(log)
    with log.producer("wide") as producer:
        producer.send(b"before", key=b"k1")
        placed = producer.send_batch(rows_to_batch(rows, VALUE_BYTES)).wait(60)
    assert len(trouble.seen) == 2
    assert sum(part.next - part.first for part in placed) == 100
    found = records(log, "wide")
    assert sorted(int(r.value) for r in found if r.value != b"before") == list(range(100))
    assert all(r.shard == shard_of(r.key, 4) for r in found if r.key is not None)
    assert [r.value for r in found if r.key == b"k1"] == [b"before", b"1"]


def test_an_arrow_table_may_go_to_one_shard(log: Log) -> None:
    batch = rows_to_batch([(0, b"k", b"v", None)] * 3, VALUE_BYTES)
    table = pa.Table.from_batches([batch, batch])
    with log.producer("wide") as producer:
        (placed,) = producer.send_batch(table, shard=2).wait(60)
        assert (placed.shard, placed.first, placed.next) == (2, 0, 6)
        assert producer.send_batch(table.slice(0, 0)).wait(60) == ()
        with pytest.raises(ShardOutOfRange):
            producer.send_batch(table, shard=4)
        with pytest.raises(WrongType, match="must have the columns"):
            producer.send_batch(table.drop_columns(["key"]))
        with pytest.raises(WrongType, match="expected a pyarrow RecordBatch"):
            producer.send_batch([b"v"])


# -- what is wrong with a record is said to who sends it, at once


@pytest.mark.parametrize(
    ("record", "error"),
    [
        ({"value": "text"}, WrongType),
        ({"value": b"v", "key": "text"}, WrongType),
        ({"value": b"v", "timestamp": 1.5}, WrongType),
        ({"value": b"v", "timestamp": 10**18}, WrongType),
        ({"value": b"v", "headers": {"a": "text"}}, WrongType),
        ({"value": b"v", "shard": -1}, ShardOutOfRange),
        ({"value": b"v", "shard": True}, ShardOutOfRange),
        ({"value": bytes((64 << 20) + 1)}, TooLarge),
        ({"value": b"v", "position": "text"}, WrongType),
        ({"value": b"v", "position": bytes(65_537)}, TooLarge),
    ],
)
def test_a_bad_record_is_refused_at_once_and_hurts_no_other(
    log: Log, record: dict[str, Any], error: type[MillstreamError]
) -> None:
    with log.producer("s", name="p") as producer:
        producer.send(b"before", key=b"k")
        with pytest.raises(error):
            producer.send(**record)
        producer.send(b"after", key=b"k")
    assert values(log) == [b"before", b"after"]


def test_a_position_needs_a_name(log: Log) -> None:
    with log.producer("s") as producer, pytest.raises(WrongType, match="this one has none: give it one"):
        producer.send(b"v", position=b"1")


def test_a_value_that_does_not_fit_the_schema_fails_alone(log: Log) -> None:
    with log.producer("points", linger_ms=NEVER_MS) as producer:
        with pytest.raises(WrongType, match="does not fit stream 'points'"):
            producer.send({"x": 1.5, "name": "half"})
        sent = [producer.send({"x": x, "name": "n"}, key=b"k") for x in (1, 2**40, 2, 2**50, 3)]
        assert [sent[index].wait(60).seq for index in (0, 2, 4)] == [0, 1, 2]
        for index in (1, 3):
            with pytest.raises(WrongType, match=r"does not fit stream 'points'.*It is not written"):
                sent[index].wait()
        counts = producer.statistics()
    assert (counts["records_acknowledged"], counts["records_failed"]) == (3, 2)
    assert [point["x"] for point in values(log, "points")] == [1, 2, 3]


def test_a_value_that_does_not_fit_is_told_by_flush_if_nobody_asked_its_receipt(log: Log) -> None:
    producer = log.producer("points")
    producer.send({"x": 2**40, "name": "n"})
    with pytest.raises(WrongType, match="does not fit"):
        producer.flush(60)
    producer.send({"x": 1, "name": "n"})
    producer.close(60)
    assert len(values(log, "points")) == 1


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"overflow": "drop"}, UsageError, "'block', 'drop_newest', 'drop_oldest' or 'error'"),
        ({"durability": "never"}, WrongType, "'fire' or 'written' or 'synced'"),
        ({"durability": "fire", "name": "p"}, UsageError, "must be acknowledged"),
        ({"linger": 5}, UsageError, "no option 'linger': it has .*linger_ms"),
        ({"linger_ms": -1}, WrongType, "linger_ms=-1"),
        ({"batch_records": 0}, WrongType, "batch_records=0"),
        ({"batch_bytes": 1 << 40}, TooLarge, "batch_bytes="),
        ({"buffer": "all"}, WrongType, "buffer='all'"),
        ({"timeout": 0}, WrongType, "timeout=0"),
        ({"retries": -1}, WrongType, "retries=-1"),
        ({"name": "../p"}, InvalidName, "name of a producer"),
    ],
)
def test_a_bad_option_is_refused_with_what_is_expected(
    options: ProducerOptions, error: type[MillstreamError], says: str
) -> None:
    with millstream.open("memory:") as log:
        log.create("s")
        with pytest.raises(error, match=says):
            log.producer("s", **options)


def test_a_producer_needs_its_stream_and_a_store_that_can_do_what_it_promises() -> None:
    with millstream.open("memory:") as log:
        with pytest.raises(UnknownStream):
            log.producer("s")
        log.create("s")
        with pytest.raises(Unsupported, match="survives a power cut"):
            log.producer("s", durability="synced")


# -- closing


def test_leaving_the_block_writes_everything_and_closes(log: Log) -> None:
    with log.producer("s", linger_ms=NEVER_MS) as producer:
        producer.send(b"v")
    assert values(log) == [b"v"]
    producer.close()
    for key in (None, b"k"):
        with pytest.raises(Closed, match="producer was closed"):
            producer.send(b"v", key=key)
    assert values(log) == [b"v"]


def send_and_fail(producer: Producer) -> None:
    with producer:
        producer.send(b"v")
        raise ZeroDivisionError


def test_an_error_in_the_block_is_raised_and_what_was_sent_is_written(log: Log) -> None:
    with pytest.raises(ZeroDivisionError):
        send_and_fail(log.producer("s", linger_ms=NEVER_MS))
    assert values(log) == [b"v"]


def test_an_error_of_closing_does_not_hide_the_one_of_the_block(log: Log) -> None:
    Trouble(log).before = [SyncFailed("no")]
    with pytest.raises(ZeroDivisionError):
        send_and_fail(log.producer("s", linger_ms=NEVER_MS))


def test_closing_gives_up_what_takes_too_long(log: Log) -> None:
    trouble = Trouble(log)
    producer = log.producer("s")
    flying = trouble.hold(producer)
    waiting = producer.send(b"waits")
    with pytest.raises(TimedOut, match=r"1 records wait|2 records wait"):
        producer.flush(0.001)
    with pytest.raises(TimedOut, match="closed before all was written"):
        producer.close(0.001)
    with pytest.raises(TimedOut, match="closed before"):
        waiting.wait()
    producer.close()
    assert not flying.done
    trouble.open.set()
    assert flying.wait(60).seq == 0
    assert values(log) == [b"held"]


def test_what_was_not_closed_is_written_when_the_program_ends(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import atexit, sys, millstream\n"
        "log = millstream.open('memory:')\n"
        "log.create('s')\n"
        "atexit.register(lambda: sys.stdout.write(str(log.ends('s'))))\n"
        "log.producer('s', linger_ms=3_600_000).send(b'v')\n"
    )
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, check=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("[(0, 1)]", "")


def test_a_producer_does_not_work_in_a_forked_child(log: Log) -> None:
    producer = log.producer("s", linger_ms=NEVER_MS)
    sent = producer.send(b"v", key=b"k")
    other = log.producer("s", linger_ms=NEVER_MS)
    other.send(b"v")
    calls: list[Callable[[], object]] = [
        lambda: producer.send(b"v", key=b"k"),
        lambda: producer.flush(60),
        lambda: sent.wait(60),
    ]
    child = os.fork()
    if not child:
        try:
            other.close(60)  # it is the parent's to write: no error
            os._exit(sum(1 << bit for bit, call in enumerate(calls) if not says_forked(call)))
        finally:
            os._exit(99)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    producer.close(60)
    other.close(60)
    assert values(log) == [b"v", b"v"]


def says_forked(call: Callable[[], object]) -> bool:
    try:
        call()
    except Closed as error:
        return "before a fork" in str(error)
    return False


def test_statistics_count_what_happened(log: Log) -> None:
    with log.producer("s") as producer:
        assert set(producer.statistics().values()) == {0}
        producer.send(b"v")
        assert producer.statistics()["records_sent"] == 1
        producer.flush(60)
        counts = producer.statistics()
    assert (counts["records_acknowledged"], counts["commits"], counts["records_pending"]) == (1, 1, 0)
    assert repr(producer) == "<Producer of 's'>"
