"""Consumers: what they say when something is gone, or cannot be meant."""

from typing import Any

import pytest

import millstream
from millstream import Limits, Log
from millstream.clock import ManualClock
from millstream.errors import (
    HistoryChanged,
    SeqTrimmed,
    ShardOutOfRange,
    UnknownStream,
    UsageError,
    WrongType,
)
from millstream.log.memory import MemoryLog
from millstream.log.options import ConsumerOptions, Options
from millstream.log.state import CutRow, FactRow, ShardRow
from tests.consumer.streams import fill, take, values

# -- what is gone


def test_a_lost_range_is_told_with_how_many_are_gone(log: Log) -> None:
    log.create("orders")
    for number in range(10):
        fill(log, "orders", [number])
    consumer = log.consumer("orders", until="end", limits=Limits(records=2))
    assert take(consumer, 2) == ["0", "1"]
    log.trim("orders", 0, 7)
    with pytest.raises(SeqTrimmed) as caught:
        values(consumer)
    assert (caught.value.first, caught.value.missing) == (7, 5)
    with pytest.raises(SeqTrimmed):
        values(consumer)
    consumer.seek_beginning()
    assert values(consumer) == ["7", "8", "9"]


def test_a_lost_range_may_be_skipped_and_is_counted(log: Log) -> None:
    log.create("orders")
    for number in range(10):
        fill(log, "orders", [number])
    consumer = log.consumer("orders", until="end", limits=Limits(records=2), on_trimmed="skip")
    assert take(consumer, 2) == ["0", "1"]
    log.trim("orders", 0, 7)
    assert values(consumer) == ["7", "8", "9"]
    assert consumer.statistics()["skipped"] == 5


def test_a_range_lost_beyond_the_frozen_end_ends_the_reading(log: Log) -> None:
    log.create("orders")
    fill(log, "orders", range(3))
    consumer = log.consumer("orders", until="end", on_trimmed="skip")
    fill(log, "orders", range(5))
    log.trim("orders", 0, 6)
    assert values(consumer) == []
    assert consumer.finished


def cut_back(log: MemoryLog, end: int) -> None:
    """What recovery after a power cut leaves: a new history that begins at a seq of the first stream.

    The records after it are left where they were, as if they had been written anew.
    """
    state = log._state
    state.cuts.set(1, CutRow({(0, 0): end}))
    state.facts.set("log", FactRow(history=1, next_stream=1))


def test_records_taken_back_by_a_power_cut_are_told(clock: ManualClock) -> None:
    log = MemoryLog(clock=clock)
    log.create("orders")
    fill(log, "orders", range(5))
    consumer = log.consumer("orders", limits=Limits(records=4))
    assert take(consumer, 4) == list("0123")
    cut_back(log, 2)
    with pytest.raises(HistoryChanged) as caught:
        take(consumer, 1)
    assert caught.value.end == 2
    kept = consumer.positions()["orders", 0]
    other = log.consumer("orders")
    other.seek("orders", 0, kept)
    with pytest.raises(HistoryChanged):
        take(other, 1)


def test_a_consumer_may_go_back_to_where_the_histories_part(clock: ManualClock) -> None:
    log = MemoryLog(clock=clock)
    log.create("orders")
    fill(log, "orders", range(5))
    consumer = log.consumer("orders", limits=Limits(records=4), on_history="rewind", until="end")
    assert take(consumer, 4) == list("0123")
    cut_back(log, 2)
    assert values(consumer) == list("234")
    assert consumer.statistics()["rewound"] == 2


def test_an_end_that_a_power_cut_took_back_is_not_waited_for(clock: ManualClock) -> None:
    log = MemoryLog(clock=clock)
    log.create("orders")
    fill(log, "orders", range(5))
    consumer = log.consumer("orders", limits=Limits(records=2), until="end")
    assert take(consumer, 2) == list("01")
    cut_back(log, 2)
    log._state.shards.set((0, 0), ShardRow(0, 2))
    assert consumer.poll(0) is None
    assert consumer.finished


def test_the_latest_begin_at_the_end_and_skip_what_they_cannot_keep_up_with(log: Log) -> None:
    log.create("orders")
    fill(log, "orders", ["old"])
    consumer = log.consumer("orders", deliver="latest", behind=3)
    assert consumer.poll(0) is None
    fill(log, "orders", range(5))
    assert take(consumer, 3) == ["2", "3", "4"]
    assert consumer.statistics()["skipped"] == 2
    fill(log, "orders", range(2))
    log.trim("orders", 0, 7)
    assert take(consumer, 1) == ["1"]
    assert consumer.statistics()["skipped"] == 3


