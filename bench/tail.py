"""How soon a waiting reader has a record, and what waiting costs it."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator

from bench.figure import Figure, Room
from bench.payload import fresh_log, same
from bench.worker import LAST, Worker

GAP_SECONDS_MAX = 0.01


def wake(room: Room) -> Iterator[Figure]:
    """From a commit in one process to the record in another's hands: both read one clock."""
    name, number = "tail_wake_p50_ms", 500 if room.quick else 2_000
    gaps = random.Random(1)
    folder = room.folder / name
    with fresh_log(folder) as log, Worker("tail", f"file:{folder}") as reader:
        for _ in range(number):
            time.sleep(gaps.uniform(0, GAP_SECONDS_MAX))
            log.append("bench", str(time.monotonic_ns()).encode())
        log.append("bench", LAST)
        late = sorted(reader.answer())
    same(len(late), number)
    yield Figure(
        name,
        statistics.median(late),
        f"p99 {late[-len(late) // 100]:.2g} ms, largest {late[-1]:.2g} ms",
        f"{number} commits at random moments",
    )


def idle(room: Room) -> Iterator[Figure]:
    """The processor time of a reader for which nothing comes."""
    name, seconds = "tail_idle_cpu_percent", 3 if room.quick else 10
    folder = room.folder / name
    with fresh_log(folder) as log, Worker("tail", f"file:{folder}") as reader:
        time.sleep(0.5)  # let it settle
        before, start = reader.cpu_seconds, time.monotonic()
        time.sleep(seconds)
        used, passed = reader.cpu_seconds - before, time.monotonic() - start
        log.append("bench", LAST)
        reader.answer()
    yield Figure(name, 100 * used / passed, f"{1000 * used:.3g} ms", f"of {passed:.3g} s")
