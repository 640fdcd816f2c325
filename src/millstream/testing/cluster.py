"""A cluster in one process: the real stage runtime, under a driver that does what Spark does, and fails.

One seed is one run. Tasks fail and are tried again, run twice at once, are left to themselves and commit
late; the driver is killed before and after each of its steps and goes on from what was kept; the newest
entries of its logs are lost; pages move between workers; streams are compacted meanwhile; time passes.

>>> import millstream
>>> from millstream.flow import Flow
>>> flow = Flow("words")
>>> flow.source("lines", value=str).flat_map(str.split).group_by(str.lower, key=str).count().sink("counts")
>>> with millstream.open("memory:") as log:
...     log.create("lines")
...     _ = log.append("lines", b"to be or not to be")
...     cluster = Cluster(flow, log, seed=3, faults=0.1)
...     cluster.run()
...     sorted((record.key, record.value) for record in log.consumer("counts", until="end"))
[(b'be', b'2'), (b'not', b'1'), (b'or', b'1'), (b'to', b'2')]
>>> len(cluster.schedule) > 0
True
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from millstream.clock import ManualClock
from millstream.engine.stage.inputs import input_of
from millstream.engine.stage.job import Job, closings, jobs_of
from millstream.engine.stage.recording import Recorder
from millstream.errors import UsageError
from millstream.flow.flow import Flow
from millstream.flow.graph import Graph
from millstream.flow.node import Source, Ticks
from millstream.log.can import Can
from millstream.log.commit import Commit
from millstream.log.log import Log
from millstream.testing.cluster_disk import Checkpoint
from millstream.testing.cluster_faults import Chaos, Crash, Schedule
from millstream.testing.cluster_query import Query
from millstream.testing.cluster_task import Workers

EPOCH_RECORDS = 6  # of an epoch at most, where faults are wanted: so that there are many
PAUSE_MS = 5_000


class Cluster:
    """Runs a flow on a log, with faults."""

    def __init__(
        self,
        flow: Flow | Graph,
        log: Log,
        pages: int = 4,
        *,
        seed: int = 0,
        faults: float | Schedule = 0.0,
        recorder: Recorder | None = None,
        shards: int | None = None,
        epoch_records: int | None = None,
    ) -> None:
        """Make the streams that the flow writes and that are not there, each of `shards`.

        `faults`: how likely one is at each place where there could be one, or which there are: the
        `schedule` of another run. `epoch_records`: how many an epoch has at most.
        `recorder`: is told of the order that was taken.
        """
        self._graph = flow if isinstance(flow, Graph) else flow.build()
        self._log = log
        self._pages = pages
        self._recorder = recorder
        self._chaos = Chaos(seed, faults)
        self._arriving: list[Commit] = []
        self._live = False
        self._epoch_records = EPOCH_RECORDS if epoch_records is None and faults else epoch_records
        written = {*self._graph.own_streams, *self._graph.dead_letters}
        for stream in sorted(written.difference(log.streams())):
            log.create(stream, shards=shards or pages)
        self._jobs = jobs_of(self._graph)
        self._kept = {job.name: Checkpoint() for job in self._jobs}
        self._ends: dict[str, dict[str, dict[int, int]]] = {}
        self._zombies: list[Workers] = []
        self._queries: list[Query] = []

    @property
    def faults(self) -> Counter[str]:
        """What happened, and how often."""
        return self._chaos.fired

    @property
    def schedule(self) -> dict[str, str]:
        """The faults that there were, by their places: `faults=` of another cluster has just them."""
        return dict(self._chaos.schedule)

    @property
    def jobs(self) -> list[Job]:
        """The jobs that the flow is cut into."""
        return list(self._jobs)

    def run(self, *, finish: bool = False, seconds: float = 0, arriving: Iterable[Commit] = ()) -> None:
        """Until there is nothing more to do; with `finish`, what steps have left over comes out then.

        So many seconds pass on the log's clock, if it is a `ManualClock`: clocks tick meanwhile.
        `arriving`: what is written to the log while it runs; without it, inputs end where they end now.
        """
        clock = self._log.clock
        self._arriving = list(arriving)
        self._live = bool(self._arriving)
        until = clock.now_ms() + round(seconds * 1_000)
        self._ends = {job.name: self._bounds(job, round(seconds * 1_000)) for job in self._jobs}
        self._start()
        while True:
            self._rest()
            if not self._arrive(due=True) and not self._pass_time(until):
                break
        for job, steps in closings(self._jobs) if finish else ():
            while not self._kept[job.name].closed.issuperset(steps):
                self._rest(job, steps)
            self._rest()
        while any(workers.zombies for workers in self._zombies):
            self._wake()

    # -- the driver

    def _start(self) -> None:
        """Start the driver, after it was killed too."""
        queries = []
        for job in self._jobs:
            workers = Workers(job, self._log, self._pages, self._chaos, self._recorder, whole=not self._live)
            self._zombies.append(workers)
            query = Query(job, self._log, self._kept[job.name], self._chaos, workers, self._pages)
            query.plan_with(self._ends[job.name], whole=not self._live, epoch_max=self._epoch_records)
            queries.append(query)
        self._zombies = [one for one in self._zombies if one.zombies or one in self._zombies[-len(queries) :]]
        self._queries = queries

    def _rest(self, job: Job | None = None, closes: Sequence[str] = ()) -> None:
        """Do epochs until there is nothing to do; or only one, of a job whose steps it closes."""
        while True:
            chosen = [query for query in self._queries if job is None or query.job is job]
            try:
                if not self._round([query.epoch(closes) for query in chosen]):
                    return
            except Crash:
                self._lose()
                self._start()
            if job is not None and self._kept[job.name].closed.issuperset(closes):
                return

    def _round(self, epochs: Sequence[Iterator[None]]) -> bool:
        """One epoch of each, side by side; False if none had anything to do."""
        moved = False
        running = list(epochs)
        while running:
            epoch = running[self._chaos.pick("next", len(running))]
            try:
                next(epoch)
            except StopIteration:
                running.remove(epoch)
            else:
                moved = True
                self._meanwhile()
        return moved

    def _lose(self) -> None:
        """What a power cut takes back of the driver's logs."""
        for name, kept in self._kept.items():
            lost = self._chaos.at(f"{name} lost", "commits lost", "offsets and commits lost")
            if lost:
                kept.lose_newest(1 + self._chaos.pick(f"{name} how many", 3), offsets=lost != "commits lost")

    # -- what goes on beside it

    def _meanwhile(self) -> None:
        """What may happen at any moment."""
        chaos = self._chaos
        self._arrive(due=False)
        if any(one.zombies for one in self._zombies) and chaos.at("zombie", "zombie commits late"):
            self._wake()
        if Can.UPKEEP in self._log.can or self._log.scheme == "memory":
            if chaos.at("upkeep", "stream compacted"):
                self._log.compact()
            if chaos.at("upkeep", "retention"):
                self._log.retain()
        if isinstance(self._log.clock, ManualClock) and chaos.at("clock", "time passes"):
            self._log.clock.advance(chaos.pick("pause", PAUSE_MS) / 1_000)

    def _wake(self) -> None:
        next(one for one in self._zombies if one.zombies).wake_zombie()

    def _arrive(self, *, due: bool) -> bool:
        """Let the next records arrive, if it is time."""
        if not self._arriving or not (due or self._chaos.pick("arrival", 4) == 0):
            return False
        self._log.commit(self._arriving.pop(0))
        self.faults["records arrived meanwhile"] += not due
        return True

    def _pass_time(self, until: int) -> bool:
        """Let the clock go on to where it stops; False if it is there."""
        clock = self._log.clock
        left = until - clock.now_ms()
        if left <= 0:
            return False
        if not isinstance(clock, ManualClock):
            raise UsageError("seconds= needs a log whose clock is a ManualClock")
        clock.advance(min(left, 1 + self._chaos.pick("pause", PAUSE_MS)) / 1_000)
        return True

    def _bounds(self, job: Job, passing_ms: int) -> dict[str, dict[int, int]]:
        """Up to where inputs from outside are read."""
        found = {}
        for name, nodes in job.sources.items():
            if self._is_bounded(nodes[0]):
                one = input_of(nodes[0], self._log, whole=not self._live)
                found[name] = one.ends({}, self._log.clock.now_ms() + passing_ms)
        return found

    def _is_bounded(self, node: Source) -> bool:
        if isinstance(node.origin, Ticks):
            return True
        return node.name not in self._graph.own_streams and not self._live
