"""The other processes of a benchmark: each does one job, told and answering in lines.

The benchmark starts one with `Worker`, which runs this module as a program.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow.compute as pc

import millstream
from bench.payload import one_record

LAST = b"last"  # the value of the record after which a tail ends


class Worker:
    """A process that does a job; by the time it is made, it is ready."""

    def __init__(self, job: str, *arguments: str) -> None:
        """Start it, and wait until it has said that it is ready."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bench.worker", job, *arguments],
            cwd=Path(__file__).parent.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("a worker without pipes")
        self.lines_in, self.lines_out = self.process.stdin, self.process.stdout
        self.answer()

    @property
    def cpu_seconds(self) -> float:
        """The processor time it has used."""
        return time.clock_gettime(~self.process.pid << 3 | 2)  # what clock_getcpuclockid(3) makes

    def tell(self, text: str) -> None:
        """Send it a line."""
        self.lines_in.write(text + "\n")
        self.lines_in.flush()

    def answer(self) -> Any:  # noqa: ANN401 - each job has an answer of its own
        """The next thing it says."""
        line = self.lines_out.readline()
        if not line:
            raise RuntimeError(f"a worker has died: exit code {self.process.wait()}")
        return json.loads(line)

    def __enter__(self) -> Self:
        """The worker."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        """Let it end: no more lines come."""
        if kind is not None:
            self.process.kill()
        self.process.communicate()


# -- the jobs


def commits(url: str) -> None:
    """Told `start seconds`: from that moment on commit single records for so long; say how many."""
    with millstream.open(url) as log:
        commit = one_record(log)
        for _ in range(100):
            commit()
        say("ready")
        for line in sys.stdin:
            start, seconds = map(float, line.split())
            while time.monotonic() < start:
                pass
            done = 0
            while time.monotonic() < start + seconds:
                done += commit()
            say(done)


def tail(url: str) -> None:
    """Wait for records that carry the time they were committed at; at the end say how late each came (ms)."""
    with millstream.open(url) as log:
        say("ready")
        late = []
        for record in log.consumer("bench"):
            now = time.monotonic_ns()
            if record.value == LAST:
                break
            late.append((now - int(record.value)) / 1e6)
        say(late)


def stream(url: str) -> None:
    """Read all there is, touching each value; say the bytes, the seconds and the peak of memory in MB."""
    with millstream.open(url) as log:
        say("ready")
        start = time.perf_counter()
        size = peak = 0
        for batch in batches(log):
            size += pc.sum(pc.binary_length(batch.column("value"))).as_py()
            peak = max(peak, anonymous_kb())
        say([size, time.perf_counter() - start, peak / 1024])


def batches(log: millstream.Log) -> Iterator[Any]:
    """The Arrow batches of the stream, from its beginning to its end."""
    [(seq, end)] = log.ends("bench")
    while seq < end:
        found = log.read("bench", 0, seq)
        yield from found.batches
        seq = found.next_seq


def anonymous_kb() -> int:
    """The memory of this process that is its own: no file behind it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    raise RuntimeError("the system does not tell RssAnon")


def say(answer: object) -> None:
    """Answer in one line."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


JOBS: dict[str, Callable[[str], None]] = {"commits": commits, "tail": tail, "stream": stream}

if __name__ == "__main__":
    JOBS[sys.argv[1]](sys.argv[2])
