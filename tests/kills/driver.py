"""The driver: starts the workers, kills them at random moments, and starts them again.

Between the kills some are only stopped for a while, longer than their lease, and some are replaced
while they are stopped: what they do when they go on must be refused.
"""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import millstream
from millstream import Log
from millstream.log import Cleanup, Limits
from tests.kills.history import Anomaly, Delivered, History, Kept, check
from tests.kills.report import has_begun, reports
from tests.kills.worker import FENCED, OUT, OUT_SHARDS, READ, TABLE, id_of, source_of

ROOT = Path(__file__).parent.parent.parent
PROGRAMS = {
    "once-1": "writer",
    "bulk-1": "writer",
    "direct-1": "writer",
    "least-1": "writer",
    "repeat-1": "reader",
    "repeat-2": "reader",
    "exactly-1": "reader",
    "exactly-2": "reader",
    "exactly-3": "reader",
    "keeper-1": "keeper",
}
EXACT = frozenset({"once-1", "bulk-1", "direct-1"})
KILL_EVERY_S = 0.5  # about, once all have begun
STOP_S = 2.0  # longer than a lease
WAIT_S = 120.0  # for whatever should take a few seconds


class Worker:
    """One name, and the process that has it now."""

    def __init__(self, folder: Path, name: str, seed: int) -> None:
        """Start the first one."""
        self.folder = folder
        self.name = name
        self.seed = seed
        self.run = 0
        self.replaced: list[subprocess.Popen[bytes]] = []  # who were, and should be fenced
        self.start()

    def start(self) -> None:
        """Start the next one."""
        self.run += 1
        program = f"tests.kills.{PROGRAMS[self.name]}"
        url = f"file:{self.folder}/log"
        told = [url, str(self.folder / "reports"), self.name, str(self.run), str(self.seed)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", program, *told], cwd=ROOT, stdin=subprocess.PIPE
        )
        self.pidfd = os.pidfd_open(self.process.pid)

    @property
    def has_begun(self) -> bool:
        """Whether the process has the log open by now."""
        return has_begun(self.folder / "reports", f"{self.name}.{self.run}")

    def await_begin(self, seconds: float = WAIT_S) -> bool:
        """Wait until it has begun; gives whether it has, and lives."""
        deadline = time.monotonic() + seconds
        while not self.has_begun and time.monotonic() < deadline:
            if self.wait(0.02) is not None:
                return False
        return self.has_begun

    def wait(self, seconds: float) -> int | None:
        """The exit code, if it ends in time."""
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        poll.poll(seconds * 1_000)
        return self.process.poll()

    def kill(self) -> None:
        """Kill it, if it is still there."""
        self.process.kill()
        ended(self.process)
        os.close(self.pidfd)

    def stop_for(self, seconds: float) -> int | None:
        """Let it do nothing for a while; gives its exit code, if it has ended."""
        self.process.send_signal(signal.SIGSTOP)
        code = self.wait(seconds)
        self.process.send_signal(signal.SIGCONT)
        return code

    def replace(self) -> None:
        """Start the next one while this one is stopped, unless it stops everybody; then it goes on."""
        old = self.process
        old.send_signal(signal.SIGSTOP)
        os.close(self.pidfd)
        self.start()
        self.await_begin(STOP_S)
        old.send_signal(signal.SIGCONT)
        self.replaced.append(old)

    def not_fenced(self) -> Iterator[Anomaly]:
        """Who was replaced, and did not end for that reason."""
        for old in self.replaced:
            try:
                old.wait(WAIT_S)
            except subprocess.TimeoutExpired:
                old.kill()
            code = ended(old)
            if code != FENCED:
                yield Anomaly("not fenced", f"{self.name}: exit code {code} after it was replaced")
        self.replaced.clear()


def ended(process: subprocess.Popen[bytes]) -> int:
    """The exit code of a process that ends."""
    code = process.wait()
    if process.stdin is not None:
        process.stdin.close()
    return code


class Outcome:
    """What a run has found, and what it has done."""

    def __init__(self, anomalies: list[Anomaly], counts: Counter[str]) -> None:
        """Keep both."""
        self.anomalies = anomalies
        self.counts = counts


def run(folder: Path, *, kills: int, seed: int) -> Outcome:
    """Write and read a new log below a folder, with so many kills."""
    (folder / "reports").mkdir(parents=True)
    chance = random.Random(seed)
    found: list[Anomaly] = []
    counts: Counter[str] = Counter()
    create(folder)
    with all_workers(folder, seed) as workers:
        while counts["kills"] < kills and not found:
            found += trouble(chance.choice(workers), chance, counts)
        found += stop(workers)
    found += judge(folder, counts)
    return Outcome(found, counts)


