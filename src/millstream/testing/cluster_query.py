"""A query of a simulated cluster: one job, epoch by epoch, as Spark does it.

Of each epoch: its plan is stored, its offset is logged, its tasks are done level by level, each with its
commit to the log and then its state, and the epoch is committed. Before and after each the driver may be
killed; what is started then goes on from what was kept, which is all that it is given.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from millstream.engine.stage.inputs import input_of
from millstream.engine.stage.job import Job
from millstream.engine.stage.pace import Pace
from millstream.engine.stage.plan import Plan
from millstream.engine.stage.planlog import PlanLog
from millstream.engine.stage.planner import Planner
from millstream.engine.stage.rest import Bounds
from millstream.engine.stage.sending import Sent
from millstream.errors import Damaged
from millstream.log.log import Log
from millstream.testing.cluster_disk import Checkpoint
from millstream.testing.cluster_faults import Chaos
from millstream.testing.cluster_task import Task, Workers, batches_of

RUN = 1


class DrawnPace(Pace):
    """Epochs of a size that is drawn; without faults, of any size."""

    def __init__(self, chaos: Chaos, name: str, most: int | None) -> None:
        """Draw from there; `most` None: all that there is."""
        super().__init__()
        self._chaos, self._name, self._most = chaos, name, most

    def fitting(self, record_bytes: float) -> int:
        """How many records the next epoch may have."""
        if self._most is None:
            return super().fitting(record_bytes)
        return 1 + self._chaos.pick(f"{self._name} size", self._most)


class Query:
    """One job, from one start of the driver to its end."""

    def __init__(
        self, job: Job, log: Log, kept: Checkpoint, chaos: Chaos, workers: Workers, pages: int
    ) -> None:
        """Go on from what was kept."""
        self.job = job
        self.kept = kept
        self.workers = workers
        self._log = log
        self._chaos = chaos
        self._pages = pages
        self._planner: Planner | None = None

    def plan_with(self, bounds: Bounds, *, whole: bool, epoch_max: int | None) -> None:
        """Start the planner: it takes the plan log over."""
        inputs = {
            name: input_of(nodes[0], self._log, whole=whole) for name, nodes in self.job.sources.items()
        }
        plans = PlanLog(self._log, self.job.name)
        pace = DrawnPace(self._chaos, self.job.name, epoch_max)
        self._planner = Planner(inputs, plans, self._log.clock, run=RUN, flow="", bounds=bounds, pace=pace)
        self._plans = plans

    def epoch(self, closes: Sequence[str] = ()) -> Iterator[None]:
        """One epoch, step by step; none if there is nothing to do. `closes`: steps that come to their end."""
        epoch, kept, chaos = self.kept.epoch, self.kept, self._chaos
        name = f"{self.job.name} {epoch}"
        plan = self._logged(epoch) if epoch in kept.offsets else self._planned(epoch, name, closes)
        if plan is None:
            return
        yield
        sent: list[Sent] = []
        pieces = chaos.shuffled(f"{name} pieces", plan.ranges)
        tasks = batches_of(pieces, 1 + chaos.pick(f"{name} tasks", 3))
        for number, task in enumerate(tasks):
            sent += self._run(Task(f"{name} read {number}", plan, task, beats=not number))
            yield
        for level in range(1, self.job.depth + 1):
            by_page: dict[int, list[bytes]] = defaultdict(list)
            for page, data in chaos.shuffled(f"{name} level {level}", sent):
                by_page[page].append(data)
            sent = []
            for page in chaos.shuffled(f"{name} pages {level}", sorted(by_page)):
                state = kept.before(level, page, epoch)
                task_name = f"{name} page {level}.{page}"
                parcels = tuple(by_page[page])
                sent += self._run(Task(task_name, plan, level=level, page=page, parcels=parcels, state=state))
                yield
        chaos.crash(f"{name} commit", "before epoch committed")
        kept.commits.add(epoch)
        kept.closed.update(plan.closes)
        chaos.crash(f"{name} commit", "after epoch committed")
        yield

    def _logged(self, epoch: int) -> Plan:
        """The plan of an epoch that was begun before."""
        plan = self._plans.at(epoch)
        if plan is None or plan.digest != self.kept.offsets[epoch]:
            raise Damaged(f"job '{self.job.name}': epoch {epoch} of the checkpoint was not planned so")
        return plan

    def _planned(self, epoch: int, name: str, closes: Sequence[str]) -> Plan | None:
        """The plan of a new epoch, and its entry in the log of offsets."""
        chaos, planner = self._chaos, self._planner
        if planner is None:
            raise AssertionError("the query was not started")
        chaos.crash(f"{name} plan", "before plan stored")
        plan = planner.after(epoch - 1, "finish" if closes else "records", closes)
        if plan is None:
            return None
        chaos.crash(f"{name} plan", "after plan stored")
        self.kept.offsets[epoch] = plan.digest
        chaos.crash(f"{name} offset", "after offset logged")
        planner.committed(epoch - 1)
        chaos.fired["epochs"] += 1
        return plan

    def _run(self, task: Task) -> list[Sent]:
        done = self.workers.run(task)
        chaos, name = self._chaos, task.name
        if task.page >= 0:
            chaos.crash(f"{name} state", "before state committed")
            self.kept.commit(task.level, task.page, task.plan.epoch, done.state)
            chaos.crash(f"{name} state", "after state committed")
        chaos.crash(f"{name} done", "after a task")
        return done.sent
