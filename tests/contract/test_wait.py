"""Waiting: a commit wakes those who wait for its shards, and none is missed."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Thread

import pytest

from millstream.errors import Closed, ShardOutOfRange, UnknownStream
from millstream.log import Append, Commit, Log, Mark
from millstream.log.can import Can
from tests.contract.looking import refused, rows

LONG = 60.0  # seconds that no test waits


def test_what_is_there_already_is_not_waited_for(log: Log) -> None:
    log.create("orders", shards=2)
    log.append("orders", b"a", shard=1)
    assert log.wait({("orders", 0): 0, ("orders", 1): 0})
    assert log.wait({("orders", 1): 0}, 0)


def test_waiting_ends_when_its_time_is_over(log: Log) -> None:
    log.create("orders")
    log.append("orders", b"a")
    for timeout in (0, 0.001, -1):
        assert not log.wait({("orders", 0): 1}, timeout)
    assert not log.wait({}, 0)


@pytest.mark.parametrize("timeout", [None, LONG], ids=["for ever", "for long"])
def test_a_commit_wakes_who_waits_for_its_shard(log: Log, timeout: float | None) -> None:
    log.create("orders", shards=2)
    log.create("other")
    with ThreadPoolExecutor(2) as pool:
        for end in range(20):
            waiting = pool.submit(log.wait, {("orders", 1): end, ("other", 0): 0}, timeout)
            log.append("orders", b"x", shard=1)
            assert waiting.result(LONG)


def test_a_commit_wakes_all_who_wait(log: Log) -> None:
    log.create("orders")
    ready = Barrier(9)

    def wait() -> bool:
        ready.wait(LONG)
        return log.wait({("orders", 0): 0}, LONG)

    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(wait) for _ in range(8)]
        ready.wait(LONG)
        log.append("orders", b"x")
        assert all(one.result(LONG) for one in waiting)


def test_what_is_not_waited_for_does_not_end_the_waiting(log: Log) -> None:
    log.create("orders", shards=2)
    writer = Thread(target=lambda: [log.append("orders", b"x", shard=0) for _ in range(5)])
    writer.start()
    assert not log.wait({("orders", 1): 0}, 0.05)
    writer.join()
    log.commit(Commit(records=(Append("orders", 1, []),)))
    assert not log.wait({("orders", 1): 0}, 0)


def test_two_readers_and_writers_pass_a_ball_without_losing_it(log: Log) -> None:
    log.create("ping")
    log.create("pong")

    def play(hear: str, say: str) -> int:
        for turn in range(100):
            assert log.wait({(hear, 0): turn}, LONG)
            assert [record.seq for record in log.read(hear, 0, turn).records()] == [turn]
            log.append(say, b"ball")
        return log.ends(say)[0][1]

    with ThreadPoolExecutor(2) as pool:
        players = pool.submit(play, "ping", "pong"), pool.submit(play, "pong", "ping")
        log.append("ping", b"first")
        assert [player.result(LONG) for player in players] == [100, 101]


@pytest.mark.needs(Can.MARKS)
def test_marks_do_not_end_the_waiting(log: Log) -> None:
    log.create("orders")
    log.commit(Commit(marks=(Mark("orders", 0, "w", 5),)))
    assert not log.wait({("orders", 0): 0}, 0)


def test_who_waits_is_told_when_the_log_is_closed(log: Log) -> None:
    log.create("orders")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(log.wait, {("orders", 0): 0}, LONG)
        log.close()
        with pytest.raises(Closed, match="was closed"):
            waiting.result(LONG)


def test_who_waits_is_told_when_the_stream_is_deleted(log: Log) -> None:
    log.create("orders")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(log.wait, {("orders", 0): 0}, LONG)
        log.delete("orders")
        with pytest.raises(UnknownStream, match="no stream 'orders'"):
            waiting.result(LONG)


def test_a_shard_that_is_not_there_is_not_waited_for(log: Log) -> None:
    log.create("orders")
    log.append("orders", b"x")
    with refused(log, ShardOutOfRange, "'orders' has no shard 1"):
        log.wait({("orders", 1): 0}, LONG)
    assert log.ends("orders") == [(0, len(rows(b"x")))]
