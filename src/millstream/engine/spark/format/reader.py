"""Reading: tasks that hand out what the log has, as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from millstream.engine.spark.format.bounds import bound_of
from millstream.engine.spark.format.columns import Form, check_wanted, form_of, schema_of, to_spark
from millstream.engine.spark.format.options import ReadOptions, shared_log
from millstream.engine.spark.format.places import (
    Range,
    Ranges,
    ends_of,
    places_of,
    ranges_of,
    streams_of,
    tasks_of,
)
from millstream.errors import HistoryChanged, SeqTrimmed, UsageError
from millstream.log.batch import Limits
from millstream.log.log import Log

CHUNK = Limits(records=65_536, bytes=16 << 20)


class Columns:
    """What is read, and into which columns: all that a task needs to know."""

    def __init__(self, options: ReadOptions, wanted: StructType | None = None) -> None:
        """`wanted` are the columns that Spark asked for; None: all."""
        log = shared_log(options.log)
        streams = streams_of(log, options)
        forms = {stream: self._form(log, stream, options) for stream in streams}
        first = streams[0]
        for stream, form in forms.items():
            if form != forms[first]:
                raise UsageError(
                    f"streams '{first}' and '{stream}' have values of different types, {forms[first].value} "
                    f'and {form.value}: read them one by one, or choose others by the option "streams"'
                )
        self.options = options
        self.form = forms[first]
        self.schema = schema_of(first, self.form)
        if wanted is not None:
            check_wanted(first, self.form, wanted)
            self.schema = wanted

    @staticmethod
    def _form(log: Log, stream: str, options: ReadOptions) -> Form:
        return form_of(log.settings(stream), flatten=options.flatten, named=options.streams is not None)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of a task's ranges."""
        log = shared_log(self.options.log)
        for piece in partition.ranges if isinstance(partition, Ranges) else ():
            for batch in _records(log, piece, fail=self.options.fail_on_data_loss):
                yield to_spark(batch, piece.stream, piece.shard, self.form, self.schema)


class BatchReader(DataSourceReader):
    """Reads what lies between two places, as they are when the query is planned."""

    def __init__(self, columns: Columns) -> None:
        """Nothing is read before it is asked for."""
        self._columns = columns

    def partitions(self) -> list[Ranges]:
        """What each task reads."""
        options = self._columns.options
        log = shared_log(options.log)
        ends = ends_of(log, options)
        starts = places_of(log, bound_of(options.start), ends)
        stops = places_of(log, bound_of(options.end), ends)
        # Spark takes no partitions for one that is None; nothing to read is none of ours either way.
        return tasks_of(ranges_of(starts, stops, None), options.records_per_task)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of a task."""
        return self._columns.read(partition)


def _records(log: Log, piece: Range, *, fail: bool) -> Iterator[pa.RecordBatch]:
    """The log's batches of a range; what is gone is an error, unless that is allowed."""
    seq = piece.start
    while seq < piece.end:
        limits = Limits(min(CHUNK.records, piece.end - seq), CHUNK.bytes)
        try:
            found = log.read(piece.stream, piece.shard, seq, limits, history=piece.history)
        except SeqTrimmed as error:
            if fail:
                raise
            seq = error.first
            continue
        for batch in found.batches:
            inside = int(batch.column(0).to_numpy().searchsorted(piece.end))
            if inside:
                yield batch.slice(0, inside)
        if found.next_seq <= seq:
            raise HistoryChanged(
                f"stream '{piece.stream}', shard {piece.shard} ends at {seq}, and was read up to {piece.end} "
                "before: the log was taken back; begin again with a new checkpoint",
                end=seq,
            )
        seq = found.next_seq
