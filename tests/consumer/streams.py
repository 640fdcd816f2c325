"""What tests of consumers do with streams, in short words."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Unpack

import pytest

from millstream import Append, Commit, Consumer, Log
from millstream.clock import ManualClock
from millstream.log.group import Place
from millstream.log.options import ConsumerOptions

PATIENCE = 30.0  # seconds, for what happens at once
LEASE = 10.0
BEAT = 2.5  # seconds, a quarter of it


class Oops(Exception):
    """An error of a user's program."""


def fill(log: Log, stream: str, values: Sequence[str | int], shard: int = 0) -> None:
    """Write values into a shard, in one commit; their timestamps are their places in it, times ten."""
    rows = [(number * 10, b"k", str(value).encode(), None) for number, value in enumerate(values)]
    log.commit(Commit(records=(Append(stream, shard, rows),)))


def values(consumer: Consumer) -> list[str]:
    return [record.value.decode() for record in consumer]


def take(consumer: Consumer, count: int) -> list[str]:
    """The next so many records."""
    return [record.value.decode() for _, record in zip(range(count), consumer, strict=False)]


def in_thread(work: Callable[[], object], after: threading.Event | None = None) -> threading.Thread:
    """A thread that does this, once an event has happened."""

    def wait_and_work() -> None:
        if after is None or after.wait(PATIENCE):
            work()

    thread = threading.Thread(target=wait_and_work, daemon=True)
    thread.start()
    return thread


def tell_when_waiting(log: Log, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Is set as soon as somebody waits."""
    waiting, wait = threading.Event(), log.wait

    def telling(ends: Mapping[Place, int], timeout: float | None = None) -> bool:
        waiting.set()
        return wait(ends, timeout)

    monkeypatch.setattr(log, "wait", telling)
    return waiting


def fill_shards(log: Log, count: int, stream: str = "orders") -> list[str]:
    """Write so many records into each shard; give what they say."""
    appends = []
    for shard in range(log.settings(stream).shards):
        rows = [(0, None, b"%d-%d" % (shard, number), None) for number in range(count)]
        appends.append(Append(stream, shard, rows))
    log.commit(Commit(records=tuple(appends)))
    return [row[2].decode() for append in appends for row in append.records]


def drain(consumer: Consumer) -> list[str]:
    """Everything that is there now."""
    found = []
    while (batch := consumer.poll(0)) is not None:
        found += [record.value.decode() for record in batch.records()]
    return found


def member(log: Log, name: str, **options: Unpack[ConsumerOptions]) -> Consumer:
    """A member of the group `g` that reads `orders`."""
    given: ConsumerOptions = {"group": "g", "member": name, "lease": LEASE}
    given.update(options)
    return log.consumer("orders", **given)


def settle(clock: ManualClock, *members: Consumer) -> None:
    """Let every member beat until nothing moves any more; what they read is not looked at."""
    for _ in range(3):
        clock.advance(BEAT)
        for each in members:
            each.seek_end()
            assert each.poll(0) is None


def shards(consumer: Consumer) -> set[int]:
    return {shard for _, shard in consumer.positions()}
