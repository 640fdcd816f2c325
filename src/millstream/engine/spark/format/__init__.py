"""Streams for programs that are written in plain PySpark: `format("millstream")`.

    register_format(spark)
    orders = spark.read.format("millstream").option("log", "file:/data/log").option("stream", "orders").load()

`docs/spark_format.md` tells the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.engine.spark.format.source import NAME, MillstreamSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["NAME", "MillstreamSource", "register_format"]


def register_format(spark: SparkSession) -> None:
    """Let a session read and write streams by `format("millstream")`; to do it again does no harm."""
    spark.dataSource.register(MillstreamSource)
