"""What a person sees of a run: a table that is drawn again and again, or lines where there is no terminal.

A thread looks a few times a second: at the lag in the log, and whether somebody pressed Ctrl-C, which only
wishes that the run ends at the edge of an epoch.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from millstream.cli.progress import EpochLike, Progress
from millstream.errors import MillstreamError
from millstream.log.log import Log

LINE_S = 3.0
_LOOK_S = 0.25

STARTING = "no epoch yet: Spark takes some seconds to start"
NOTHING = "no epoch yet: there is nothing to read; Ctrl-C ends it"
STOPPING = "stopping at the edge of this epoch; Ctrl-C again stops at once"


class View:
    """Shows a run while it lasts."""

    def __init__(
        self, console: Console, title: str, progress: Progress, reads: dict[str, list[str]], log: Log
    ) -> None:
        """`reads`: the streams of the log that each job reads."""
        self._console = console
        self._title = title
        self._progress = progress
        self._reads = reads
        self._log = log
        self._begun = time.monotonic()
        self._said = 0.0
        self._shown: object = None
        self._over = threading.Event()
        self.stopping = False

    def told(self, epoch: EpochLike) -> None:
        """An epoch is over."""
        self._progress.add(epoch, time.monotonic())

    @contextmanager
    def shown(self, *, live: bool) -> Iterator[None]:
        """Show it, while in here."""
        spinner = Spinner("dots")
        with _interrupts() as pressed:
            looking = threading.Thread(target=self._look, args=(pressed, live), daemon=True)
            try:
                if live:
                    draw = lambda: self._drawn(spinner)  # noqa: E731 - it is handed over, not called
                    with Live(
                        get_renderable=draw, console=self._console, refresh_per_second=8, transient=True
                    ):
                        looking.start()
                        yield
                else:
                    self._console.print(f"{self._title}: {STARTING}", soft_wrap=True)
                    looking.start()
                    yield
            finally:
                self._over.set()
                looking.join()

    def _look(self, pressed: Callable[[], bool], live: bool) -> None:
        while not self._over.wait(_LOOK_S):
            with suppress(MillstreamError):  # the run itself will say it
                self._progress.lags = self.lags()
            if pressed() and not self.stopping:
                self.stopping = True
                if not live:
                    self._console.print(STOPPING)
            if not live:
                self._print_lines()

    def _print_lines(self) -> None:
        now = time.monotonic()
        state = self._progress.epochs, dict(self._progress.lags)
        if now - self._said < LINE_S or not self._progress.epochs or state == self._shown:
            return
        self._said, self._shown = now, state
        for line in self._progress.lines(now):
            self._console.print(f"{now - self._begun:5.0f} s  {line}", soft_wrap=True)

    def _drawn(self, spinner: Spinner) -> RenderableType:
        now = time.monotonic()
        seconds = int(now - self._begun)
        title = Text(self._title, style="bold cyan", no_wrap=True, overflow="ellipsis")
        clock = f"{seconds // 60}:{seconds % 60:02}"
        if self.stopping:
            state = STOPPING
        elif self._progress.epochs:
            state = "Ctrl-C stops at the edge of an epoch"
        else:
            lags = self._progress.lags.values()
            state = NOTHING if lags and all(lag == 0 for lag in lags) else STARTING
        spinner.update(text=Text(f"{clock}  {state}", style="yellow" if self.stopping else "dim"))
        return Group(title, self._progress.table(now), spinner)

    def lags(self) -> dict[str, int | None]:
        """How many records each job has still to read; None: it reads none of the log's streams."""
        return {job: self._lag(job, streams) for job, streams in self._reads.items()}

    def _lag(self, job: str, streams: Sequence[str]) -> int | None:
        if not streams:
            return None
        known = self._log.offsets(job)
        return sum(
            max(0, end - known.get((stream, shard), first))
            for stream in streams
            for shard, (first, end) in enumerate(self._log.ends(stream))
        )


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Tell whether a signal came, whoever handles it: Python writes the number of each into a pipe."""
    here, there = os.pipe()
    os.set_blocking(here, False)
    os.set_blocking(there, False)

    def pressed() -> bool:
        with suppress(BlockingIOError):
            return any(number in (signal.SIGINT, signal.SIGTERM) for number in os.read(here, 64))
        return False

    before = None
    with suppress(ValueError):  # only the main thread may ask
        before = signal.set_wakeup_fd(there, warn_on_full_buffer=False)
    try:
        yield pressed
    finally:
        if before is not None:
            signal.set_wakeup_fd(before)
        os.close(here)
        os.close(there)
