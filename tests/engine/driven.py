"""A driver of Spark in a process group of its own, to be killed with all that it has started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).parents[2]


class Driven:
    """`python -m tests.engine.shop` with some arguments."""

    def __init__(self, url: str, *arguments: str) -> None:
        """Start it."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.engine.shop", url, *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait(self, seconds: float) -> int | None:
        """Its exit code; None: it goes on."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def first_line(self) -> str:
        """What it says first: an epoch is over."""
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def children(self) -> list[int]:
        """The processes of its group but itself."""
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal() and int(folder.name) != self._process.pid:
                try:
                    group = os.getpgid(int(folder.name))
                except ProcessLookupError:
                    continue
                if group == self._process.pid:
                    found.append(int(folder.name))
        return found

    def kill(self) -> None:
        """Kill all of it at once."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self._process.wait(60)

    def errors(self) -> str:
        """What it said on stderr."""
        assert self._process.stderr is not None
        return self._process.stderr.read()

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        """Leave nothing running."""
        self.kill()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
