"""How fast a log is written: single records, many at once, several threads and processes."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa

from bench.figure import Figure, Room, rate
from bench.payload import (
    BATCH_RECORDS,
    TIME_MS,
    VALUE,
    bare_sqlite,
    batch_of,
    fresh_log,
    one_record,
)
from bench.rounds import rate_for, rate_of, side_by_side
from bench.worker import Worker
from millstream import Append, Commit, Durability
from millstream.record import VALUE_BYTES, Row, rows_to_batch, with_seqs

THREADS = 8
PROCESSES = 4
START_SECONDS = 0.1  # from the word to the workers to the moment they all begin


def written(room: Room) -> Iterator[Figure]:
    """One-record commits, beside SQLite with synchronous=NORMAL."""
    yield single(room, "commit_written_vs_sqlite", Durability.WRITTEN, "NORMAL")


def synced(room: Room) -> Iterator[Figure]:
    """One-record commits that survive a power cut, beside SQLite with synchronous=FULL."""
    yield single(room, "commit_synced_vs_sqlite_full", Durability.SYNCED, "FULL")


def single(room: Room, name: str, durability: Durability, synchronous: str) -> Figure:
    """One-record commits from one thread, beside SQLite's."""
    chunk = 100 if durability is Durability.WRITTEN else 1
    with fresh_log(room.folder / name) as log, bare_sqlite(room.folder / f"{name}.db", synchronous) as insert:
        ratio = side_by_side(
            lambda: rate_for(room.seconds, times(chunk, one_record(log, durability))),
            lambda: rate_for(room.seconds, times(chunk, insert)),
            room.rounds,
        )
    return Figure(name, ratio.value, rate(ratio.ours, "commits"), f"{rate(ratio.theirs, 'rows')}, SQLite")


def times(number: int, step: Callable[[], int]) -> Callable[[], int]:
    """A step that does another one so many times, so that looking at the clock costs nothing."""

    def steps() -> int:
        for _ in range(number):
            step()
        return number

    return steps


def group(room: Room) -> Iterator[Figure]:
    """Synced commits from several threads of one process, beside SQLite from one thread."""
    name = "group_commit_vs_sqlite_full"
    with fresh_log(room.folder / name) as log, bare_sqlite(room.folder / f"{name}.db", "FULL") as insert:

        def all_threads() -> float:
            done: list[float] = []

            def one_thread() -> None:
                done.append(rate_for(room.seconds, one_record(log, Durability.SYNCED)))

            threads = [threading.Thread(target=one_thread) for _ in range(THREADS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if len(done) < THREADS:
                raise RuntimeError("a committing thread has failed")
            return sum(done)

        ratio = side_by_side(all_threads, lambda: rate_for(room.seconds, insert), room.rounds)
    yield Figure(name, ratio.value, rate(ratio.ours, "commits"), f"{rate(ratio.theirs, 'rows')}, SQLite")


def processes(room: Room) -> Iterator[Figure]:
    """One-record commits of several processes on one log, beside those of one process on another log."""
    name = "commit_4_processes_vs_1"
    folders = [room.folder / f"{name}-many", room.folder / f"{name}-one"]
    for folder in folders:
        with fresh_log(folder):
            pass
    with ExitStack() as stack:
        many, one = (
            [stack.enter_context(Worker("commits", f"file:{folder}")) for _ in range(number)]
            for folder, number in zip(folders, (PROCESSES, 1), strict=True)
        )
        ratio = side_by_side(
            lambda: together(many, room.seconds), lambda: together(one, room.seconds), room.rounds
        )
    yield Figure(
        name, ratio.value, rate(ratio.ours, "commits"), f"{rate(ratio.theirs, 'commits')}, 1 process"
    )


def together(workers: list[Worker], seconds: float) -> float:
    """Let workers commit at the same time; what they did in all, per second."""
    start = time.monotonic() + START_SECONDS
    for worker in workers:
        worker.tell(f"{start} {seconds}")
    return float(sum(worker.answer() for worker in workers)) / seconds


def batches(room: Room) -> Iterator[Figure]:
    """Large commits, given as Arrow, beside writing the same bytes to a file."""
    name = "batch_write_vs_os_write"
    batch, number = batch_of(), 64 if room.quick else 200
    message = memoryview(with_seqs(batch, 0).serialize())
    commit = Commit(records=(Append("bench", 0, batch),))

    def ours() -> float:
        def work() -> int:
            for _ in range(number):
                log.commit(commit)
            return number * message.nbytes

        folder = room.folder / name
        with fresh_log(folder) as log:
            log.commit(commit)  # the segment is made by now, as the other side's file is
            speed = rate_of(work)
        shutil.rmtree(folder)
        return speed

    ratio = side_by_side(ours, lambda: os_write(room.folder / f"{name}.bytes", message, number), room.rounds)
    yield Figure(name, ratio.value, rate(ratio.ours, "B"), f"{rate(ratio.theirs, 'B')}, os.write")


def os_write(file: Path, message: memoryview, number: int) -> float:
    """Write a message so many times to a new file; bytes per second."""

    def work() -> int:
        done = 0
        while done < number * message.nbytes:
            done += os.write(handle, message)
        return done

    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)
    try:
        return rate_of(work)
    finally:
        os.close(handle)
        file.unlink()


def sends(room: Room) -> Iterator[Figure]:
    """A producer's `send`, exactly once, beside collecting tuples and committing them as Arrow."""
    name = "send_vs_batch"
    number = (5 if room.quick else 20) * BATCH_RECORDS
    with fresh_log(room.folder / name) as log:
        log.create("beside")

        def ours() -> int:
            for each in range(number):
                producer.send(VALUE, key=b"%08d" % each)
            producer.flush()
            return number

        def theirs() -> int:
            kept: list[Row] = []
            for each in range(number):
                kept.append((TIME_MS, b"%08d" % each, VALUE, None))
                if len(kept) == BATCH_RECORDS:
                    batch: pa.RecordBatch = rows_to_batch(kept, VALUE_BYTES)
                    log.commit(Commit(records=(Append("beside", 0, batch),)))
                    kept.clear()
            return number

        with log.producer("bench", name="bench", durability=Durability.WRITTEN) as producer:
            ratio = side_by_side(lambda: rate_of(ours), lambda: rate_of(theirs), room.rounds)
    yield Figure(name, ratio.value, rate(ratio.ours, "sends"), f"{rate(ratio.theirs, 'records')}, in batches")
