"""The source of a job on Spark: it plans epochs, and its tasks read and send parcels."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from threading import Event
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from millstream.engine.spark.freight import Freight, thrown_away
from millstream.engine.spark.garbage import set_aside
from millstream.engine.spark.pages import page_ids
from millstream.engine.spark.setup import Setup, bounds_of, freight_of, job_of, log_at, worker_of
from millstream.engine.spark.stop import StopFile
from millstream.engine.stage.inputs import StreamInput, input_of
from millstream.engine.stage.pace import Pace
from millstream.engine.stage.plan import Plan, decode_plan, encode_plan
from millstream.engine.stage.planlog import PlanLog
from millstream.engine.stage.planner import Planner
from millstream.errors import Damaged

SCHEMA = "page int, parcel binary"
_ARROW = pa.schema([pa.field("page", pa.int32()), pa.field("parcel", pa.binary())])
_BATCH_BYTES = 4 << 20
_WAIT_S = 0.25


class JobSource(DataSource):
    """A job's source; each job has a class of its own, which knows its setup."""

    setup: Setup

    @classmethod
    def name(cls) -> str:
        """As Spark knows it."""
        return cls.__name__

    def schema(self) -> str:
        """Parcels, and the page of each."""
        return SCHEMA

    def streamReader(self, schema: Any) -> JobReader:  # noqa: N802 - as Spark calls it
        """What plans and reads."""
        return JobReader(self.setup)


class Piece(InputPartition):
    """What one task reads: the plan, and which of its pieces."""

    def __init__(self, plan: bytes, pieces: tuple[int, ...], *, beats: bool) -> None:
        """Take what is needed to read, and no more: it is sent to a worker."""
        self.plan = plan
        self.pieces = pieces
        self.beats = beats


class JobReader(DataSourceStreamReader):
    """Plans in a process of its own, and reads in tasks."""

    def __init__(self, setup: Setup) -> None:
        """The planner is made when it is first asked."""
        self._setup = setup
        self._made: _Planning | None = None

    @property
    def _planning(self) -> _Planning:
        if self._made is None:
            self._made = _Planning(self._setup)
        return self._made

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - as Spark calls it
        """Before the first epoch; the same whenever it is asked."""
        return {"run": self._setup.run, "epoch": self._setup.first}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - as Spark calls it
        """The planner sets its own."""
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - as above
        """The plan of the next epoch, stored and durable; `start` if there is nothing to do."""
        return self._planning.after(start)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Piece]:
        """The plan's pieces, for as many tasks as there are cores."""
        return self._planning.pieces(end)

    def commit(self, end: dict[str, Any]) -> None:
        """An epoch is done with: what it read is needed no more."""
        self._planning.committed(end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Parcels of what a task reads."""
        if not isinstance(partition, Piece):
            raise TypeError(f"{partition!r} is no piece of ours")
        plan = decode_plan(partition.plan)
        ids = page_ids(self._setup.pages)
        pages: list[int] = []
        parcels: list[bytes] = []
        size = 0
        pieces = [plan.ranges[number] for number in partition.pieces]
        with Freight(freight_of(self._setup), plan.epoch) as freight:
            for page, data in worker_of(self._setup).read(plan, pieces, beats=partition.beats):
                pages.append(ids[page])
                parcels.append(freight.left(data))
                size += len(parcels[-1])
                if size > _BATCH_BYTES:
                    yield _batch(pages, parcels)
                    pages, parcels, size = [], [], 0
        if parcels:
            yield _batch(pages, parcels)
        set_aside()


class _Planning:
    """The planner of a job, and how its epochs went."""

    def __init__(self, setup: Setup) -> None:
        job, log = job_of(setup), log_at(setup.url)
        whole = setup.bounds is not None
        self._setup = setup
        self._stop = StopFile(setup.folder)
        self._log = log
        self._name = job.name
        self._inputs = {name: input_of(nodes[0], log, whole=whole) for name, nodes in job.sources.items()}
        self._plans = PlanLog(log, job.name)
        self._pace = Pace(setup.latency_ms, setup.records_max)
        self._planner = Planner(
            self._inputs,
            self._plans,
            log.clock,
            run=setup.run,
            flow=setup.flow,
            bounds=bounds_of(setup),
            pace=self._pace,
            rebuild=setup.rebuild,
        )
        self._freight = freight_of(setup)
        if self._freight is not None:
            thrown_away(self._freight)
        self._pause = Event()  # that never comes
        self._begun: tuple[Plan, float] | None = None
        self._kinds = dict(setup.kinds)

    def after(self, start: dict[str, Any]) -> dict[str, Any]:
        epoch = int(start["epoch"])
        first = epoch == self._setup.first  # there Spark runs a batch, whether there is anything or not
        if self._stop.is_set() and not first and self._plans.at(epoch + 1) is None:
            self._pause.wait(_WAIT_S)
            return start
        if self._begun is not None and self._begun[0].epoch == epoch:
            plan, begun = self._begun
            records = sum(piece.end - piece.start for piece in plan.ranges)
            self._pace.done(records, time.monotonic() - begun)
            self._begun = None
        kind = self._kinds.get(epoch + 1, "records")
        closes = self._setup.closes if kind == "finish" else ()
        plan_made = self._planner.after(epoch, kind, closes, first=first) or self._after_a_while(epoch)
        if plan_made is None:
            return start
        self._begun = plan_made, time.monotonic()
        return {
            "run": plan_made.run,
            "epoch": plan_made.epoch,
            "clock": plan_made.clock,
            "digest": plan_made.digest.hex(),
        }

    def _after_a_while(self, epoch: int) -> Plan | None:
        """Wait for something to do, so that Spark need not ask all the time."""
        ends = self._planner.ends()
        inputs = self._inputs
        streams = {place: end for place, end in ends.items() if isinstance(inputs[place[0]], StreamInput)}
        if streams:
            self._log.wait(streams, _WAIT_S)
        else:
            self._pause.wait(_WAIT_S)
        return self._planner.after(epoch)

    def pieces(self, end: dict[str, Any]) -> list[Piece]:
        plan = self._plans.at(int(end["epoch"]))
        if plan is None or plan.digest.hex() != end["digest"]:
            raise Damaged(
                f"job '{self._name}': epoch {end['epoch']} of Spark's checkpoint was not planned so: "
                "start the job again with rebuild"
            )
        data = encode_plan(plan)
        sizes = [(piece.end - piece.start, number) for number, piece in enumerate(plan.ranges)]
        sizes.sort(reverse=True)
        tasks: list[list[int]] = [[] for _ in range(max(1, min(self._setup.tasks, len(sizes))))]
        loads = [0] * len(tasks)
        for size, number in sizes:
            least = loads.index(min(loads))
            tasks[least].append(number)
            loads[least] += size
        return [Piece(data, tuple(sorted(task)), beats=not place) for place, task in enumerate(tasks)]

    def committed(self, end: dict[str, Any]) -> None:
        self._planner.committed(int(end["epoch"]))
        if self._freight is not None:
            thrown_away(self._freight, int(end["epoch"]))


def _batch(pages: list[int], parcels: list[bytes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array(pages, pa.int32()), pa.array(parcels, pa.binary())], schema=_ARROW
    )
