"""Several processes, and several threads, at one log in a directory."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

import millstream
from millstream import Append, Commit, Limits, Log
from millstream.clock import ManualClock, SystemClock
from millstream.errors import ReadOnly, SeqTrimmed
from millstream.log.file import log as file_log
from millstream.log.file.disk import Disk
from millstream.log.file.find import Plan
from millstream.log.file.log import FileLog
from millstream.log.file.manifest import Kept
from millstream.log.state import ShardRow
from millstream.log.stream import ShardInfo
from tests.kills.child import LARGE, child


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file:{tmp_path}/log"


def open_file(url: str) -> FileLog:
    """The log, as what it is."""
    log = millstream.open(url)
    assert isinstance(log, FileLog)
    return log


def append(log: Log, count: int) -> None:
    """One commit of so many records."""
    log.commit(Commit(records=(Append("s", 0, [(0, None, b"v", None)] * count),)))


def test_what_a_killed_process_left_is_sealed_after_its_last_commit_folded_or_not(url: str) -> None:
    with open_file(url) as log:
        log.create("s")
        with child("leave_segment", url) as writer:
            writer.go()
            writer.process.wait(60)
        log.append("s", b"synced", durability="synced")
        log._upkeep._tend_step()
    with millstream.open(url) as log:
        assert log.verify() == []
        assert log.read("s", 0, 0).num_records == 201


def test_a_read_ends_after_its_last_record_though_another_process_folds_in_the_middle_of_it(url: str) -> None:
    with open_file(url) as log, open_file(url) as other:
        other.create("s")
        append(other, 3)
        other.merge()  # folds
        append(other, 2)
        assert log.ends("s") == [(0, 5)]
        append(other, 2)
        other.merge()
        plan = log._finder.plan((0, 0), 0, Limits())
        found = log._finder.load(plan, Limits(), log.settings("s"))
        assert sum(batch.num_rows for batch in found.batches) == found.next_seq == 7


def test_what_is_trimmed_in_the_middle_of_a_read_is_not_passed_over(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_file(url) as log, open_file(url) as other:
        other.create("s")
        append(other, 3)
        append(other, 3)
        other.merge()
        append(other, 3)
        plan = log._finder.plan

        def trim_first(key: tuple[int, int], from_seq: int, limits: Limits) -> Plan:
            other.trim("s", 0, 6)
            return plan(key, from_seq, limits)

        monkeypatch.setattr(log._finder, "plan", trim_first)
        with pytest.raises(SeqTrimmed, match="seq 2 is gone, with 4 seqs before 6"):
            log.read("s", 0, 2)


def test_a_description_counts_nothing_twice_when_another_process_folds_in_the_middle_of_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_file(url) as log, open_file(url) as other:
        other.create("s")
        append(other, 3)
        other.merge()
        append(other, 2)
        info = log._finder.info

        def fold_first(key: tuple[int, int], row: ShardRow, synced_position: int) -> ShardInfo:
            append(other, 2)
            other.merge()
            return info(key, row, synced_position)

        monkeypatch.setattr(log._finder, "info", fold_first)
        assert log.describe("s").records == 5


def test_a_seek_goes_on_when_another_process_replaces_what_it_reads(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = Commit(records=(Append("s", 0, [(5, None, LARGE, None)] * 100),))
    with open_file(url) as first:
        first.create("s")
        first.commit(large)
    with open_file(url) as log, open_file(url) as other:
        other.commit(large)
        with other._folded():
            assert log.ends("s") == [(0, 200)]
        found = log._books.manifest.extent_of_time

        def merge_second(key: tuple[int, int], first: int, timestamp: int) -> Kept | None:
            monkeypatch.undo()
            kept = found(key, first, timestamp)
            assert other.trim("s", 0, 100) == 100
            return kept

        monkeypatch.setattr(log._books.manifest, "extent_of_time", merge_second)
        assert log.seek("s", 0, 5) == 100


def test_segments_that_are_trimmed_before_their_first_fold_are_removed(url: str) -> None:
    large = Commit(records=(Append("s", 0, [(5, None, LARGE, None)] * 100),))
    with open_file(url) as first:
        first.create("s")
        first.commit(large)
    with open_file(url) as log:
        segments = Path(url.removeprefix("file:"), "streams", "s")
        (kept,) = segments.iterdir()
        log.commit(large)
        log.trim("s", 0, 100)
        assert kept not in segments.iterdir()
        assert log.verify() == []


# -- at once


@pytest.mark.parametrize("writers", [2, 4])
def test_processes_that_write_at_once_lose_nothing_and_leave_no_hole(url: str, writers: int) -> None:
    count = 300
    with millstream.open(url) as log, ExitStack() as stack:
        log.create("s", shards=3)
        names = [f"w{number}" for number in range(writers)]
        children = [stack.enter_context(child("write", url, name, count)) for name in names]
        for each in children:
            each.go()
        places = {name: each.answer() for name, each in zip(names, children, strict=True)}
        kept = [list(log.read("s", shard, 0).records()) for shard in range(3)]
        found = log.verify()
    assert found == []
    assert [[record.seq for record in records] for records in kept] == [
        list(range(len(records))) for records in kept
    ]
    assert sum(map(len, kept)) == writers * count
    for name, where in places.items():
        for number, (shard, seq) in enumerate(where):
            assert kept[shard][seq].value == f"{name} {number}".encode()


def test_readers_in_other_processes_follow_every_record_through_many_folds(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_log, "FOLD_ENTRIES", 10)
    count = 500
    with millstream.open(url) as log, ExitStack() as stack:
        log.create("s", shards=2)
        readers = [stack.enter_context(child("follow", url, count)) for _ in range(2)]
        for reader in readers:
            reader.go()
        for number in range(count):
            log.append("s", b"%d" % number, shard=number % 2)
        for reader in readers:
            seen = reader.answer()
            for shard in range(2):
                of_shard = [(seq, int(value)) for at, seq, value in seen if at == shard]
                assert of_shard == [(seq, 2 * seq + shard) for seq in range(count // 2)]
        assert log.statistics()["folds"] >= 25


def test_a_waiting_reader_in_another_process_is_woken_by_a_commit(url: str) -> None:
    with millstream.open(url) as log:
        log.create("s")
        with child("wait", url, 60) as waiting:
            waiting.go()
            assert waiting.is_silent(0.3)
            log.append("s", b"here")
            assert not waiting.is_silent(20)
            assert waiting.answer() is True


def test_a_reader_in_another_process_is_woken_by_a_commit_after_many_folds(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_log, "FOLD_ENTRIES", 1)
    with millstream.open(url) as log:
        log.create("s")
        log.create("other")
        with child("wait", url, 60) as waiting:
            waiting.go()
            assert waiting.is_silent(0.3)
            for _ in range(20):
                log.append("other", b"not for it")
            assert waiting.is_silent(0.1)
            log.append("s", b"here")
            assert waiting.answer() is True


# -- forks


def test_a_fork_that_outlives_its_parent_does_not_keep_the_log_locked(url: str) -> None:
    with millstream.open(url) as log:
        log.create("s")
        done = threading.Event()

        def commit() -> None:
            append(log, 1)
            done.set()

        with child("fork_and_die", url) as parent:
            parent.go()
            fork = parent.answer()
            try:
                parent.process.wait(60)
                threading.Thread(target=commit, daemon=True).start()
                went_on = done.wait(10)
            finally:
                os.kill(fork, signal.SIGKILL)
            assert done.wait(60)
            assert went_on


# -- where nothing can be written


class ReadOnlyDisk(Disk):
    """A directory whose files cannot be changed by this process."""

    def writable(self) -> bool:
        """No."""
        return False

    def open_write(self, name: str) -> int:
        """Refused."""
        raise ReadOnly(f"cannot write {name}")

    def open_lock(self, name: str) -> int:
        """For reading."""
        return self.open_read(name)


def test_a_directory_that_cannot_be_written_is_read_while_others_write_to_it(url: str) -> None:
    with millstream.open(url) as log:
        log.create("s")
        append(log, 3)
        path = url.removeprefix("file:")
        with FileLog(path, clock=SystemClock(), disk=ReadOnlyDisk(path)) as reader:
            assert reader.read("s", 0, 0).num_records == 3
            append(log, 2)
            assert reader.wait({("s", 0): 3}, 10)
            log.merge()
            assert reader.read("s", 0, 0).num_records == 5
            assert [record.seq for record in reader.consumer("s", until="end")] == list(range(5))
            for call in (
                lambda: append(reader, 1),
                lambda: reader.create("t"),
                lambda: reader.producer("s", name="p"),
                lambda: reader.trim("s", 0, 1),
                lambda: reader.take_over("p"),
                reader.merge,
            ):
                with pytest.raises(ReadOnly, match="cannot be written"):
                    call()
        append(log, 1)


# -- clocks


def test_when_the_clock_goes_backwards_timestamps_do_and_seqs_never(url: str) -> None:
    clock = ManualClock(now_ms=1_000_000)
    with millstream.open(url, clock=clock) as log:
        log.create("s")
        seqs = []
        for _ in range(5):
            seqs.append(log.append("s", b"v").placed[0].first)
            clock.set_back(10)
        log.merge()
        records = list(log.read("s", 0, 0).records())
        assert seqs == [record.seq for record in records] == list(range(5))
        times = [record.timestamp for record in records]
        assert times == [1_000_000 - 10_000 * step for step in range(5)]
        assert log.seek("s", 0, 1_000_000) == 0
        assert log.seek("s", 0, 1_000_001) == 5


# -- threads


class SlowDisk(Disk):
    """Syncs of the journal wait, once they are asked to, for all who should share the next one."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.asked: threading.Event = threading.Event()
        self.go: threading.Event = threading.Event()
        self.go.set()

    def sync(self, fd: int) -> None:
        """Sync, after a while."""
        self.asked.set()
        assert self.go.wait(60)
        super().sync(fd)


