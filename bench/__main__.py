"""Run a benchmark: `python -m bench NAME [--quick] [--json] [--only FIGURE,...] [--dir FOLDER]`."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.figure import Bar, Benchmark, Figure, Room
from bench.flow import FLOW
from bench.log import LOG
from bench.spark_ours import SPARK

BENCHMARKS = {"flow": FLOW, "log": LOG, "spark": SPARK}
WIDTH_MIN = 140  # of the table, where there is no terminal to ask


def main(arguments: Sequence[str] | None = None) -> None:
    """Do what the command line says."""
    asked = parsed(arguments)
    if asked.name is None:
        for name, benchmark in BENCHMARKS.items():
            Console().print(f"[bold]{name}[/]  {benchmark.says}\n  " + "\n  ".join(benchmark.names))
        return
    benchmark = BENCHMARKS[asked.name]
    only = set(asked.only.split(",")) if asked.only else set(benchmark.names)
    if unknown := only - set(benchmark.names):
        sys.exit(f"no figure {', '.join(sorted(unknown))}: there are {', '.join(benchmark.names)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was written goes away
    figures: list[Figure] = []
    try:
        with room(asked.dir, quick=asked.quick) as place:
            measure(benchmark, place, only, figures)
    finally:
        if asked.json:
            values = {figure.name: significant(figure.value) for figure in figures}
            sys.stdout.write(json.dumps(values, indent=2) + "\n")
        else:
            out = Console(highlight=False)
            out.width = max(out.width, WIDTH_MIN)
            out.print(table(benchmark, figures))


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure things side by side.")
    parser.add_argument("name", nargs="?", choices=BENCHMARKS, help="which benchmark; none: list them")
    parser.add_argument("--quick", action="store_true", help="shorter, and less exact")
    parser.add_argument("--json", action="store_true", help="print one JSON object of figures")
    parser.add_argument("--only", metavar="FIGURE,...", help="only these figures")
    parser.add_argument("--dir", type=Path, help="where to write; default: build/bench, here")
    return parser.parse_args(arguments)


class room:  # noqa: N801 - used as a function is
    """A temporary directory on the disk that is asked for, gone afterwards."""

    def __init__(self, folder: Path | None, *, quick: bool) -> None:
        self.parent = (folder or Path("build/bench")).absolute()
        self.quick = quick
        self.ours = not self.parent.exists()
        self.parent.mkdir(parents=True, exist_ok=True)
        kind = file_system(self.parent)
        if folder is None and kind == "tmpfs":
            sys.exit(f"{self.parent} is in memory (tmpfs): go to a disk, or name a folder with --dir")
        self.folder = tempfile.TemporaryDirectory(dir=self.parent)

    def __enter__(self) -> Room:
        """Where to write."""
        return Room(Path(self.folder.name), self.quick)

    def __exit__(self, *_: object) -> None:
        """Leave nothing."""
        self.folder.cleanup()
        if self.ours:
            with suppress(OSError):  # another benchmark is at work in it
                self.parent.rmdir()


def file_system(folder: Path) -> str:
    """The kind of file system that a folder is on, where the system tells."""
    device = folder.stat().st_dev
    numbers = f"{device >> 8 & 0xFFF}:{device & 0xFF | device >> 12 & 0xFFF00}"
    with suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            left, _, right = line.partition(" - ")
            if left.split()[2] == numbers:
                return right.split()[0]
    return "unknown"


def measure(benchmark: Benchmark, place: Room, only: set[str], figures: list[Figure]) -> None:
    """Take the measures that are asked for, and tell of each on stderr as it comes."""
    aside = Console(stderr=True, highlight=False, soft_wrap=True)
    for taken in benchmark.measures:
        if only.isdisjoint(taken.bars):
            continue
        aside.print(f"measuring {', '.join(taken.bars)} ...", style="dim")
        for figure in taken.take(place):
            if figure.name in only:
                figures.append(figure)
                aside.print(f"  {figure.name} {significant(figure.value)}")


def table(benchmark: Benchmark, figures: list[Figure]) -> Table:
    """The figures as people read them."""
    bars: dict[str, Bar | None] = {}
    for taken in benchmark.measures:
        bars |= taken.bars
    made = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("figure", "value", "bar", "", "ours", "beside"):
        made.add_column(heading, justify="right" if heading == "value" else "left")
    for figure in figures:
        bar = bars[figure.name]
        verdict = "" if bar is None else "[green]ok[/]" if bar.reached(figure.value) else "[bold red]short[/]"
        made.add_row(
            figure.name,
            f"{significant(figure.value):g}",
            "" if bar is None else str(bar),
            verdict,
            figure.ours,
            figure.theirs,
        )
    return made


def significant(value: float) -> float:
    """A number with the digits that mean something."""
    return float(f"{value:.3g}")


if __name__ == "__main__":
    main()
