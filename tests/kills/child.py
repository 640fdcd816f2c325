"""Small programs of one job each, for tests with a few processes: `python -m tests.kills.child JOB URL ...`.

Each says a line when it is ready, waits for a line, does its job, and says what came of it as JSON.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import millstream
from millstream import Append, Commit, Log
from millstream.log.file import log as file_log

ROOT = Path(__file__).parent.parent.parent
LARGE = b"." * 1_000


class Child:
    """A process that does a job, seen from the one that started it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Take a process with pipes."""
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.stdin: IO[str] = process.stdin
        self.stdout: IO[str] = process.stdout

    def answer(self) -> Any:  # noqa: ANN401 - each job has an answer of its own
        """What it says next."""
        return json.loads(self.stdout.readline())

    def is_silent(self, seconds: float) -> bool:
        """Whether it says nothing for a while."""
        poll = select.poll()  # not `select`, which knows no descriptor above 1,023
        poll.register(self.stdout, select.POLLIN)
        return not poll.poll(seconds * 1_000)

    def go(self) -> None:
        """Let it begin, or go on."""
        self.stdin.write("\n")
        self.stdin.flush()


@contextmanager
def child(job: str, url: str, *told: object) -> Iterator[Child]:
    """A process that is ready for its job; it is gone afterwards."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.kills.child", job, url, *map(str, told)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            started = Child(process)
            ready = started.answer()
            assert ready == "ready"
            yield started
        finally:
            process.kill()


def say(what: object) -> None:
    """A line for the one who started this process."""
    print(json.dumps(what), flush=True)


def write(log: Log, name: str, count: str) -> None:
    """Commits of one record each, to the shards in turn; says where each went."""
    shards = log.settings("s").shards
    places = []
    for number in range(int(count)):
        receipt = log.append("s", f"{name} {number}".encode(), shard=number % shards)
        places.append((receipt.placed[0].shard, receipt.placed[0].first))
    say(places)


def follow(log: Log, count: str) -> None:
    """Read until so many records were seen; says which."""
    seen = []
    with log.consumer("s") as consumer:
        for record in consumer:
            seen.append([record.shard, record.seq, record.value.decode()])
            if len(seen) == int(count):
                break
    say(seen)


def wait(log: Log, seconds: str) -> None:
    """Wait for a record, not looking unless it is woken; says whether there was one."""
    file_log._WAKE_MS = 3_600_000
    say(log.wait({("s", 0): log.ends("s")[0][1]}, float(seconds)))


def fork_and_die(log: Log) -> None:
    """Fork, and be killed in the middle of a change, while the fork lives on; it says its id."""
    assert isinstance(log, file_log.FileLog)
    with log._alone():
        fork = os.fork()
        if fork == 0:
            signal.pause()
            os._exit(0)
        say(fork)
        os.kill(os.getpid(), signal.SIGKILL)


def leave_segment(log: Log) -> None:
    """Write two large commits, the first of them folded, and be killed."""
    for _ in range(2):
        log.commit(Commit(records=(Append("s", 0, [(0, None, LARGE, None)] * 100),)))
        if log.describe("s").records == 100:
            log.merge()
    os.kill(os.getpid(), signal.SIGKILL)


JOBS: dict[str, Callable[..., None]] = {
    "write": write,
    "follow": follow,
    "wait": wait,
    "fork_and_die": fork_and_die,
    "leave_segment": leave_segment,
}


def main() -> None:
    """Do what is told."""
    job, url, *told = sys.argv[1:]
    file_log.FOLD_ENTRIES = 50
    with millstream.open(url) as log:
        say("ready")
        sys.stdin.readline()
        JOBS[job](log, *told)


if __name__ == "__main__":
    main()
