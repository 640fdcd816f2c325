"""What grows, and what must not: the smallest epoch with levels, pages and keys; the time of an event."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import millstream
from bench.figure import Figure, Room
from bench.spark_events import AMOUNT_STEP, AMOUNTS, KEY_STEP, Sizes, as_json
from bench.spark_flows import Event, Running, ends_of_epochs, fold_flow, fresh_name, log_of, running
from bench.spark_query import CORES, benchmark_session
from millstream.flow import Flow
from millstream.keyhash import shards_of
from millstream.log import Append, Commit, Log
from millstream.record import HEADERS_TYPE, rows_schema

SMALL = 1_000
LARGE = 1_000_000
PART = 200_000
PAGES = (4, 64, 256)
LEVELS = (1, 2, 3)


def levels(room: Room) -> Iterator[Figure]:
    """The smallest epoch, with one regrouping more each time."""
    events = as_json(room.folder / "levels", Sizes(SMALL, 8 if room.quick else 30, 8))
    benchmark_session()
    found = []
    for depth in LEVELS:
        flow = deep_flow(fresh_name(), depth)
        found.append(p50_ms(flow, log_of(events), events.sizes.warm))
    texts = ", ".join(f"{depth}: {took:.3g} ms" for depth, took in zip(LEVELS, found, strict=True))
    yield Figure("epoch_p50_levels", found[-1] / found[0], texts)


def progress(room: Room) -> Iterator[Figure]:
    """The smallest epoch with more pages, each of which is told of progress."""
    events = as_json(room.folder / "pages", Sizes(SMALL, 6 if room.quick else 15, 4))
    benchmark_session()
    found = []
    for pages in PAGES:
        flow = fold_flow(fresh_name())
        found.append(p50_ms(flow, log_of(events), events.sizes.warm, pages=pages))
    texts = ", ".join(f"{pages} pages: {took:.3g} ms" for pages, took in zip(PAGES, found, strict=True))
    yield Figure("progress_overhead_ms", found[-1] - found[0], texts)


def keys(room: Room) -> Iterator[Figure]:
    """The smallest epoch with many keys resident, and the restart before it."""
    benchmark_session()
    many = 200_000 if room.quick else 5_000_000
    small, large = (resident(room.folder / f"keys{count}", count, room) for count in (10_000, many))
    texts = f"{many:,} keys: {told(large)}", f"10,000 keys: {told(small)}"
    yield Figure("epoch_5m_vs_10k_keys", large.p50 / small.p50, *texts)
    yield Figure("restart_5m_keys_s", large.restart_s, f"{large.restart_s:.3g} s")


class Resident:
    """Smallest epochs with so many keys."""

    def __init__(self, restart_s: float, took: list[float], bytes_each: float) -> None:
        """Take what was measured."""
        self.restart_s = restart_s
        self.p50 = statistics.median(took)
        self.p99 = sorted(took)[int(0.99 * len(took))]
        self.bytes_each = bytes_each


def told(one: Resident) -> str:
    """As people read it."""
    return f"p50 {one.p50:.3g} ms, p99 {one.p99:.3g} ms, {one.bytes_each / 1e3:.3g} kB of checkpoint an epoch"


def resident(folder: Path, count: int, room: Room) -> Resident:
    """Fold so many keys, then run again with small epochs."""
    url, flow = f"file:{folder}", fold_flow("resident")
    epochs, warm = (10, 5) if room.quick else (50, 10)
    with millstream.open(url) as log:
        log.create("events", shards=CORES)
        for first in range(0, count, PART):
            append(log, np.arange(first, min(first + PART, count)), first)
        ends_of_epochs(flow, url, records_max=PART)
        step = np.arange((epochs + warm) * SMALL)
        append(log, step * KEY_STEP % count, count)
    checkpoint = Path(f"{folder}.jobs")
    before, begun = size_of(checkpoint), time.perf_counter()
    ends = ends_of_epochs(flow, url, records_max=SMALL)
    took = 1e3 * np.diff([end for end, _ in ends])[warm - 1 :]
    return Resident(ends[0][0] - begun, took.tolist(), max(0, size_of(checkpoint) - before) / len(ends))


def size_of(folder: Path) -> int:
    """The bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def per_event(room: Room) -> Iterator[Figure]:
    """The time per event of short and of long runs, and how the memory of all processes grows."""
    benchmark_session()
    counts = (1, 2) if room.quick else (1, 4, 16, 64)
    found = {}
    for millions in counts:
        url = f"file:{room.folder / f'events{millions}'}"
        with millstream.open(url) as log:
            log.create("events", shards=CORES)
            for first in range(0, (millions + 1) * LARGE, PART):
                append(log, np.arange(first, first + PART) % 10_000, first)
        ends = ends_of_epochs(fold_flow("events"), url, records_max=LARGE)
        found[millions] = (ends[-1][0] - ends[0][0]) / (millions * LARGE)
    texts = ", ".join(f"{millions} M: {1e9 * took:.3g} ns" for millions, took in found.items())
    yield Figure("per_event_64m_vs_1m", found[counts[-1]] / found[1], texts)


def p50_ms(flow: Flow, log: str, warm: int, pages: int = CORES) -> float:
    """The median of the epochs of a run, without those that warm up."""
    ends = [end for end, _ in ends_of_epochs(flow, log, pages=pages, records_max=SMALL)]
    return 1e3 * float(np.median(np.diff(ends)[warm - 1 :]))


def deep_flow(name: str, depth: int) -> Flow:
    """As many regroupings, each with a state."""
    flow = Flow(name)
    grouped = flow.source("events", key=str, value=Event).group_by_key()
    for number in range(depth - 1):
        updates = grouped.fold(Running(), running, name=f"{number}")
        grouped = updates.map(as_event).group_by(key_of)
    grouped.fold(Running(), running, name="last").sink(f"{name}.updates")
    return flow


def as_event(state: Running) -> Event:
    """Each update is an event of the next level."""
    return Event(f"k{state.total % 10_000:04}", state.count)


def key_of(event: Event) -> str:
    """The key at the next level."""
    return event.key


def append(log: Log, numbers: np.ndarray[tuple[int], np.dtype[np.int64]], first: int) -> None:
    """Append an event for each number, which says its key; `first` is the timestamp of the first."""
    names = [b"k%04d" % number for number in numbers.tolist()]
    amounts = (numbers * AMOUNT_STEP % AMOUNTS).tolist()
    lines = [b'{"key": "%s", "amount": %d}' % pair for pair in zip(names, amounts, strict=True)]
    columns = [pa.array(np.arange(first, first + len(names))), pa.array(names, pa.binary())]
    columns += [pa.array(lines, pa.binary()), pa.nulls(len(names), HEADERS_TYPE)]
    batch = pa.RecordBatch.from_arrays(columns, schema=rows_schema(pa.binary()))
    shards = shards_of(columns[1], CORES)
    appends = [Append("events", shard, batch.filter(pa.array(shards == shard))) for shard in range(CORES)]
    log.commit(Commit(tuple(one for one in appends if len(one.records))))
