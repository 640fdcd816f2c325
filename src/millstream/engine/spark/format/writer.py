"""Writing: tasks stage records, and one commit publishes them, under a fence where the batch has a name.

What a task staged and nobody published is swept after a day.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from millstream.engine.spark.format.columns import Form, check_written, form_of, from_spark, value_type_of
from millstream.engine.spark.format.options import WriteOptions, shared_log
from millstream.errors import Fenced, StoreFailed, UnknownStream, UsageError
from millstream.keyhash import shards_of
from millstream.log.can import Can
from millstream.log.check import check_shard
from millstream.log.commit import Commit, Fence, Staged
from millstream.log.log import Log
from millstream.names import short_name

SHARD_BYTES = 16 << 20  # of a shard are held by a task, then staged
TASK_BYTES = 128 << 20  # of all shards

_QUERY = "sql.streaming.queryId"


@dataclass(frozen=True)
class Wrote(WriterCommitMessage):
    """What a task staged; `query` is Spark's name for the query, where there is one."""

    staged: tuple[Staged, ...]
    records: int
    query: str | None


class Output:
    """A stream that is written to: what both writers do."""

    def __init__(self, options: WriteOptions, given: StructType, *, overwrite: bool) -> None:
        """Check the columns, and make the stream if that was asked for."""
        if overwrite:
            raise UsageError(
                'a stream only grows: write with mode("append"), or outputMode("append") or ("update")'
            )
        self._options = options
        self.form = self._form(given)
        check_written(options.stream, self.form, given)

    @property
    def _log(self) -> Log:
        return shared_log(self._options.log, Can.STAGE, Can.FENCE)

    def _form(self, given: StructType) -> Form:
        log, stream = self._log, self._options.stream
        there = stream in log.streams(
            stream
        )  # a look at what is so now; settings may be those of a moment ago
        if not there and not self._options.create:
            raise UnknownStream(
                f"the log has no stream '{stream}': make it by log.create('{stream}'), or let it be made by "
                'the option "create" = "true" (and "shards" = a number)'
            )
        if not there:
            log.create(stream, shards=self._options.shards, value=value_type_of(given), exist_ok=True)
        return form_of(log.settings(stream), flatten=self._options.flatten)

    def write(self, batches: Iterator[pa.RecordBatch]) -> Wrote:
        """Stage what a task has."""
        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        staging = Staging(self._log, self._options.stream, self.form, task)
        for batch in batches:
            staging.add(batch)
        query = None if context is None else context.getLocalProperty(_QUERY)
        return Wrote(staging.finish(), staging.records, query)

    def publish(self, messages: Sequence[WriterCommitMessage | None], fence: Fence | None) -> None:
        """Make all that was staged visible, once."""
        wrote = wrote_of(messages)
        staged = tuple(one for task in wrote for one in task.staged)
        if not staged:
            return
        try:
            self._log.commit(Commit(staged=staged, fence=fence), self._options.durability)
        except Fenced as error:
            assert fence is not None  # noqa: S101 - nothing else is refused so
            raise Fenced(
                f"batch {fence.number} is not written to stream '{self._options.stream}': its writer has "
                f"written a later one, or another one under this number ({error}). If a checkpoint was lost, "
                'look at what the stream holds, and go on under another name (option "writer")'
            ) from None

    def fence(self, messages: Sequence[WriterCommitMessage | None], writer: str, number: int) -> Fence:
        """What makes a batch happen once: who writes, the batch, and how many records it has."""
        wrote = wrote_of(messages)
        query = next((task.query for task in wrote if task.query is not None), "")
        count = sum(task.records for task in wrote)
        digest = hashlib.sha256(f"{query} {count}".encode()).digest()[:16]
        name = short_name(f"spark.{self._options.stream}.{writer}")
        return Fence(name, run=0, number=number, digest=digest)


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame: all of it, or nothing; once, if it has a name (`writer`, `batch`)."""

    def __init__(self, output: Output, options: WriteOptions) -> None:
        """Take what it writes to."""
        self._output = output
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Wrote:
        """Stage what a task has."""
        return self._output.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish it."""
        writer = self._options.writer
        fence = None if writer is None else self._output.fence(messages, writer, self._options.batch)
        self._output.publish(messages, fence)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a query, each of them once."""

    def __init__(self, output: Output, options: WriteOptions) -> None:
        """Take what it writes to."""
        self._output = output
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Wrote:
        """Stage what a task has."""
        return self._output.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        """Publish a batch, unless that was done before."""
        if not any(task.staged for task in wrote_of(messages)):
            return
        writer = self._options.writer or next((t.query for t in wrote_of(messages) if t.query), None)
        if writer is None:
            raise UsageError(
                'Spark does not tell its tasks the id of the query: name it by the option "writer"'
            )
        self._output.publish(messages, self._output.fence(messages, writer, batchId))


class Staging:
    """What a task holds of each shard, until it is staged."""

    def __init__(self, log: Log, stream: str, form: Form, task: int) -> None:
        """Records without a key go to a shard by task and batch in turn."""
        self.records = 0
        self._log = log
        self._stream = stream
        self._form = form
        self._shards = len(log.ends(stream))  # as it is now: settings may be those of a moment ago
        self._now_ms = log.clock.now_ms()
        self._turn = task
        self._held: dict[int, list[pa.RecordBatch]] = {}
        self._bytes: dict[int, int] = {}
        self._staged: list[Staged] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Take Spark's columns."""
        if not batch.num_rows:
            return
        rows, given = from_spark(batch, self._stream, self._form, self._now_ms)
        self.records += rows.num_rows
        for shard, part in self._split(rows, given):
            self._held.setdefault(shard, []).append(part)
            self._bytes[shard] = self._bytes.get(shard, 0) + part.nbytes
        self._turn += 1
        full = sum(self._bytes.values()) > TASK_BYTES
        for shard in [shard for shard, size in self._bytes.items() if full or size > SHARD_BYTES]:
            self._stage(shard)

    def finish(self) -> tuple[Staged, ...]:
        """Stage the rest; give all that was staged, in order."""
        for shard in list(self._held):
            self._stage(shard)
        return tuple(self._staged)

    def _stage(self, shard: int) -> None:
        held = pa.Table.from_batches(self._held.pop(shard)).combine_chunks().to_batches()
        del self._bytes[shard]
        self._staged.append(self._log.stage(self._stream, shard, held))

    def _split(self, rows: pa.RecordBatch, given: pa.Array) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The records of each shard, in their order."""
        if self._shards == 1 and given.null_count == len(given):
            yield 0, rows
            return
        shards = shards_of(rows.column("key"), self._shards)
        shards[shards < 0] = self._turn % self._shards
        asked = given.is_valid().to_numpy(zero_copy_only=False)
        shards[asked] = given.drop_null().to_numpy()
        order = np.argsort(shards, kind="stable")
        found, starts = np.unique(shards[order], return_index=True)
        for shard in (int(found[0]), int(found[-1])):
            check_shard(self._stream, shard, self._shards)
        sorted_rows = rows.take(pa.array(order))
        for shard, start, stop in zip(found, starts, [*starts[1:], len(order)], strict=True):
            yield int(shard), sorted_rows.slice(int(start), int(stop) - int(start))


def wrote_of(messages: Sequence[WriterCommitMessage | None]) -> list[Wrote]:
    """What the tasks wrote; all of them have to be there."""
    found = [message for message in messages if isinstance(message, Wrote)]
    if len(found) < len(messages):
        raise StoreFailed(
            f"{len(messages) - len(found)} tasks of {len(messages)} have not told what they wrote"
        )
    return found
