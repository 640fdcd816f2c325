"""How far a run is: what its epochs told, job by job, as a table for a terminal or as lines.

>>> from types import SimpleNamespace
>>> progress = Progress("shop", ["shop.totals"], letters=set())
>>> counts = {"out totals": 40, "skipped parse": 2}
>>> progress.add(SimpleNamespace(job="shop.totals", epoch=0, records=42, counts=counts, seconds=2.0), now=9.0)
>>> progress.lags = {"shop.totals": 0}
>>> progress.lines(now=9.0)
['totals: epoch 0, 42 records, 21/s, lag 0, last epoch 2.0 s; out: totals 40; skipped: parse 2']
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

RATE_S = 10.0  # over how long a rate is told
_JOB_WIDTH = 24


class EpochLike(Protocol):
    """What is told of an epoch when it is over."""

    @property
    def job(self) -> str: ...  # noqa: D102 - as in the engine
    @property
    def epoch(self) -> int: ...  # noqa: D102
    @property
    def records(self) -> int: ...  # noqa: D102
    @property
    def counts(self) -> Mapping[str, int]: ...  # noqa: D102
    @property
    def seconds(self) -> float: ...  # noqa: D102


class Done(NamedTuple):
    """An epoch: from when to when, and how much it was."""

    begun: float
    ended: float
    records: int


@dataclass
class JobProgress:
    """One job."""

    name: str
    first: int | None = None  # the epoch that this run began with
    epoch: int | None = None
    records: int = 0
    seconds: float = 0.0  # of the last epoch
    recent: deque[Done] = field(default_factory=lambda: deque(maxlen=1_000))

    def add(self, epoch: EpochLike, now: float) -> None:
        """Count an epoch that is over."""
        self.first = epoch.epoch if self.first is None else self.first
        self.epoch, self.seconds = epoch.epoch, epoch.seconds
        self.records += epoch.records
        self.recent.append(Done(now - epoch.seconds, now, epoch.records))

    def rate(self, now: float) -> float:
        """Records a second, of late; nothing for a while makes it 0."""
        recent = [one for one in self.recent if one.ended > now - RATE_S]
        if not recent:
            return 0.0
        ended = recent[-1].ended
        waited = now - ended
        until = now if waited > 2 * self.seconds + 1 else ended
        return sum(one.records for one in recent) / max(until - recent[0].begun, 0.001)


class Progress:
    """A run, as far as it is known."""

    def __init__(self, flow: str, jobs: Sequence[str], letters: Collection[str]) -> None:
        """Nothing is done yet; `letters` are the streams that dead letters go to."""
        self.jobs = {name: JobProgress(name.removeprefix(f"{flow}.")) for name in jobs}
        self.lags: Mapping[str, int | None] = {}
        self.out: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self._letters = letters

    @property
    def epochs(self) -> int:
        """How many epochs are over, of all jobs."""
        return sum(len(job.recent) for job in self.jobs.values())

    def add(self, epoch: EpochLike, now: float) -> None:
        """Count an epoch that is over."""
        self.jobs[epoch.job].add(epoch, now)
        for what, count in epoch.counts.items():
            kind, _, name = what.partition(" ")
            if kind == "out":
                self.out[name] += count
            elif kind == "skipped":
                self.skipped[name] += count

    def table(self, now: float) -> RenderableType:
        """As a table: the jobs, and under it what came out."""
        jobs = Table(box=None, header_style="dim", padding=(0, 2, 0, 0), pad_edge=False)
        jobs.add_column("job", max_width=_JOB_WIDTH, overflow="ellipsis", no_wrap=True, style="bold")
        for title in ("epoch", "records", "a second", "lag", "last epoch"):
            jobs.add_column(title, justify="right", no_wrap=True)
        for name, job in self.jobs.items():
            lag = self.lags.get(name)
            jobs.add_row(
                job.name,
                "-" if job.epoch is None else f"{job.epoch:,}",
                f"{job.records:,}",
                f"{job.rate(now):,.0f}",
                Text("-" if lag is None else f"{lag:,}", "yellow" if lag else ""),
                "-" if job.epoch is None else f"{job.seconds:.2f} s",
            )
        return Group(jobs, *self.outputs())

    def outputs(self) -> list[Text]:
        """What came out so far, and what did not."""
        found = []
        sinks = {name: count for name, count in self.out.items() if name not in self._letters}
        letters = {name: self.out[name] for name in self._letters if self.out[name]}
        if sinks:
            found.append(_named("out", sinks, ""))
        if self.skipped:
            found.append(_named("skipped", self.skipped, "yellow"))
        if letters:
            found.append(_named("dead letters", letters, "yellow"))
        return found

    def lines(self, now: float) -> list[str]:
        """As plain lines, one for each job; what came out is said with the last one."""
        found = []
        for name, job in self.jobs.items():
            if job.epoch is not None:
                lag = self.lags.get(name)
                behind = "" if lag is None else f", lag {lag:,}"
                found.append(
                    f"{job.name}: epoch {job.epoch:,}, {job.records:,} records, {job.rate(now):,.0f}/s"
                    f"{behind}, last epoch {job.seconds:.1f} s"
                )
        outputs = "; ".join(text.plain.replace("  ", ": ", 1).replace("  ", ", ") for text in self.outputs())
        if found and outputs:
            found[-1] = f"{found[-1]}; {outputs}"
        return found


def _named(title: str, counts: Mapping[str, int], style: str) -> Text:
    text = Text(f"{title}  ", style="dim")
    parts = [Text.assemble((name, "bold"), (f" {count:,}", style)) for name, count in sorted(counts.items())]
    return text + Text("  ").join(parts)
