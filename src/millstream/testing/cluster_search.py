"""Many runs on a simulated cluster, and of one that goes wrong the few faults that it takes.

>>> from millstream.flow import Flow
>>> flow = Flow("sums")
>>> flow.source("orders", key=str, value=int).group_by_key().sum().sink("totals")
>>> simulate(flow, {"orders": [("ann", 1), ("bob", 2), ("ann", 3)]}, seed=7, faults=0.1).table("totals")
{'ann': 4, 'bob': 2}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from millstream.clock import ManualClock
from millstream.codec import codec_of
from millstream.engine.stage.recording import Recorder
from millstream.errors import MillstreamError
from millstream.flow.codecs import key_codec_of, value_codec_of
from millstream.flow.flow import Flow
from millstream.flow.graph import Graph
from millstream.flow.letter import Letter
from millstream.flow.node import FromStream
from millstream.log.commit import Append, Commit
from millstream.log.log import Log
from millstream.log.open import open as open_log
from millstream.log.stream import Cleanup
from millstream.testing.cluster import EPOCH_RECORDS, Cluster
from millstream.testing.cluster_faults import Schedule
from millstream.testing.inputs import Inputs, feeds_of
from millstream.testing.record import Out, hashable
from millstream.testing.result import Choice
from millstream.testing.run import streams_of

EPOCHS = 6  # there are more where records are few


class Simulated(msgspec.Struct, frozen=True):
    """What came of a run on a simulated cluster."""

    outputs: dict[str, list[Out]]
    faults: Counter[str]
    schedule: dict[str, str]
    choices: tuple[Choice, ...] = ()

    def per_key(self, stream: str) -> dict[Any, list[Any]]:
        """The values under each key, in order."""
        found: dict[Any, list[Any]] = {}
        for out in self.outputs[stream]:
            found.setdefault(hashable(out.key), []).append(out.value)
        return found

    def table(self, stream: str) -> dict[Any, Any]:
        """The latest value of each key; keys that were taken away are not there."""
        latest = {key: values[-1] for key, values in self.per_key(stream).items()}
        return {key: value for key, value in sorted(latest.items(), key=repr) if value is not None}


def simulate(
    flow: Flow | Graph,
    inputs: Inputs,
    *,
    pages: int = 3,
    seed: int = 0,
    faults: float | Schedule = 0.0,
    finish: bool = False,
    later: bool = False,
    record: bool = False,
) -> Simulated:
    """One run, on a new log in memory. `later`: half of the records arrive while it runs.

    `record`: have the choices that were made, as `millstream.testing.replays` wants them.
    """
    recorder = Recorder() if record else None
    graph = flow if isinstance(flow, Graph) else flow.build()
    with open_log("memory:", clock=ManualClock()) as log:
        commits = loading(graph, log, inputs)
        now = len(commits) - len(commits) // 2 if later else len(commits)
        for commit in commits[:now]:
            log.commit(commit)
        cluster = Cluster(
            graph,
            log,
            pages,
            seed=seed,
            faults=faults,
            shards=1,
            epoch_records=max(EPOCH_RECORDS, len(commits) // EPOCHS),
            recorder=recorder,
        )
        cluster.run(finish=finish, arriving=commits[now:])
        choices = [Choice(*one) for one in recorder.choices()] if recorder is not None else []
        return Simulated(outputs_of(graph, log), cluster.faults, cluster.schedule, tuple(choices))


def search(
    flow: Flow | Graph,
    inputs: Inputs,
    judge: Callable[[Simulated], str | None],
    *,
    seeds: Iterable[int],
    faults: float = 0.02,
    refusals: tuple[type[MillstreamError], ...] = (),
    **options: Any,
) -> Counter[str]:
    """A run for each seed; what `judge` says against one is raised, with a program that repeats it.

    `refusals`: errors by which a run may end, rather than go wrong in silence.
    """
    fired: Counter[str] = Counter()

    def wrong(seed: int, schedule: float | Schedule) -> tuple[str | None, Schedule]:
        try:
            found = simulate(flow, inputs, seed=seed, faults=schedule, **options)
        except refusals:
            fired["refused"] += 1
            return None, {}
        except MillstreamError as error:
            return f"{type(error).__name__}: {error}", getattr(error, "schedule", {})
        fired.update(found.faults)
        return judge(found), found.schedule

    for seed in seeds:
        why, schedule = wrong(seed, faults)
        if why is not None:
            smallest = smaller(schedule, lambda fewer, seed=seed: wrong(seed, fewer)[0] is not None)  # type: ignore[misc]
            raise AssertionError(program(wrong(seed, smallest)[0] or why, inputs, seed, smallest, options))
    return fired


def smaller(schedule: Schedule, fails: Callable[[Schedule], bool]) -> Schedule:
    """As few of these faults as it takes to fail."""
    left = dict(schedule)
    size = max(1, len(left) // 2)
    while size:
        places = list(left)
        for start in range(0, len(places), size):
            fewer = {place: left[place] for place in left if place not in places[start : start + size]}
            if len(fewer) < len(left) and fails(fewer):
                left = fewer
        size //= 2
    return left


def program(why: str, inputs: Inputs, seed: int, schedule: Schedule, options: Any) -> str:
    """A program that repeats a run, given the flow."""
    said = "".join(f", {name}={value!r}" for name, value in options.items())
    faults = "".join(f"    {place!r}: {kind!r},\n" for place, kind in schedule.items())
    return (
        f"{why}\n\n"
        "from millstream.testing import In, Poison\n"
        "from millstream.testing.cluster_search import simulate\n\n"
        f"inputs = {dict(inputs)!r}\n"
        f"faults = {{\n{faults}}}\n"
        f"found = simulate(flow, inputs, seed={seed}, faults=faults{said})\n"
    )


def loading(graph: Graph, log: Log, inputs: Inputs) -> list[Commit]:
    """Make the streams that a flow reads, and give what is to be written to them, record by record."""
    feeds = [feed for feed in feeds_of(graph, inputs) if isinstance(feed.source.origin, FromStream)]
    for name, node in graph.inputs.items():
        if isinstance(node.origin, FromStream):
            shards = max((feed.meta.shard for feed in feeds if feed.source is node), default=0) + 1
            log.create(name, shards=shards, cleanup=Cleanup.COMPACT)  # what is not pinned may go
    return [
        Commit(
            (
                Append(
                    feed.source.name,
                    feed.meta.shard,
                    [(feed.meta.timestamp, feed.meta.key_bytes, feed.data, None)],
                ),
            )
        )
        for feed in feeds
    ]


def outputs_of(graph: Graph, log: Log) -> dict[str, list[Out]]:
    """All that a flow has written, shard by shard."""
    found: dict[str, list[Out]] = {}
    for stream in streams_of(graph):
        sink = graph.own_streams.get(stream)
        keys = codec_of(str).decode if sink is None else key_codec_of(sink).decode
        values = codec_of(Letter).decode if sink is None else value_codec_of(sink).decode
        found[stream] = []
        for shard, (first, end) in enumerate(log.ends(stream)):
            seq = first
            while seq < end:
                batch = log.read(stream, shard, seq)
                for record in batch.records():
                    key = None if record.key is None else keys(record.key)
                    value = None if record.value is None else values(record.value)
                    found[stream].append(Out(key, value, record.timestamp))
                seq = batch.next_seq
    return found
