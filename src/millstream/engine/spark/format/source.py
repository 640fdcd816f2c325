"""The format as Spark knows it: which class reads, and which writes."""

from __future__ import annotations

from functools import cached_property

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from millstream.engine.spark.format.options import ReadOptions, WriteOptions, read_options, write_options
from millstream.engine.spark.format.reader import BatchReader, Columns
from millstream.engine.spark.format.stream_reader import StreamReader
from millstream.engine.spark.format.writer import BatchWriter, Output, StreamWriter

NAME = "millstream"


class MillstreamSource(DataSource):
    """Streams of a log, for reading and writing, all at once or on and on."""

    @classmethod
    def name(cls) -> str:
        """As in `format("millstream")`."""
        return NAME

    @cached_property
    def _reading(self) -> ReadOptions:
        return read_options(self.options)

    @cached_property
    def _writing(self) -> WriteOptions:
        return write_options(self.options)

    def schema(self) -> StructType:
        """The columns of the stream."""
        return Columns(self._reading).schema

    def reader(self, schema: StructType) -> BatchReader:
        """What reads all at once."""
        return BatchReader(Columns(self._reading, schema))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - as Spark calls it
        """What reads on and on."""
        return StreamReader(Columns(self._reading, schema))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """What writes a DataFrame."""
        return BatchWriter(Output(self._writing, schema, overwrite=overwrite), self._writing)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - as Spark calls it
        """What writes the batches of a query."""
        return StreamWriter(Output(self._writing, schema, overwrite=overwrite), self._writing)
