"""Our side of Spark's benchmark."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

import millstream
from bench.payload import same
from bench.spark import Ours, benchmark
from bench.spark_events import event
from bench.spark_flows import (
    TAXED,
    Written,
    aggregate_flow,
    fold_flow,
    map_batches_flow,
    map_flow,
    smallest_ms,
    speed,
)
from bench.spark_latency import PATIENCE_SECONDS, PER_FILE, PER_SECOND, WARM_SECONDS
from bench.spark_query import CORES, SETTINGS
from millstream.flow import Flow
from millstream.log import Log

AFTER_SECONDS = 15  # to start before the events of a steady run, and to do the last of them


def steady(spark: SparkSession, folder: Path, seconds: int) -> list[float]:
    """The milliseconds of each event from written to read, sorted, after those that warm up."""
    del spark
    url = f"file:{folder}"
    flow = Flow("steady")
    source = flow.source("events", key=str, value=Written)
    source.group_by_key().transform((0, 0), timed, value=Written, name="running").sink("updates")
    wanted = (WARM_SECONDS + seconds) * PER_SECOND
    found: list[tuple[float, float]] = []
    with millstream.open(url) as log:
        log.create("events", shards=CORES)
        log.create("updates", shards=CORES)
        threads = [
            threading.Thread(target=feed, args=(log, wanted)),
            threading.Thread(target=watch, args=(log, wanted, found)),
        ]
        for thread in threads:
            thread.start()
        start = time.time()
        limit = WARM_SECONDS + seconds + AFTER_SECONDS
        flow.run(url, until=limit, master=f"local[{CORES}]", settings=SETTINGS, pages=CORES)
        for thread in threads:
            thread.join()
    same(len(found), wanted)
    return sorted(1e3 * (now - written) for written, now in found if written >= start + WARM_SECONDS)


def timed(state: tuple[int, int], event: Written) -> tuple[tuple[int, int], list[Written]]:
    """The running count and sum; each update says when its event was written."""
    state = state[0] + 1, state[1] + event.amount
    return state, [Written(state[1], event.written)]


def feed(log: Log, wanted: int) -> None:
    """Write so many events, at the steady rate."""
    begin = time.perf_counter()
    encode = msgspec.json.Encoder().encode
    with log.producer("events") as producer:
        for first in range(0, wanted, PER_FILE):
            time.sleep(max(0.0, begin + first / PER_SECOND - time.perf_counter()))
            now = time.time()
            for key, amount in map(event, range(first, first + PER_FILE)):
                producer.send(encode(Written(amount, now)), key=key.encode())
            producer.flush()


def watch(log: Log, wanted: int, found: list[tuple[float, float]]) -> None:
    """Read the updates as they come."""
    read = msgspec.json.Decoder(Written).decode
    seqs = [0] * CORES
    end = time.time() + wanted / PER_SECOND + PATIENCE_SECONDS
    while len(found) < wanted and time.time() < end:
        log.wait({("updates", shard): seq for shard, seq in enumerate(seqs)}, 1.0)
        for shard, seq in enumerate(seqs):
            batch = log.read("updates", shard, seq)
            now = time.time()
            found += [(read(record.value).written, now) for record in batch.records()]
            seqs[shard] = batch.next_seq


OURS = Ours(
    fold=speed(fold_flow),
    aggregate=speed(aggregate_flow),
    aggregate_columnar=speed(aggregate_flow, columnar=True),
    map_and_filter=speed(map_flow),
    map_batches=speed(map_batches_flow, out=TAXED),
    epoch_ms=smallest_ms,
    steady=steady,
)
SPARK = benchmark(OURS)