def test_a_stream_deleted_while_it_is_read_is_told(log: Log) -> None:
    log.create("orders")
    fill(log, "orders", range(3))
    consumer = log.consumer("orders")
    assert take(consumer, 3) == list("012")
    log.delete("orders")
    with pytest.raises(UnknownStream, match="'orders' was deleted while a consumer was reading it"):
        take(consumer, 1)


def test_a_stream_of_a_pattern_may_be_deleted(log: Log) -> None:
    for stream in ("logs.mail", "logs.web"):
        log.create(stream)
        fill(log, stream, [stream])
    consumer = log.consumer("logs.*")
    assert len(take(consumer, 2)) == 2
    log.delete("logs.web")
    fill(log, "logs.mail", ["more"])
    assert take(consumer, 1) == ["more"]
    assert list(consumer.positions()) == [("logs.mail", 0)]


# -- bad input


@pytest.mark.parametrize(
    ("streams", "options", "kind", "words"),
    [
        ("ordesr", {}, UnknownStream, "did you mean orders"),
        ("a b", {}, millstream.errors.InvalidName, "cannot be the name of a stream"),
        ([7], {}, UsageError, "7 is no name of a stream"),
        ("", {}, UsageError, "nothing to read: name a stream"),
        ([], {}, UsageError, "nothing to read: name a stream"),
        ("orders", {"start": "begin"}, UsageError, "expected 'beginning', 'end' or 'committed'"),
        ("orders", {"until": "now"}, UsageError, "until='now': expected 'end'"),
        ("orders", {"deliver": "twice"}, UsageError, "expected 'latest', 'repeat' or 'once'"),
        ("orders", {"deliver": "once"}, UsageError, "give group= a name"),
        ("orders", {"deliver": "latest", "start": "beginning"}, UsageError, "the latest are at the end"),
        ("orders", {"start": "committed"}, UsageError, "needs a group"),
        ("orders", {"start": "committed", "group": "g"}, UsageError, "group 'g' has no offset"),
        ("orders", {"assign": [("orders", 0)]}, UsageError, "both streams"),
        ("", {"assign": []}, UsageError, "expected at least one shard"),
        ("", {"assign": ["orders"]}, UsageError, r'as in assign=\[\("orders", 0\)\]'),
        ("", {"assign": [("orders", 1)]}, ShardOutOfRange, "has no shard 1"),
        (
            "",
            {"assign": [("orders", 0)], "group": "g", "member": "m"},
            UsageError,
            "only a group that shares",
        ),
        ("orders", {"member": "m"}, UsageError, "only a group that shares"),
        ("orders", {"group": "a b"}, millstream.errors.InvalidName, "the name of a group"),
        ("orders", {"group": "g", "lease": 0}, WrongType, "lease=0: expected a positive number"),
        ("orders", {"commit_every": "1s"}, WrongType, "commit_every='1s'"),
        ("orders", {"commit_records": 0}, WrongType, "commit_records=0"),
        ("orders", {"behind": 0}, WrongType, "behind=0"),
        ("orders", {"limits": 5}, WrongType, "limits=5: expected a millstream.Limits"),
        ("orders", {"limits": Limits(records=0)}, WrongType, "records=0"),
        ("orders", {"durability": "sure"}, UsageError, "durability='sure'"),
        ("orders", {"grup": "g"}, UsageError, "a consumer has no option 'grup': it has assign, behind"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    streams: str | list[str], options: dict[str, Any], kind: type[Exception], words: str
) -> None:
    with millstream.open("memory:") as log:
        log.create("orders")
        with pytest.raises(kind, match=words):
            log.consumer(streams, **options)
        assert all(not info.owners for info in log.describe("orders").groups)


def test_a_consumer_without_a_group_has_nothing_to_commit(log: Log) -> None:
    log.create("orders")
    with pytest.raises(UsageError, match="no offsets to commit: this consumer has no group"):
        log.consumer("orders").commit()
    with pytest.raises(UsageError, match="deliver='repeat' has no transactions"):
        log.consumer("orders").transaction()


def test_the_keywords_are_those_of_the_options() -> None:
    assert ConsumerOptions.__annotations__.keys() == set(Options.__struct_fields__)
