"""A job as one query of Spark: started, watched, stopped at the edge of an epoch."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from millstream.engine.spark.setup import Setup
from millstream.engine.spark.source import SCHEMA, JobSource
from millstream.engine.spark.stages import PageProcessor
from millstream.engine.spark.stop import StopFile
from millstream.engine.spark.trouble import as_ours
from millstream.engine.stage.inputs import StreamInput, input_of
from millstream.engine.stage.job import Job
from millstream.engine.stage.parcel import header_of
from millstream.engine.stage.plan import Kind, Plan
from millstream.engine.stage.planlog import PlanReader
from millstream.engine.stage.rest import at_rest
from millstream.log.commit import Commit, Offset
from millstream.log.log import Log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class Epoch(NamedTuple):
    """What is told of an epoch when it is over."""

    job: str
    epoch: int
    records: int
    counts: Mapping[str, int]
    seconds: float


class JobRun:
    """One job of a run."""

    def __init__(self, job: Job, log: Log, setup: Setup, told: Callable[[Epoch], None]) -> None:
        """`told` is called after each epoch."""
        whole = setup.bounds is not None
        self.job = job
        self.epochs = 0
        self._log = log
        self._setup = setup
        self._told = told
        self._inputs = {name: input_of(nodes[0], log, whole=whole) for name, nodes in job.sources.items()}
        self._plans = PlanReader(log, job.name)
        self._done: Plan | None = None  # the newest that was committed
        self._stop = StopFile(setup.folder)
        self._query: StreamingQuery | None = None

    def start(self, spark: SparkSession, *, kind: Kind = "records") -> None:
        """Start the query, or go on with it; `kind` is that of its first new epoch."""
        self._stop.clear()
        setup = self._setup._replace(kind=kind)
        name = f"millstream {self.job.name}"
        source = type(name, (JobSource,), {"setup": setup})
        spark.dataSource.register(source)
        frame = spark.readStream.format(name).load()
        spark.conf.set("spark.sql.shuffle.partitions", str(setup.pages))
        for level in range(1, self.job.depth + 1):
            stage = PageProcessor(setup, level)
            frame = frame.groupBy("page").transformWithState(stage, SCHEMA, "Append", "None")
        writer = frame.writeStream.foreachBatch(self._finished_epoch).outputMode("append")
        checkpoint = str(Path(setup.folder, "checkpoint"))
        self._query = writer.option("checkpointLocation", checkpoint).queryName(self.job.name).start()

    def _finished_epoch(self, frame: DataFrame, number: int) -> None:
        """Have the epoch done, and take what it reports."""
        del number
        begun = time.monotonic()
        counts: Counter[str] = Counter()
        for row in frame.collect():
            counts.update(header_of(bytes(row.parcel)).report or {})
        plan = self._plans.newest()
        if plan is None:
            return
        self._publish(plan)
        self._done = plan
        self.epochs += 1
        records, seconds = counts.pop("in", 0), time.monotonic() - begun
        self._told(Epoch(self.job.name, plan.epoch, records, dict(counts), seconds))

    def _publish(self, plan: Plan) -> None:
        """The group's offsets, so that lag can be seen; an epoch that is done again says the same again."""
        known = self._log.offsets(self.job.name)
        offsets = tuple(
            Offset(self.job.name, one.input, one.shard, known.get((one.input, one.shard)), one.end)
            for one in plan.positions
            if isinstance(self._inputs.get(one.input), StreamInput)
            and known.get((one.input, one.shard)) != one.end
        )
        if offsets:
            self._log.commit(Commit(offsets=offsets))

    # -- watching

    def check(self) -> None:
        """Raise what stopped the query."""
        query = self._query
        if query is not None and not query.isActive:
            error = query.exception()
            if error is not None:
                raise as_ours(error, self.job.name) from None

    def rests(self) -> bool:
        """Whether there is nothing to read any more, and nothing on its way."""
        done, newest = self._done, self._plans.newest()
        if (
            newest is not None
            and (done is None or done.epoch != newest.epoch)
            and not self._committed(newest)
        ):
            return False
        return at_rest(newest, self._inputs, self._setup.bounds or {}, self._log.clock.now_ms())

    def _committed(self, plan: Plan) -> bool:
        """Whether Spark has committed an epoch, in this run or before."""
        folder = Path(self._setup.folder, "checkpoint", "commits")
        return self._done is None and (folder / str(plan.epoch)).exists()

    # -- stopping

    def halt(self) -> None:
        """Have no further epoch planned."""
        self._stop.set()

    def wait_for_edge(self, pause: Callable[[float], object]) -> None:
        """Until no epoch is under way."""
        while (query := self._query) is not None and query.isActive:
            newest = self._plans.newest()
            if newest is None or newest == self._done or self._committed(newest):
                return
            pause(0.02)

    def stop(self) -> None:
        """Stop the query."""
        if self._query is not None:
            self._query.stop()
            self._query = None
