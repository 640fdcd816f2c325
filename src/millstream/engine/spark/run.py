"""Run a flow on Spark: its jobs side by side, until the end of its inputs or until it is told to stop."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from millstream.engine.spark.job import Epoch, JobRun
from millstream.engine.spark.prepare import Wishes, clear
from millstream.engine.spark.session import is_here, session
from millstream.engine.spark.setup import Setup
from millstream.engine.spark.ship import packed
from millstream.engine.stage.description import as_known, forget, known_jobs
from millstream.engine.stage.inputs import input_of
from millstream.engine.stage.job import Job, closings, jobs_of
from millstream.engine.stage.planlog import PlanReader
from millstream.engine.stage.rest import ends_of, positions_of
from millstream.errors import UsageError, shown
from millstream.flow.codecs import value_codec_of
from millstream.flow.flow import Flow
from millstream.flow.graph import Graph
from millstream.log.log import Log
from millstream.log.open import open as open_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGES_MAX = 4096
_LOOK_S = 0.05
_QUIET_LOOKS = 2

Why: TypeAlias = Literal["end", "stopped", "time", "epochs"]


class Summary(NamedTuple):
    """What a run did, and why it ended."""

    epochs: int
    records: int
    counts: Mapping[str, int]
    seconds: float
    why: Why


class Options(NamedTuple):
    """How a flow is run: see `Flow.run`."""

    until: Literal["end"] | float | None = None
    master: str = "local[*]"
    pages: int | None = None
    latency_ms: int = 500
    records_max: int | None = None  # of an epoch
    checkpoint: str | None = None
    finish: bool = False
    fresh: bool = False
    rebuild: bool = False
    accept_mixed: bool = False
    drop_state: Sequence[str] = ()
    skip: Sequence[tuple[str, int, int]] = ()
    max_epochs: int | None = None
    verbose: bool = False
    settings: Mapping[str, str] = {}
    on_epoch: Callable[[Epoch], None] | None = None


def run(flow: Flow, url: str, **options: Any) -> Summary:
    """Run a flow on a log, which Spark's workers open by its URL."""
    try:
        chosen = Options(**options)
    except TypeError as error:
        raise UsageError(f"run: {error}; the options are {', '.join(Options._fields)}") from None
    _check(url, chosen)
    with open_log(url) as log:
        return _Run(flow, log, url, chosen).run()


class _Run:
    """One call of `run`."""

    def __init__(self, flow: Flow, log: Log, url: str, options: Options) -> None:
        self._graph = flow.build(streams=log.streams())
        self._log = log
        self._url = url
        self._options = options
        self._pages = options.pages or default_pages(options.master)
        self._stopping = Event()
        self._counts: Counter[str] = Counter()
        self._epochs = self._records = 0

    def run(self) -> Summary:
        begun = time.monotonic()
        options = self._options
        if options.fresh:
            clear(self._log, [*self._graph.own_streams, *self._graph.dead_letters])
        make_streams(self._log, self._graph, self._pages)
        wishes = Wishes(options.fresh, options.rebuild, options.accept_mixed, tuple(options.drop_state))
        known = known_jobs(self._log, self._graph.name)
        jobs, gone = as_known(jobs_of(self._graph), {} if options.fresh else known, options.drop_state)
        forget(self._log, known.keys() - {job.name for job in jobs} if options.fresh else gone)
        runs = [JobRun(job, self._log, self._setup(job), self._told) for job in jobs]
        steps = [step for one in known.values() for step in one.steps]
        for step in options.drop_state:
            if step not in steps:
                there = ", ".join(map(repr, steps)) or "no steps"
                raise UsageError(f"drop_state names {shown(step)}: there are states of {there}")
        for one in runs:
            one.begin(wishes)
        with ExitStack() as stack:
            stack.enter_context(_signals(self._stopping))
            name = f"millstream {self._graph.name}"
            spark = session(name, master=options.master, verbose=options.verbose, settings=options.settings)
            for one in runs:
                stack.callback(one.stop)
                one.start(spark, self._pause)
            why = self._wait(runs, begun)
            if options.finish and why == "end":
                why = self._finish(runs, spark, begun)
        return Summary(self._epochs, self._records, dict(self._counts), time.monotonic() - begun, why)

    def _setup(self, job: Job) -> Setup:
        chosen = self._options.checkpoint
        folder = Path(chosen) if chosen else default_checkpoint(self._url, self._graph)
        return Setup(
            job=packed(job),
            url=self._url,
            pages=self._pages,
            tasks=self._pages,
            run=1,
            flow="",
            bounds=self._bounds(job),
            skip=tuple(self._options.skip),
            latency_ms=self._options.latency_ms,
            records_max=self._options.records_max,
            folder=str(folder / job.name),
            checkpoint="",
            here=is_here(self._options.master),
        )

    def _bounds(self, job: Job) -> tuple[tuple[str, tuple[tuple[int, int], ...]], ...] | None:
        """The ends of what comes from outside, as they are now; None: there is no end."""
        if self._options.until != "end":
            return None
        now, own = self._log.clock.now_ms(), self._graph.own_streams
        outside = {name: nodes[0] for name, nodes in job.sources.items() if name not in own}
        inputs = {name: input_of(node, self._log, whole=True) for name, node in outside.items()}
        done = None if self._options.fresh else PlanReader(self._log, job.name).newest()
        ends = ends_of(positions_of(done, inputs, now), inputs, {}, now)
        return tuple(
            (name, tuple((shard, end) for (one, shard), end in ends.items() if one == name))
            for name in inputs
        )

    def _told(self, epoch: Epoch) -> None:
        self._epochs += 1
        self._records += epoch.records
        self._counts.update(epoch.counts)
        if self._options.on_epoch is not None:
            self._options.on_epoch(epoch)

    def _wait(self, runs: list[JobRun], begun: float) -> Why:
        """Until there is a reason to stop; then every job is at the edge of an epoch."""
        quiet = 0
        why: Why | None = None
        while why is None:
            for one in runs:
                one.check()
            why = self._reason(runs, begun)
            if why is None and self._options.until == "end":
                quiet = quiet + 1 if all(one.rests() for one in runs) else 0
                if quiet >= _QUIET_LOOKS:
                    return "end"
        for one in runs:
            one.halt()
        for one in runs:
            one.wait_for_edge(self._pause)
        return why

    def _reason(self, runs: list[JobRun], begun: float) -> Why | None:
        until, most = self._options.until, self._options.max_epochs
        if self._stopping.wait(_LOOK_S):
            return "stopped"
        if isinstance(until, float | int) and time.monotonic() - begun > until:
            return "time"
        if most is not None and any(one.epochs >= most for one in runs):
            return "epochs"
        return None

    def _finish(self, runs: list[JobRun], spark: SparkSession, begun: float) -> Why:
        """Close steps from the top down, some of a job at a time; what comes of it is done first."""
        why: Why = "end"
        owners = {one.job: one for one in runs}
        for job, steps in closings(list(owners)):
            if why == "end":
                owners[job].finish(spark, self._pause, steps)
                why = self._wait(runs, begun)
        return why

    def _pause(self, seconds: float) -> None:
        """Wait a little; a second wish to stop comes through."""
        if self._stopping.wait(seconds):
            Event().wait(seconds)


