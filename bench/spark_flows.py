"""Flows as a user would write them, and the same events in a log: our side of Spark's benchmark."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import millstream
from bench.payload import same
from bench.spark_events import Events
from bench.spark_query import CORES, SETTINGS
from millstream.engine.spark import Epoch
from millstream.flow import Flow
from millstream.flow.aggregate import Field
from millstream.keyhash import shards_of
from millstream.log import Append, Commit, Log
from millstream.record import HEADERS_TYPE, rows_schema

PART_EVENTS = 100_000  # of one commit
COLUMNS = pa.schema([pa.field("key", pa.utf8()), pa.field("amount", pa.int64())])
TAXED = pa.schema([pa.field("key", pa.utf8()), pa.field("cents", pa.int64())])
_NUMBERS = count()


class Event(msgspec.Struct, frozen=True):
    """An event, as it is decoded."""

    key: str
    amount: int


class Running(msgspec.Struct, frozen=True):
    """The count and the sum of all amounts so far."""

    count: int = 0
    total: int = 0


class Written(msgspec.Struct, frozen=True):
    """An amount, and when its event was written."""

    amount: int
    written: float


class Taxed(msgspec.Struct, frozen=True):
    """What becomes of an event that is kept."""

    key: str
    cents: int


def running(state: Running, event: Event) -> Running:
    """What is done for each event."""
    return Running(state.count + 1, state.total + event.amount)


def fold_flow(name: str) -> Flow:
    """Keyed running state by a function for each event: every update is written."""
    flow = Flow(name)
    events = flow.source("events", key=str, value=Event)
    events.group_by_key().fold(Running(), running).sink(f"{name}.updates")
    return flow


def aggregate_flow(name: str) -> Flow:
    """Count and sum per key by ready-made aggregates."""
    flow = Flow(name)
    events = flow.source("events", key=str, value=Event)
    events.group_by_key().count().sink(f"{name}.counts")
    events.group_by_key().sum(Field("amount")).sink(f"{name}.totals")
    return flow


def taxed(event: Event) -> Taxed:
    """What is done for each event that is kept."""
    return Taxed(event.key, event.amount * 119)


def kept(event: Event) -> bool:
    """Which events are kept: half of them."""
    return bool(event.amount % 2)


def map_flow(name: str) -> Flow:
    """A filter and a map by Python functions."""
    flow = Flow(name)
    flow.source("events", key=str, value=Event).filter(kept).map(taxed).sink(f"{name}.taxed")
    return flow


def taxed_batch(batch: pa.RecordBatch) -> pa.Table:
    """The same for many events at once, by Arrow: their JSON too."""
    lines = pa.BufferReader(b"\n".join(batch["value"].to_pylist()))
    events = pj.read_json(lines, parse_options=pj.ParseOptions(explicit_schema=COLUMNS))
    kept_rows = pc.equal(pc.bit_wise_and(events["amount"], 1), 1)
    events = events.append_column("group", batch["key"]).filter(kept_rows)
    cents = pc.multiply(events["amount"], 119)
    made = pa.table({"key": events["key"], "cents": cents}).to_struct_array()
    return pa.table({"key": events["group"], "value": made})


def map_batches_flow(name: str) -> Flow:
    """A filter and a map by Arrow batches."""
    flow = Flow(name)
    flow.source("events", key=str, value=bytes).map_batches(taxed_batch, value=Taxed).sink(f"{name}.taxed")
    return flow


def seconds_of_epochs(flow: Flow, events: Events, log: str, **options: Any) -> list[float]:
    """How long each epoch took, from the end of the one before to its own, without those that warm up."""
    ends = ends_of_epochs(flow, log, records_max=events.sizes.per_epoch, **options)
    same([records for _, records in ends], [events.sizes.per_epoch] * events.sizes.files)
    times = [end for end, _ in ends][events.sizes.warm - 1 :]
    return [float(took) for took in np.diff(times)]


def ends_of_epochs(flow: Flow, log: str, *, pages: int = CORES, **options: Any) -> list[tuple[float, int]]:
    """When each epoch of a run was over, and how many records it had."""
    ends: dict[tuple[str, int], tuple[float, int]] = {}

    def told(epoch: Epoch) -> None:
        ends[epoch.job, epoch.epoch] = time.perf_counter(), epoch.records

    chosen: dict[str, Any] = {"until": "end", "master": f"local[{CORES}]", "settings": SETTINGS}
    flow.run(log, **{**chosen, "pages": pages, "on_epoch": told, **options})
    first = min(job for job, _ in ends)  # of several jobs on the same events one is measured
    return [found for (job, _), found in ends.items() if job == first]


def fresh_name() -> str:
    """Of a flow that was not run before."""
    return f"run{next(_NUMBERS)}"


def speed(
    make: Callable[[str], Flow], *, columnar: bool = False, out: pa.Schema | None = None
) -> Callable[[SparkSession, Events], float]:
    """Events per second of a flow, warm; `out`: what it writes is columns."""

    def measured(spark: SparkSession, events: Events) -> float:
        del spark  # a flow's run finds the session that is there
        name, log = fresh_name(), log_of(events, columnar=columnar)
        if out is not None:
            with millstream.open(log) as opened:
                opened.create(f"{name}.taxed", shards=CORES, value=out)
        took = seconds_of_epochs(make(name), events, log)
        return events.sizes.per_epoch * len(took) / sum(took)

    return measured


def smallest_ms(spark: SparkSession, events: Events) -> list[float]:
    """What each epoch took."""
    del spark
    flow = fold_flow(fresh_name())
    return [1e3 * took for took in seconds_of_epochs(flow, events, log_of(events))]


def log_of(events: Events, *, columnar: bool = False) -> str:
    """The events in a log beside their files, filled once."""
    folder = events.folder.with_name(f"{events.folder.name}-log")
    url = f"file:{folder}"
    if not folder.exists():
        with millstream.open(url) as log:
            log.create("events", shards=CORES, value=COLUMNS if columnar else None)
            first = 0
            for path in events.files:
                first += filled(log, path, first)
    return url


def filled(log: Log, path: Path, first: int) -> int:
    """Append the events of a file; how many there are."""
    if path.suffix == ".parquet":
        table = pq.read_table(path, schema=COLUMNS)
        keys = table["key"].combine_chunks().cast(pa.binary())
        values = pa.concat_arrays(table.to_struct_array().chunks)
    else:
        lines = path.read_bytes().splitlines()
        read = msgspec.json.Decoder(Event).decode
        keys = pa.array([read(line).key.encode() for line in lines], pa.binary())
        values = pa.array(lines, pa.binary())
    shards = shards_of(keys, CORES)
    for start in range(0, len(keys), PART_EVENTS):
        stop = min(start + PART_EVENTS, len(keys))
        appends = []
        for shard in range(CORES):
            rows = np.flatnonzero(shards[start:stop] == shard) + start
            nothing = pa.nulls(len(rows), HEADERS_TYPE)
            columns = [pa.array(first + rows), keys.take(rows), values.take(rows), nothing]
            batch = pa.RecordBatch.from_arrays(columns, schema=rows_schema(values.type))
            appends.append(Append("events", shard, batch))
        log.commit(Commit(tuple(appends)))
    return len(keys)