def test_threads_that_commit_synced_at_once_share_syncs_and_get_dense_seqs(url: str) -> None:
    threads, each = 8, 25
    barrier = threading.Barrier(threads)
    places: list[int] = []

    def commit() -> None:
        barrier.wait(60)
        receipts = [log.append("s", b"v", durability="synced") for _ in range(each)]
        places.extend(receipt.placed[0].first for receipt in receipts)

    with millstream.open(url, upkeep=False) as log:
        log.create("s")
        before = Counter(log.statistics())
        workers = [threading.Thread(target=commit) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
        counts = Counter(log.statistics()) - before
    assert sorted(places) == list(range(threads * each))
    assert counts["commits"] == threads * each
    assert counts["syncs"] <= counts["commit_groups"] < threads * each


def test_commits_that_wait_for_a_sync_share_the_next_one(url: str) -> None:
    path = url.removeprefix("file:")
    disk = SlowDisk(path)
    with FileLog(path, clock=SystemClock(), upkeep=False, disk=disk) as log:
        log.create("s")
        before = log.statistics()["syncs"]
        disk.go.clear()
        disk.asked.clear()
        workers = [
            threading.Thread(target=log.append, args=("s", b"v"), kwargs={"durability": "synced"})
            for _ in range(8)
        ]
        workers[0].start()
        assert disk.asked.wait(60)
        for worker in workers[1:]:
            worker.start()
        while len(log._line._queue) < 7:
            threading.Event().wait(0.001)
        disk.go.set()
        for worker in workers:
            worker.join(60)
        assert log.ends("s") == [(0, 8)]
        assert log.statistics()["syncs"] - before == 2


def test_reading_goes_on_while_a_sync_takes_long_and_others_wait_to_write(url: str) -> None:
    path = url.removeprefix("file:")
    disk = SlowDisk(path)
    with FileLog(path, clock=SystemClock(), upkeep=False, disk=disk) as log:
        log.create("s")
        log.append("s", b"v")
        disk.go.clear()
        disk.asked.clear()
        calls: list[Callable[[], object]] = [
            lambda: log.append("s", b"synced", durability="synced"),
            lambda: log.append("s", b"written"),
            lambda: log.take_over("name"),
            lambda: log.heartbeat("group", "member", ["s"], lease=10),
            lambda: log.pin("pin", {("s", 0): 0}),
            lambda: log.create("t"),
        ]
        waiting = [threading.Thread(target=call) for call in calls]
        for thread in waiting:
            thread.start()
            assert disk.asked.wait(60)
        done = threading.Event()

        def read() -> None:
            assert log.read("s", 0, 0).num_records >= 1
            done.set()

        reader = threading.Thread(target=read)
        reader.start()
        went_on = done.wait(20)
        disk.go.set()
        for thread in [*waiting, reader]:
            thread.join(60)
        assert went_on
        assert log.ends("s") == [(0, 3)]


def test_what_others_add_to_a_segment_while_it_is_synced_is_synced_by_the_next_synced_commit(
    url: str,
) -> None:
    path = url.removeprefix("file:")
    many = [(1, None, b"v" * 100, None)] * 2_500  # so many go to a segment at once
    disk = SlowDisk(path)
    with (
        millstream.open(url, upkeep=False) as other,
        FileLog(path, clock=SystemClock(), upkeep=False, disk=disk) as log,
    ):
        log.create("s")
        other.commit(Commit((Append("s", 0, many),)))
        disk.go.clear()
        disk.asked.clear()
        syncing = threading.Thread(target=lambda: log.append("s", b"synced", durability="synced"))
        syncing.start()
        assert disk.asked.wait(60)
        other.commit(Commit((Append("s", 0, many),)))  # into the same segment
        assert log.ends("s") == [(0, 5_001)]  # it is known here before the sync has ended
        disk.go.set()
        syncing.join(60)
        assert log._books.tail.unsynced
        log.append("s", b"synced too", durability="synced")
        assert not log._books.tail.unsynced
