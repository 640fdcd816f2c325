"""The bare Python loop that a keyed fold is compared with: decode, fold in a dict, encode; two processes."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

import msgspec

from bench.payload import same
from bench.spark_events import Events
from bench.spark_rivals import running

PROCESSES = 2


class Event(msgspec.Struct):
    """An event, as it is decoded."""

    key: str
    amount: int


class Update(msgspec.Struct):
    """An update, as it is encoded."""

    key: str
    count: int
    total: int


def bare_loop(events: Events) -> float:
    """Events per second of all processes together; each folds the files that it has read before."""
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(PROCESSES)
    told: Queue[tuple[int, float, float]] = context.Queue()
    files = events.files[events.sizes.warm :]
    workers = [
        context.Process(target=work, args=(files[number::PROCESSES], ready, told))
        for number in range(PROCESSES)
    ]
    for worker in workers:
        worker.start()
    found = [told.get(timeout=600) for _ in workers]
    for worker in workers:
        worker.join()
    counts, starts, ends = zip(*found, strict=True)
    same(sum(counts), len(files) * events.sizes.per_epoch)
    return float(sum(counts) / (max(ends) - min(starts)))


def work(files: list[Path], ready: Barrier, told: Queue[tuple[int, float, float]]) -> None:
    """Read, wait for the others, fold; tell how many events, and from when to when."""
    lines = [line for path in files for line in path.read_bytes().splitlines()]
    folded(lines[:10_000])  # warms up
    ready.wait()
    start = time.perf_counter()
    count = len(folded(lines))
    told.put((count, start, time.perf_counter()))


def folded(lines: list[bytes]) -> list[bytes]:
    """Every update, encoded."""
    decode = msgspec.json.Decoder(Event).decode
    encode = msgspec.json.Encoder().encode
    states: dict[str, tuple[int, int]] = {}
    updates = []
    for line in lines:
        event = decode(line)
        key = event.key
        state = states[key] = running(states.get(key, (0, 0)), event.amount)
        updates.append(encode(Update(key, *state)))
    return updates
