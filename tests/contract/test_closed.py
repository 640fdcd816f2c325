"""A log that was closed, or carried into another process by a fork, says so; threads may share one."""

import os
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from millstream.errors import Closed, Conflict, Unsupported
from millstream.log import Append, Commit, Expect, Fence, Log
from millstream.log.can import Can
from tests.contract.looking import arrow, records, rows, values

Call = tuple[str, Callable[[Log], object]]
CALLS: list[Call] = [
    ("create", lambda log: log.create("more")),
    ("settings", lambda log: log.settings("orders")),
    ("streams", lambda log: log.streams()),
    ("describe", lambda log: log.describe("orders")),
    ("alter", lambda log: log.alter("orders", shards=2)),
    ("delete", lambda log: log.delete("orders")),
    ("trim", lambda log: log.trim("orders", 0, 1)),
    ("read", lambda log: log.read("orders", 0, 0)),
    ("ends", lambda log: log.ends("orders")),
    ("seek", lambda log: log.seek("orders", 0, 0)),
    ("wait", lambda log: log.wait({("orders", 0): 0}, 0)),
    ("commit", lambda log: log.commit(Commit(records=(Append("orders", 0, rows(b"x")),)))),
    ("commit nothing", lambda log: log.commit(Commit())),
    ("append", lambda log: log.append("orders", b"x")),
    ("stage", lambda log: log.stage("orders", 0, [arrow(b"x")])),
    ("take_over", lambda log: log.take_over("sink")),
    ("fence", lambda log: log.fence("sink")),
    ("offsets", lambda log: log.offsets("g")),
    ("heartbeat", lambda log: log.heartbeat("g", "m", ["orders"], lease=1)),
    ("leave", lambda log: log.leave("g", "m")),
    ("delete_group", lambda log: log.delete_group("g")),
    ("pin", lambda log: log.pin("job", {("orders", 0): 0})),
    ("unpin", lambda log: log.unpin("job")),
    ("compact", lambda log: log.compact()),
    ("retain", lambda log: log.retain()),
    ("merge", lambda log: log.merge()),
    ("verify", lambda log: log.verify()),
]


def answer(log: Log, call: Callable[[Log], object]) -> str:
    """What a call says of a log that is not open."""
    try:
        call(log)
    except (Closed, Unsupported) as error:
        return f"{type(error).__name__}: {error}"
    return "it did it"


@pytest.mark.parametrize("call", [call for _, call in CALLS], ids=[name for name, _ in CALLS])
def test_a_closed_log_says_so(log: Log, call: Callable[[Log], object]) -> None:
    log.create("orders")
    log.append("orders", b"x")
    log.close()
    said = answer(log, call)
    assert said.startswith("Closed: <") or (said.startswith("Unsupported: ") and Can.UPKEEP not in log.can)
    if said.startswith("Closed"):
        assert f"was closed; open it again with millstream.open({log.url!r})" in said


def test_closing_twice_is_fine_and_a_closed_log_can_still_be_shown(log: Log) -> None:
    log.create("orders")
    log.append("orders", b"x")
    log.close()
    log.close()
    assert log.url in repr(log)
    assert log.statistics()["commits"] == 1


def test_a_log_is_closed_by_its_block(log: Log) -> None:
    with log as same:
        assert same is log
    with pytest.raises(Closed):
        log.streams()


def in_a_fork(work: Callable[[], list[str]]) -> list[str]:
    """Run that in a forked child, and give the lines that it answers."""
    read_end, write_end = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads: the point of this
        child = os.fork()
    if child == 0:
        try:
            os.write(write_end, "\n".join(work()).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, encoding="utf-8") as pipe:
        lines = pipe.read().split("\n")
    os.waitpid(child, 0)
    return lines


def test_a_fork_of_a_log_says_so_and_does_the_log_no_harm(log: Log) -> None:
    log.create("orders")
    log.append("orders", b"x")
    said = in_a_fork(lambda: [answer(log, call) for _, call in CALLS])
    assert len(said) == len(CALLS)
    for line in said:
        assert "was opened by process" in line or line.startswith("Unsupported: ")
        assert "after the fork" in line or line.startswith("Unsupported: ")
    assert (log.streams(), values(log, "orders")) == (["orders"], [b"x"])
    log.append("orders", b"y")
    assert values(log, "orders") == [b"x", b"y"]


