"""What Spark's benchmark compares with: plain PySpark as its documentation recommends, and a bare loop.

Each program writes what it computes with the file sink (Parquet), which is exactly once and takes the least
time of those that keep anything. A query in update mode cannot be written so; it writes the same files by
`foreachBatch`, as the documentation says. JSON is parsed by Spark, not in Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

RUNNING = "key string, count long, total long"
TAXED = "key string, cents long"


def running(state: tuple[int, int], amount: int) -> tuple[int, int]:
    """What is done for each event: the count and the sum of all amounts so far."""
    count, total = state
    return count + 1, total + amount


class Running(StatefulProcessor):
    """The running count and sum of a key: every update is an output."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self.state = handle.getValueState("running", "count long, total long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: ANN401, N802, N803
        """Fold the events of a key in this epoch."""
        state = self.state.get() or (0, 0)
        for row in rows:
            state = running(state, row.amount)
            yield Row(key=key[0], count=state[0], total=state[1])
        self.state.update(state)

    def close(self) -> None:
        """Nothing to give back."""


def updates_of(events: DataFrame) -> DataFrame:
    """Keyed running state by `transformWithState`, with rows."""
    return events.groupBy("key").transformWithState(
        statefulProcessor=Running(), outputStructType=RUNNING, outputMode="Append", timeMode="None"
    )


def fold(events: DataFrame, out: Path) -> DataStreamWriter:
    """Every update written to files."""
    return into_files(updates_of(events), out)


def fold_into_nothing(events: DataFrame, _: Path) -> DataStreamWriter:
    """Every update dropped by the sink `noop`: what is left is the computation, and nothing is kept."""
    return updates_of(events).writeStream.outputMode("append").format("noop")


def aggregate(events: DataFrame, out: Path) -> DataStreamWriter:
    """Count and sum per key, by Spark's own aggregates, in update mode."""
    totals = events.groupBy("key").agg(F.count("*").alias("count"), F.sum("amount").alias("total"))

    def write(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(str(out / str(number)))

    return totals.writeStream.outputMode("update").foreachBatch(write)


def taxed(row: dict[str, Any]) -> dict[str, Any]:
    """What is done for each event that is kept."""
    return {"key": row["key"], "cents": row["amount"] * 119}


def kept(row: dict[str, Any]) -> bool:
    """Which events are kept: half of them."""
    return bool(row["amount"] % 2)


TAXED_ARROW = pa.schema({"key": pa.string(), "cents": pa.int64()})


def taxed_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The events that are kept, one by one."""
    for batch in batches:
        rows = [taxed(row) for row in batch.to_pylist() if kept(row)]
        yield pa.RecordBatch.from_pylist(rows, schema=TAXED_ARROW)


def map_and_filter(events: DataFrame, out: Path) -> DataStreamWriter:
    """A map and a filter by Python functions, with `mapInArrow`."""
    return into_files(events.mapInArrow(taxed_batches, TAXED), out)


def into_files(rows: DataFrame, out: Path) -> DataStreamWriter:
    """Spark's file sink."""
    return rows.writeStream.outputMode("append").format("parquet").option("path", str(out))
