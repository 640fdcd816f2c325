"""Flows on Spark Structured Streaming: the only place that imports PySpark."""

from millstream.engine.spark.session import session as spark_session

__all__ = ["spark_session"]
