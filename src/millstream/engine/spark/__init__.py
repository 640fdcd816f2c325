"""Flows on Spark Structured Streaming: the only place that imports PySpark."""

from millstream.engine.spark.format import register_format
from millstream.engine.spark.job import Epoch
from millstream.engine.spark.run import Summary, run
from millstream.engine.spark.session import session as spark_session

__all__ = ["Epoch", "Summary", "register_format", "run", "spark_session"]
