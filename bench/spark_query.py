"""Run a streaming query over files of events, an epoch for each, and read its speed from Spark's progress."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from bench.payload import same
from bench.spark_events import SCHEMA, Events
from millstream.engine.spark import spark_session

ROOT = Path(__file__).parent.parent
CORES = 2
SETTINGS = {
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": str(CORES),
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
    "spark.executorEnv.PYTHONPATH": str(ROOT),  # workers import the functions of these modules
}

# What is computed from the events, and how it is written, into the folder that is given.
Program = Callable[[DataFrame, Path], DataStreamWriter]


def benchmark_session() -> SparkSession:
    """The session of both sides: whoever measures stops it."""
    return spark_session("bench", master=f"local[{CORES}]", settings=SETTINGS)


def epoch_ms(spark: SparkSession, events: Events, program: Program) -> list[float]:
    """What each epoch took from beginning to end, without those that warm up: a program over all files."""
    form = events.files[0].suffix.removeprefix(".")
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).format(form)
    with tempfile.TemporaryDirectory(dir=events.folder.parent) as name:
        folder = Path(name)
        writer = program(source.load(str(events.folder)), folder / "out")
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        epochs = [each for each in query.recentProgress if each.numInputRows]
    same([each.numInputRows for each in epochs], [events.sizes.per_epoch] * events.sizes.files)
    return [each.durationMs["triggerExecution"] for each in epochs[events.sizes.warm :]]


def events_per_second(spark: SparkSession, events: Events, program: Program) -> float:
    """The speed of a program, warm."""
    took = epoch_ms(spark, events, program)
    return 1e3 * events.sizes.per_epoch * len(took) / sum(took)
