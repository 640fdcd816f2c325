"""The plan log: every plan of a job, kept durably before anything of it is done, in a stream of the log.

So an epoch that is done again is done by the same plan, whatever else was lost; and of two planners of one
job the older one is refused.

>>> from millstream.log.open import open
>>> with open("memory:") as log:
...     plans = PlanLog(log, "shop")
...     plans.store(Plan(run=1, epoch=0, clock=5, flow="f"))
...     PlanLog(log, "shop").at(0).clock
5
"""

from __future__ import annotations

from collections.abc import Mapping

from millstream.engine.stage.plan import Plan, decode_plan, encode_plan
from millstream.log.batch import Limits
from millstream.log.can import Can
from millstream.log.commit import Append, Commit, Durability, Fence
from millstream.log.group import Place
from millstream.log.log import Log
from millstream.names import short_name

KEPT = 200  # epochs that were committed: more than Spark keeps of its own


class PlanLog:
    """The plans of one job."""

    def __init__(self, log: Log, job: str) -> None:
        """Take it over: who had it before can store nothing any more."""
        self.job = job
        self.stream = plans_of(job)
        self._job = job
        self.log = log
        self._durability = Durability.SYNCED if Can.SYNCED in log.can else Durability.WRITTEN
        log.create(self.stream, codec="json", exist_ok=True)
        self._run = log.take_over(self.stream)
        self._plans = {plan.epoch: plan for plan in PlanReader(log, job).new()}

    @property
    def last(self) -> Plan | None:
        """The newest."""
        return self._plans[max(self._plans)] if self._plans else None

    def at(self, epoch: int) -> Plan | None:
        """The plan of an epoch, if it is known."""
        return self._plans.get(epoch)

    def store(self, plan: Plan) -> None:
        """Keep a plan, durably. `Fenced`: another has taken the job over."""
        value = encode_plan(plan)
        row = (plan.clock, b"%d" % plan.epoch, value, None)
        fence = Fence(self.stream, self._run, plan.epoch, plan.digest)
        self.log.commit(Commit((Append(self.stream, 0, [row]),), fence=fence), self._durability)
        self._plans[plan.epoch] = plan

    def pin(self, seqs: Mapping[Place, int]) -> None:
        """Have the log keep what the job reads, from these seqs on, as it is."""
        self.log.pin(self._job, seqs)

    def committed(self, epoch: int) -> None:
        """Forget what is so old that nobody asks for it again."""
        old = [one for one in self._plans if one <= epoch - KEPT]
        if len(old) >= KEPT:
            for one in old:
                del self._plans[one]
            first, end = self.log.ends(self.stream)[0]
            self.log.trim(self.stream, 0, max(first, end - len(self._plans)))


class PlanReader:
    """The plans of a job, for who only looks."""

    def __init__(self, log: Log, job: str) -> None:
        """None was read yet."""
        self._log = log
        self._stream = plans_of(job)
        self._seq = 0
        self._known: dict[int, Plan] = {}

    def newest(self) -> Plan | None:
        """The newest plan that there is now."""
        self._look()
        return next(reversed(self._known.values()), None)

    def at(self, epoch: int) -> Plan | None:
        """The plan of an epoch, if it is one of the newest."""
        self._look()
        return self._known.get(epoch)

    def _look(self) -> None:
        for plan in self.new():
            self._known[plan.epoch] = plan
        for epoch in list(self._known)[:-KEPT]:
            del self._known[epoch]

    def new(self) -> list[Plan]:
        """Those that came since the last call, oldest first."""
        if self._stream not in self._log.streams(self._stream):
            return []
        found: list[Plan] = []
        first, end = self._log.ends(self._stream)[0]
        self._seq = max(self._seq, first)
        while self._seq < end:
            batch = self._log.read(self._stream, 0, self._seq, Limits(records=1_000))
            found += [decode_plan(record.value) for record in batch.records()]
            self._seq = batch.next_seq
        return found


def plans_of(job: str) -> str:
    """The stream that a job's plans are in."""
    return short_name(f"_plans.{job}")
