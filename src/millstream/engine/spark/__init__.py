"""Flows on Spark Structured Streaming: the only place that imports PySpark."""

from millstream.engine.spark.job import Epoch
from millstream.engine.spark.run import Summary, run
from millstream.engine.spark.session import session as spark_session

__all__ = ["Epoch", "Summary", "run", "spark_session"]
