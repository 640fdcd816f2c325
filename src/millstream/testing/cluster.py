"""A cluster in one process: the real stage runtime, under a driver that does what Spark does.

>>> import millstream
>>> from millstream.flow import Flow
>>> flow = Flow("words")
>>> flow.source("lines", value=str).flat_map(str.split).group_by(str.lower, key=str).count().sink("counts")
>>> with millstream.open("memory:") as log:
...     log.create("lines")
...     _ = log.append("lines", b"to be or not to be")
...     Cluster(flow, log).run()
...     sorted((record.key, record.value) for record in log.consumer("counts", until="end"))
[(b'be', b'2'), (b'not', b'1'), (b'or', b'1'), (b'to', b'2')]
"""

from __future__ import annotations

from collections import defaultdict

from millstream.engine.stage.inputs import input_of
from millstream.engine.stage.job import Job, jobs_of
from millstream.engine.stage.plan import Kind, Plan
from millstream.engine.stage.planlog import PlanLog
from millstream.engine.stage.planner import Planner
from millstream.engine.stage.sending import Sent
from millstream.engine.stage.task import Worker, ticket_of
from millstream.flow.flow import Flow
from millstream.flow.graph import Graph
from millstream.log.log import Log


class Query:
    """One job of a flow, as it runs: what Spark has of it."""

    def __init__(self, job: Job, log: Log, pages: int, bounds: dict[str, dict[int, int]]) -> None:
        """Begin, or go on after the plans that the log has."""
        inputs = {name: input_of(nodes[0], log, whole=True) for name, nodes in job.sources.items()}
        self.job = job
        self.epoch = -1  # the last one that was committed
        self._worker = Worker(job, log, pages, whole=True)
        self._states: dict[tuple[int, int], dict[int, bytes]] = defaultdict(dict)  # by level and page
        self._planner = Planner(inputs, PlanLog(log, job.name), log.clock, run=1, flow="", bounds=bounds)

    def step(self, kind: Kind = "records") -> bool:
        """One epoch; False if there is nothing to do."""
        plan = self._planner.after(self.epoch, kind)
        if plan is None:
            return False
        self._do(plan)
        self.epoch = plan.epoch
        return True

    def _do(self, plan: Plan) -> None:
        sent = list(self._worker.read(plan, plan.ranges, beats=True))
        for level in range(1, self.job.depth + 1):
            by_page: dict[int, list[bytes]] = defaultdict(list)
            for page, data in sent:
                by_page[page].append(data)
            sent = [one for page, parcels in by_page.items() for one in self._page(level, page, parcels)]

    def _page(self, level: int, page: int, parcels: list[bytes]) -> list[Sent]:
        store = self._states[level, page]
        identity = self.job.name, level, page
        return list(self._worker.page(ticket_of(parcels), page, level, parcels, store, identity))


class Cluster:
    """Runs a flow on a log."""

    def __init__(self, flow: Flow | Graph, log: Log, pages: int = 4) -> None:
        """Read what the log has now of the streams from outside, and make those that the flow writes."""
        graph = flow if isinstance(flow, Graph) else flow.build()
        for stream in [*graph.own_streams, *graph.dead_letters]:
            log.create(stream, shards=pages, exist_ok=True)
        self.queries = []
        for job in jobs_of(graph):
            outside = {name: nodes[0] for name, nodes in job.sources.items() if name not in graph.own_streams}
            now = log.clock.now_ms()
            bounds = {name: input_of(node, log, whole=True).ends({}, now) for name, node in outside.items()}
            self.queries.append(Query(job, log, pages, bounds))

    def run(self, *, finish: bool = False) -> None:
        """Until there is nothing more to do; with `finish`, what steps have left over comes out then."""
        self._rest()
        if finish:
            for query in self.queries:
                query.step("finish")
                self._rest()

    def _rest(self) -> None:
        moved = True
        while moved:
            moved = False
            for query in self.queries:
                moved |= query.step()