def test_a_fork_may_close_what_it_was_given(log: Log) -> None:
    log.create("orders")
    log.append("orders", b"x")

    def close() -> list[str]:
        log.close()
        log.close()
        return ["closed"]

    assert in_a_fork(close) == ["closed"]
    log.append("orders", b"y")
    log.create("more")
    assert values(log, "orders") == [b"x", b"y"]


def test_threads_share_a_log_and_lose_nothing(log: Log) -> None:
    log.create("orders", shards=2)
    ready = Barrier(4)

    def write(writer: int) -> None:
        ready.wait(60)
        for number in range(50):
            value = b"%d %d" % (writer, number)
            log.commit(Commit(records=(Append("orders", 0, rows(value)), Append("orders", 1, arrow(value)))))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(write, range(4))) == [None] * 4
    for shard in range(2):
        found = [tuple(map(int, value.split())) for value in values(log, "orders", shard)]
        assert sorted(found) == [(writer, number) for writer in range(4) for number in range(50)]
        for writer in range(4):
            assert [number for who, number in found if who == writer] == list(range(50))
    both = [values(log, "orders", shard) for shard in range(2)]
    assert both[0] == both[1]


def test_a_reader_beside_a_writer_sees_whole_commits(log: Log) -> None:
    log.create("orders", shards=2)
    total = 60

    def write() -> None:
        for number in range(total):
            part = rows(b"%d" % number, b"%d" % number)
            log.commit(Commit(records=(Append("orders", 0, part), Append("orders", 1, part))))

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        seen = 0
        while seen < 2 * total:
            (_, first), (_, second) = log.ends("orders")
            assert first == second
            assert first % 2 == 0
            assert first >= seen
            assert log.read("orders", 0, seen).next_seq >= first
            seen = first
        writing.result(60)
    assert len(records(log, "orders", 1)) == 2 * total


@pytest.mark.needs(Can.EXPECT)
def test_of_threads_that_expect_the_same_end_one_gets_it(log: Log) -> None:
    log.create("orders")
    ready = Barrier(4)

    def claim(writer: int) -> int:
        ready.wait(60)
        won = 0
        for seq in range(20):
            commit = Commit((Append("orders", 0, rows(b"%d" % writer)),), expect=(Expect("orders", 0, seq),))
            try:
                won += log.commit(commit).applied
            except Conflict:
                log.wait({("orders", 0): seq}, 60)
        return won

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(claim, range(4))) == 20
    assert log.ends("orders") == [(0, 20)]


@pytest.mark.needs(Can.FENCE)
def test_of_threads_that_send_the_same_commit_one_writes_it(log: Log) -> None:
    log.create("orders")
    ready = Barrier(4)
    commit = Commit((Append("orders", 0, rows(b"x")),), fence=Fence("sink", 1, 1, b"d"))

    def send(_: int) -> tuple[bool, object]:
        ready.wait(60)
        receipt = log.commit(commit)
        return receipt.applied, receipt.placed

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(send, range(4)))
    assert sorted(applied for applied, _ in answers) == [False, False, False, True]
    assert len({placed for _, placed in answers}) == 1
    assert values(log, "orders") == [b"x"]


def test_who_works_while_a_log_is_closed_is_answered_or_told(log: Log) -> None:
    log.create("orders", retention=None)
    log.append("orders", b"x")
    ready = Barrier(5)

    def work(call: Callable[[], object]) -> int:
        ready.wait(60)
        done = 0
        while True:
            try:
                call()
            except Closed:
                return done
            done += 1

    def read() -> None:
        assert log.read("orders", 0, 0).num_records >= 1

    calls: list[Callable[[], object]] = [
        read,
        lambda: log.append("orders", b"y"),
        lambda: log.describe("orders"),
        lambda: log.wait({("orders", 0): 10**6}, 0),
    ]
    with ThreadPoolExecutor(4) as pool:
        working = [pool.submit(work, call) for call in calls]
        ready.wait(60)
        log.wait({("orders", 0): 5}, 60)
        log.close()
        assert all(one.result(60) >= 0 for one in working)
