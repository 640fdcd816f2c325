"""From the moment an event is written to the moment its update is out, at a steady rate, in plain PySpark.

Events come in small files, which are renamed into the folder that the query reads: that is Spark's own way
without a broker. An update counts as out when `foreachBatch` has it in the driver, which is before Spark
has committed the epoch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from bench.payload import same
from bench.spark_events import event
from bench.spark_rivals import running

PER_SECOND = 1_000
PER_FILE = 50
WARM_SECONDS = 10
PATIENCE_SECONDS = 60


class Timed(StatefulProcessor):
    """The running count and sum of a key; each update says when its event was written."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self.state = handle.getValueState("running", "count long, total long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: ANN401, N802, N803
        """Fold the events of a key in this epoch."""
        state = self.state.get() or (0, 0)
        for row in rows:
            state = running(state, row.amount)
            yield Row(key=key[0], count=state[0], total=state[1], written=row.written)
        self.state.update(state)

    def close(self) -> None:
        """Nothing to give back."""


def steady(spark: SparkSession, folder: Path, seconds: int) -> list[float]:
    """The milliseconds of each event, sorted, for so many seconds after those that warm up."""
    source = folder / "events"
    source.mkdir(parents=True)
    found: list[tuple[float, float]] = []

    def out(batch: DataFrame, _: int) -> None:
        rows = batch.select("written").collect()
        now = time.time()
        found.extend((row.written, now) for row in rows)

    events = spark.readStream.schema("key string, amount long, written double").json(str(source))
    updates = events.groupBy("key").transformWithState(
        statefulProcessor=Timed(),
        outputStructType="key string, count long, total long, written double",
        outputMode="Append",
        timeMode="None",
    )
    writer = updates.writeStream.outputMode("append").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.foreachBatch(out).start()
    start = time.time()
    wanted = (WARM_SECONDS + seconds) * PER_SECOND
    feeder = threading.Thread(target=feed, args=(source, wanted))
    feeder.start()
    feeder.join()
    while (
        len(found) < wanted
        and query.isActive
        and time.time() < start + wanted / PER_SECOND + PATIENCE_SECONDS
    ):
        time.sleep(0.1)
    query.stop()
    same(len(found), wanted)
    return sorted(1e3 * (now - written) for written, now in found if written >= start + WARM_SECONDS)


def feed(folder: Path, wanted: int) -> None:
    """Write so many events, at the steady rate."""
    begin = time.perf_counter()
    for first in range(0, wanted, PER_FILE):
        time.sleep(max(0.0, begin + first / PER_SECOND - time.perf_counter()))
        now = time.time()
        rows = (event(number) for number in range(first, first + PER_FILE))
        lines = [f'{{"key": "{key}", "amount": {amount}, "written": {now!r}}}\n' for key, amount in rows]
        hidden = folder / f".{first:09}"  # Spark does not look at names that begin so
        hidden.write_text("".join(lines))
        hidden.rename(folder / f"{first:09}.json")