def create(folder: Path) -> None:
    """A log with the streams that the workers know."""
    with millstream.open(f"file:{folder}/log") as log:
        for stream, shards in READ.items():
            log.create(stream, shards=shards)
        log.create(OUT, shards=OUT_SHARDS)
        log.create(TABLE, cleanup=Cleanup.COMPACT)


@contextmanager
def all_workers(folder: Path, seed: int) -> Iterator[list[Worker]]:
    """All workers; none is left afterwards."""
    workers: list[Worker] = []
    try:
        workers.extend(Worker(folder, name, seed) for name in PROGRAMS)
        yield workers
    finally:
        for worker in workers:
            worker.kill()
            for old in worker.replaced:
                old.kill()
                ended(old)


def trouble(worker: Worker, chance: random.Random, counts: Counter[str]) -> Iterator[Anomaly]:
    """Kill a worker at some moment and start it again; or stop it for a while, or replace it."""
    # else it may still be opening the log
    if chance.random() < 0.9 and not worker.await_begin():
        yield Anomaly("died", f"{worker.name}.{worker.run}: exit code {worker.wait(0)} at its start")
        return
    code = worker.wait(chance.uniform(0, 2 * KILL_EVERY_S))
    what = chance.choices(["kills", "stops", "replacements"], [8, 1, 1])[0]
    if what == "replacements" and worker.name not in EXACT:
        what = "stops"
    counts[what] += code is None
    if code is None and what == "stops":
        code = worker.stop_for(STOP_S)
    elif code is None and what == "replacements":
        yield from worker.not_fenced()
        worker.replace()
    elif code is None:
        worker.kill()
        worker.start()
    if code is not None:
        yield Anomaly("died", f"{worker.name}.{worker.run}: exit code {code}")


def stop(workers: list[Worker]) -> Iterator[Anomaly]:
    """Tell the workers to stop, the writers first, so that the readers know what is all."""
    readers = [worker for worker in workers if PROGRAMS[worker.name] == "reader"]
    for some in ([worker for worker in workers if worker not in readers], readers):
        for worker in some:
            worker.await_begin()
            yield from worker.not_fenced()
            worker.process.send_signal(signal.SIGTERM)
        for worker in some:
            code = worker.wait(WAIT_S)
            if code != 0:
                yield Anomaly("died", f"{worker.name}.{worker.run}: exit code {code} when it was to stop")


def judge(folder: Path, counts: Counter[str]) -> list[Anomaly]:
    """Everything that is wrong with what the log holds in the end, and with what was reported."""
    with millstream.open(f"file:{folder}/log") as log:
        found = [Anomaly("damaged", str(finding)) for finding in log.verify()]
        history = history_of(folder, log)
    counts["records"] = sum(map(len, history.kept.values()))
    counts["outputs"] = sum(map(len, history.outputs.values()))
    owners = {
        (event.group, event.stream, event.shard, event.generation)
        for events in history.reports.values()
        for event in events
        if isinstance(event, Delivered)
    }
    counts["takeovers"] = len(owners) - len({owner[:3] for owner in owners})
    for events in history.reports.values():
        counts.update(type(event).__name__.lower() for event in events)
    return found + check(history)


def history_of(folder: Path, log: Log) -> History:
    """The reports, and what the log holds."""
    kept = {
        (stream, shard): [Kept(seq, id_of(value), key) for seq, key, value in _records(log, stream, shard)]
        for stream in [*READ, TABLE]
        for shard in range(log.settings(stream).shards)
    }
    outputs = {
        (OUT, shard): [source_of(value) for _, _, value in _records(log, OUT, shard)]
        for shard in range(OUT_SHARDS)
    }
    offsets = {
        (group, *place): seq for group in ("repeat", "exactly") for place, seq in log.offsets(group).items()
    }
    return History(
        reports=reports(folder / "reports"),
        kept=kept,
        outputs=outputs,
        offsets=offsets,
        exact=EXACT,
        once=frozenset({"exactly"}),
        repeat=frozenset({"repeat"}),
        compacted=frozenset({TABLE}),
    )


def _records(log: Log, stream: str, shard: int) -> Iterator[tuple[int, bytes | None, bytes]]:
    first, end = log.ends(stream)[shard]
    while first < end:
        batch = log.read(stream, shard, first, Limits(records=10_000))
        for record in batch.records():
            yield record.seq, record.key, record.value
        first = batch.next_seq
