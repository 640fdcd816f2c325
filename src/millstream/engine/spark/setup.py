"""What the parts of a job on Spark are told: the same for the planner, the source's tasks and the pages."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from millstream.engine.spark.ship import unpacked
from millstream.engine.stage.job import Job
from millstream.engine.stage.plan import Kind
from millstream.engine.stage.rest import Bounds
from millstream.engine.stage.task import Worker
from millstream.log.log import Log
from millstream.log.open import open as open_log


class Setup(NamedTuple):
    """One job of one run."""

    job: bytes  # packed
    url: str
    pages: int
    tasks: int  # that read at the same time
    run: int
    flow: str  # digest of the description
    bounds: tuple[tuple[str, tuple[tuple[int, int], ...]], ...] | None
    latency_ms: int
    records_max: int | None  # of an epoch
    folder: str  # of the job, on the driver's machine
    checkpoint: str  # Spark's, in there or on a file system that the whole cluster has
    here: bool = False  # all of Spark is on one machine
    kinds: tuple[tuple[int, Kind], ...] = ()  # epochs of another kind
    closes: tuple[str, ...] = ()  # the steps that an epoch of the kind "finish" closes
    first: int = -1  # the epoch before the first one of this checkpoint
    depth: int | None = None  # of the checkpoint, where that is not the job's
    rebuild: int | None = None
    skip: tuple[tuple[str, int, int], ...] = ()
    dropped: tuple[str, ...] = ()  # steps whose states do not come along


def freight_of(setup: Setup) -> str | None:
    """The folder for large parcels; None: they travel."""
    return str(Path(setup.folder, "parcels")) if setup.here else None


def bounds_of(setup: Setup) -> Bounds | None:
    """How far inputs are read, by input and shard; None: there is no end."""
    return None if setup.bounds is None else {name: dict(ends) for name, ends in setup.bounds}


@lru_cache(maxsize=8)
def log_at(url: str) -> Log:
    """The log, opened once in each process that Spark has."""
    return open_log(url)


def job_of(setup: Setup) -> Job:
    """The job, made once in each process."""
    return unpacked(setup.job)


_WORKERS: dict[Setup, Worker] = {}


def worker_of(setup: Setup) -> Worker:
    """The worker of this process: what it remembers outlives the epochs."""
    found = _WORKERS.get(setup)
    if found is None:
        found = _WORKERS[setup] = Worker(
            job_of(setup),
            log_at(setup.url),
            setup.pages,
            whole=setup.bounds is not None,
            depth=setup.depth,
            skip=setup.skip,
            dropped=setup.dropped,
        )
    return found