def make_streams(log: Log, graph: Graph, shards: int) -> None:
    """Make the streams that a flow writes, where they are not there yet."""
    there = set(log.streams())
    for stream, sink in graph.own_streams.items():
        if stream not in there:
            log.create(stream, shards=shards, codec=value_codec_of(sink).name, exist_ok=True)
    for stream in graph.dead_letters - there:
        log.create(stream, codec="json", exist_ok=True)


def default_pages(master: str) -> int:
    """A page for each core of this machine; on a cluster, eight."""
    if not master.startswith("local"):
        return 8
    inside = master.partition("[")[2].rstrip("]").partition(",")[0]
    return max(2, int(inside) if inside.isdecimal() else os.cpu_count() or 2)


def default_checkpoint(url: str, graph: Graph) -> Path:
    """Beside the log."""
    return Path(f"{url.partition(':')[2]}.jobs", graph.name).absolute()


def _check(url: str, options: Options) -> None:
    until = options.until
    if str(url).partition(":")[0] == "memory":
        raise UsageError(
            "a 'memory:' log is gone from one process to the next, and Spark has several: run on a 'file:' "
            "log, or use millstream.testing.run, which needs no Spark"
        )
    if until is not None and until != "end" and not (isinstance(until, float | int) and until > 0):
        raise UsageError(f"until={shown(until)}: expected 'end', a number of seconds, or None for ever")
    if options.pages is not None and not 1 <= options.pages <= PAGES_MAX:
        raise UsageError(f"pages={shown(options.pages)}: expected 1 to {PAGES_MAX}")
    if options.records_max is not None and options.records_max < 1:
        raise UsageError(f"records_max={shown(options.records_max)}: expected how many, 1 or more")
    if options.latency_ms < 1:
        raise UsageError(f"latency_ms={shown(options.latency_ms)}: expected milliseconds, 1 or more")
    if options.finish and until != "end":
        raise UsageError("finish=True closes a run at its end: say until='end' too")


@contextmanager
def _signals(stopping: Event) -> Iterator[None]:
    """Ctrl-C and SIGTERM stop the run at the edge of an epoch; a second one stops it at once."""

    def stop(number: int, frame: object) -> None:
        del number, frame
        if stopping.is_set():
            raise KeyboardInterrupt
        stopping.set()

    before = {}
    with suppress(ValueError):  # only the main thread can be told of signals
        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
