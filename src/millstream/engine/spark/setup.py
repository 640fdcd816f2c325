"""What the parts of a job on Spark are told: the same for the planner, the source's tasks and the pages."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import NamedTuple

from millstream.engine.spark.ship import unpacked
from millstream.engine.stage.job import Job
from millstream.engine.stage.plan import Kind
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
    bounds: dict[str, dict[int, int]] | None
    latency_ms: int
    folder: str = ""  # on the driver's machine: where the checkpoint is
    kind: Kind = "records"


@lru_cache(maxsize=8)
def log_at(url: str) -> Log:
    """The log, opened once in each process that Spark has."""
    return open_log(url)


def job_of(setup: Setup) -> Job:
    """The job, made once in each process."""
    return unpacked(setup.job)


_WORKERS: dict[tuple[bytes, str, int, bool], Worker] = {}


def worker_of(setup: Setup) -> Worker:
    """The worker of this process: what it remembers outlives the epochs."""
    key = hashlib.sha256(setup.job).digest(), setup.url, setup.pages, setup.bounds is not None
    if key not in _WORKERS:
        bounded = setup.bounds is not None
        _WORKERS[key] = Worker(job_of(setup), log_at(setup.url), setup.pages, whole=bounded)
    return _WORKERS[key]
