"""A job as one query of Spark: started, watched, stopped at the edge of an epoch."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from millstream.engine.spark.checkpoint import committed
from millstream.engine.spark.prepare import Preparation, Wishes
from millstream.engine.spark.setup import Setup, bounds_of
from millstream.engine.spark.source import SCHEMA, JobSource
from millstream.engine.spark.stages import PageProcessor
from millstream.engine.spark.stop import StopFile
from millstream.engine.spark.trouble import as_ours
from millstream.engine.stage.description import Description, digest_of
from millstream.engine.stage.inputs import StreamInput, input_of
from millstream.engine.stage.job import Job
from millstream.engine.stage.parcel import header_of
from millstream.engine.stage.plan import Plan
from millstream.engine.stage.planlog import PlanReader
from millstream.engine.stage.rest import at_rest
from millstream.errors import MillstreamError
from millstream.log.can import Can
from millstream.log.commit import Commit, Durability, Offset
from millstream.log.log import Log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


Pause: TypeAlias = Callable[[float], object]


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
        """`setup` is for a first run; how it goes on, the past says. `told` is called after each epoch."""
        whole = setup.bounds is not None
        self.job = job
        self.epochs = 0
        self._log = log
        self._told = told
        self._inputs = {name: input_of(nodes[0], log, whole=whole) for name, nodes in job.sources.items()}
        self._past = Preparation(job, log, Path(setup.folder), self._inputs, setup.pages)
        self._description: Description | None = None
        self._base = self._setup = setup
        self._plans = PlanReader(log, job.name)
        self._stop = StopFile(setup.folder)
        self._query: StreamingQuery | None = None
        self._error: MillstreamError | None = None  # of the driver's own part of an epoch

    def begin(self, wishes: Wishes) -> None:
        """Compare it with what it was, and settle what can be settled without running."""
        self._settle_on(self._past.begin(wishes))

    def _settle_on(self, now: Description) -> None:
        """Go by a description: the setup follows from it."""
        self._description = now
        self._setup = self._base._replace(
            run=now.run,
            pages=now.pages,
            depth=now.depth,
            flow=digest_of(self.job),
            first=now.first,
            checkpoint=str(self._past.checkpoint(now)),
            rebuild=now.target if now.target >= 0 else None,
            kinds=((now.first + 1, "import"),) if now.phase == "importing" else (),
            dropped=now.dropped,
        )

    def start(self, spark: SparkSession, pause: Pause) -> None:
        """Start the query; before that, have states go where they belong now."""
        before = self._description
        goal = None if before is None else self._past.moves_to(before)
        if before is not None and goal is not None:
            before, epoch = self._past.export(before)
            nothing = tuple((name, ()) for name in self._inputs)
            self._query_for(spark, self._setup._replace(bounds=nothing, kinds=((epoch, "export"),)))
            self.wait_for(epoch, pause)
            self.halt()
            self.wait_for_edge(pause)
            self.stop()
            self._settle_on(self._past.arrive(before, goal, epoch))
        self._query_for(spark, self._setup)

    def finish(self, spark: SparkSession, pause: Pause, closes: tuple[str, ...]) -> None:
        """Close some steps: one epoch in which they give what they have left over."""
        self.stop()
        newest = self._plans.newest()
        epoch = (newest.epoch if newest is not None else self._setup.first) + 1
        self._setup = self._setup._replace(kinds=((epoch, "finish"),), closes=closes)
        self._query_for(spark, self._setup)
        self.wait_for(epoch, pause)

    def _query_for(self, spark: SparkSession, setup: Setup) -> None:
        self._stop.clear()
        name = f"millstream {self.job.name}"
        source = type(name, (JobSource,), {"setup": setup})
        spark.dataSource.register(source)
        frame = spark.readStream.format(name).load()
        spark.conf.set("spark.sql.shuffle.partitions", str(setup.pages))
        for level in range(1, (setup.depth or 0) + 1):
            stage = PageProcessor(setup, level)
            frame = frame.groupBy("page").transformWithState(stage, SCHEMA, "Append", "None")
        writer = frame.writeStream.foreachBatch(self._each_epoch).outputMode("append")
        self._query = writer.option("checkpointLocation", setup.checkpoint).queryName(self.job.name).start()

    def _each_epoch(self, frame: DataFrame, number: int) -> None:
        """Have the epoch done; what fails is told as it is here, before Spark has put its words around it.

        Spark is told in short: it searches in what it is told, and long texts make its stack overflow.
        """
        try:
            self._do_epoch(frame, self._setup.first + 1 + number)
        except Exception as error:  # noqa: BLE001 - whatever it is, `check` raises it
            self._error = error if isinstance(error, MillstreamError) else as_ours(error, self.job.name)
            raise RuntimeError("the epoch failed") from None

    def _do_epoch(self, frame: DataFrame, epoch: int) -> None:
        """Have an epoch done, and take what it reports."""
        begun = time.monotonic()
        counts: Counter[str] = Counter()
        for row in frame.collect():
            counts.update(header_of(bytes(row.parcel)).report or {})
        plan = self._plans.at(epoch)
        if plan is None:
            return
        self._publish(plan)
        self.epochs += 1
        records, seconds = counts.pop("in", 0), time.monotonic() - begun
        self._told(Epoch(self.job.name, plan.epoch, records, dict(counts), seconds))

    def _publish(self, plan: Plan) -> None:
        """The group's offsets, so that lag can be seen; an epoch that is done again says the same again.

        It is synced, and with it all that the epoch has written: what Spark takes for done must not be lost.
        """
        known = self._log.offsets(self.job.name)
        offsets = tuple(
            Offset(self.job.name, one.input, one.shard, known.get((one.input, one.shard)), one.end)
            for one in plan.positions
            if isinstance(self._inputs.get(one.input), StreamInput)
            and known.get((one.input, one.shard)) != one.end
        )
        durability = Durability.SYNCED if Can.SYNCED in self._log.can else Durability.WRITTEN
        self._log.commit(Commit(offsets=offsets), durability)

    # -- watching

    def check(self) -> None:
        """Raise what stopped the query."""
        if self._error is not None:
            raise self._error
        query = self._query
        if query is not None and not query.isActive:
            error = query.exception()
            if error is not None:
                raise as_ours(error, self.job.name) from None

    def rests(self) -> bool:
        """Whether there is nothing to read any more, and nothing on its way."""
        newest = self._plans.newest()
        if newest is not None and not self._is_done(newest):
            return False
        bounds = bounds_of(self._setup) or {}
        return at_rest(newest, self._inputs, bounds, self._log.clock.now_ms())

    def _is_done(self, plan: Plan) -> bool:
        """Whether Spark has committed an epoch, in this run or before."""
        return committed(Path(self._setup.checkpoint), plan.epoch - self._setup.first - 1)

    def wait_for(self, epoch: int, pause: Pause) -> None:
        """Until an epoch is done."""
        while (newest := self._plans.newest()) is None or newest.epoch < epoch or not self._is_done(newest):
            self.check()
            pause(0.02)

    # -- stopping

    def halt(self) -> None:
        """Have no further epoch planned."""
        self._stop.set()

    def wait_for_edge(self, pause: Pause) -> None:
        """Until no epoch is under way."""
        while (query := self._query) is not None and query.isActive:
            newest = self._plans.newest()
            if newest is None or self._is_done(newest):
                return
            pause(0.02)

    def stop(self) -> None:
        """Stop the query."""
        if self._query is not None:
            self._query.stop()
            self._query = None
