"""Tasks of a simulated cluster: tried on one of several workers, where much can go wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, cast

from millstream.engine.stage.job import Job
from millstream.engine.stage.plan import Plan, Range
from millstream.engine.stage.recording import Recorder
from millstream.engine.stage.sending import Sent
from millstream.engine.stage.task import Worker, ticket_of
from millstream.errors import MillstreamError
from millstream.log.commit import Commit, Durability, Receipt
from millstream.log.log import Log
from millstream.testing.cluster_disk import Attempt, CountingCache
from millstream.testing.cluster_faults import Chaos, Failed

WORKERS = 3
ATTEMPTS_MAX = 4  # then nothing more goes wrong with a task


@dataclass(frozen=True)
class Task:
    """What one task is given: pieces of inputs to read, or the parcels of a page and its state."""

    name: str
    plan: Plan
    pieces: tuple[Range, ...] = ()
    beats: bool = False
    level: int = 0
    page: int = -1  # -1: it reads
    parcels: tuple[bytes, ...] = ()
    state: dict[int, bytes] = field(default_factory=dict)


class Done(NamedTuple):
    """What came of a task."""

    sent: list[Sent]
    state: Attempt


class Seam:
    """A worker's log: what is to happen right before and after its commits can be said."""

    def __init__(self, log: Log) -> None:
        """A log, as it is."""
        self._log = log
        self.before: Callable[[], object] = _nothing
        self.after: Callable[[], object] = _nothing

    def __getattr__(self, name: str) -> Any:
        """Everything else is the log's."""
        return getattr(self._log, name)

    def commit(self, commit: Commit, durability: Durability | str = Durability.WRITTEN) -> Receipt:
        """See `Log.commit`."""
        self.before()
        receipt = self._log.commit(commit, durability)
        self.after()
        return receipt


class Workers:
    """The workers of one job: a task goes to any of them."""

    def __init__(
        self, job: Job, log: Log, pages: int, chaos: Chaos, recorder: Recorder | None, *, whole: bool
    ) -> None:
        """Each has a cache of its own."""
        self._new = partial(_worker, job, log, pages, chaos.fired, recorder, whole=whole)
        self._workers = [self._new() for _ in range(WORKERS)]
        self._chaos = chaos
        self._last: dict[tuple[int, int], int] = {}  # which worker had a page
        self.zombies: list[Task] = []

    def run(self, task: Task) -> Done:
        """Do a task, however often that takes."""
        for attempt in range(ATTEMPTS_MAX):
            number = self._chaos.pick(f"{task.name} worker", len(self._workers))
            if self._last.setdefault((task.level, task.page), number) != number:
                self._chaos.fired["page moved to another worker"] += task.page >= 0
                self._last[task.level, task.page] = number
            try:
                return self._attempt(task, number, careful=attempt == ATTEMPTS_MAX - 1)
            except Failed:
                self._workers[number] = self._new()
        raise AssertionError("the last attempt is careful")

    def _attempt(self, task: Task, number: int, *, careful: bool) -> Done:
        chaos, name = self._chaos, task.name
        if careful:
            return self._do(task, number)
        chaos.crash(f"{name} start", "before a task")
        if chaos.at(f"{name} zombie", "task left to itself"):
            self.zombies.append(task)
        twin = chaos.at(f"{name} twin", "task twice at once")
        other: list[Done] = []

        def before() -> None:
            chaos.crash(f"{name} sink", "before sink committed")
            if chaos.at(f"{name} before", "task fails before sink committed"):
                raise Failed
            if twin and not other:
                other.append(self._do(task, (number + 1) % len(self._workers)))

        def after() -> None:
            chaos.crash(f"{name} sink", "after sink committed")
            if chaos.at(f"{name} after", "task fails after sink committed"):
                raise Failed

        done = self._do(task, number, before, after)
        if twin and not other:
            other.append(self._do(task, (number + 1) % len(self._workers)))
        if chaos.at(f"{name} end", "task fails at its end"):
            raise Failed
        return other[0] if other and chaos.pick(f"{name} winner", 2) else done

    def _do(
        self,
        task: Task,
        number: int,
        before: Callable[[], object] | None = None,
        after: Callable[[], object] | None = None,
    ) -> Done:
        worker, seam = self._workers[number]
        seam.before, seam.after = before or _nothing, after or _nothing
        state = Attempt(task.state)
        try:
            if task.page < 0:
                return Done(list(worker.read(task.plan, task.pieces, beats=task.beats)), state)
            identity = worker.job.name, task.level, task.page
            ticket = ticket_of(task.parcels)
            sent = worker.page(ticket, task.page, task.level, task.parcels, state, identity)
            return Done(list(sent), state)
        finally:
            seam.before = seam.after = _nothing

    def wake_zombie(self) -> None:
        """A task that everybody has forgotten does what it was given, and what comes of it is not asked."""
        task = self.zombies.pop(0)
        try:
            self._do(task, self._chaos.pick(f"{task.name} zombie's worker", len(self._workers)))
        except MillstreamError as error:
            self._chaos.fired[f"zombie refused: {type(error).__name__}"] += 1
        else:
            self._chaos.fired["zombie changed nothing"] += 1


def _worker(
    job: Job, log: Log, pages: int, counts: Counter[str], recorder: Recorder | None, *, whole: bool
) -> tuple[Worker, Seam]:
    seam = Seam(log)
    worker = Worker(job, cast(Log, seam), pages, CountingCache(counts), whole=whole)
    worker.recorder = recorder
    return worker, seam


def batches_of(pieces: Sequence[Range], count: int) -> list[tuple[Range, ...]]:
    """Pieces for so many tasks; the first has one even if there is nothing to read."""
    return [tuple(pieces[start::count]) for start in range(max(1, min(count, len(pieces))))]


def _nothing() -> None:
    """Nothing happens."""
