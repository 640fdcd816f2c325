"""`millstream run`: run a flow on Spark, and show how far it is."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from millstream.cli import run_options as options
from millstream.cli.arguments import FILE, NAME, VERBOSE
from millstream.cli.duration import milliseconds
from millstream.cli.told import INTERRUPTED, told

if TYPE_CHECKING:
    from millstream.cli.progress import Progress
    from millstream.engine.spark import Summary
    from millstream.engine.stage.job import Job
    from millstream.flow.graph import Graph


def run(  # noqa: PLR0913, PLR0917 - a command's options are its function's arguments
    file: FILE,
    log: options.LOG = None,
    until: options.UNTIL = None,
    finish: options.FINISH = False,
    max_epochs: options.MAX_EPOCHS = None,
    master: options.MASTER = "local[*]",
    flow: NAME = None,
    pages: options.PAGES = None,
    latency: options.LATENCY = "500ms",
    checkpoint: options.CHECKPOINT = None,
    fresh: options.FRESH = False,
    rebuild: options.REBUILD = False,
    skip: options.SKIP = None,
    drop_state: options.DROP_STATE = None,
    accept_mixed: options.ACCEPT_MIXED = False,
    verbose: VERBOSE = False,
) -> None:
    """Run a flow on Spark, and show how far it is: each record counts once.

    It goes on where it was. Ctrl-C ends it at the edge of an epoch, a second Ctrl-C at once.
    """
    if log is None:
        raise typer.BadParameter(f"which log? Pass its URL, as in file:shop, or set {options.VARIABLE}")
    chosen = {
        "until": _until(until),
        "finish": finish,
        "max_epochs": max_epochs,
        "master": master,
        "pages": pages,
        "latency_ms": milliseconds(latency, "--latency"),
        "checkpoint": None if checkpoint is None else str(checkpoint),
        "fresh": fresh,
        "rebuild": rebuild,
        "skip": [_record(one) for one in skip or ()],
        "drop_state": drop_state or [],
        "accept_mixed": accept_mixed,
        "verbose": verbose,
    }
    if not verbose:
        _quieten_py4j()
    with told(Console(stderr=True), verbose=verbose):
        code = _run(file, flow, log, {name: value for name, value in chosen.items() if value})
    if code:
        raise typer.Exit(code)


def _run(file: Path, name: str | None, url: str, given: dict[str, Any]) -> int:
    """Run it, and give the exit code."""
    from millstream.cli.flow_file import flow_in
    from millstream.cli.progress import Progress
    from millstream.cli.view import View
    from millstream.engine.stage.job import jobs_of
    from millstream.log.open import open as open_log

    console = Console(highlight=False)
    flow = flow_in(file, name)
    with open_log(url, upkeep=False) as log:
        graph = flow.build(streams=log.streams())
        jobs = jobs_of(graph)
        progress = Progress(graph.name, [job.name for job in jobs], graph.dead_letters)
        reads = {job.name: _streams(job) for job in jobs}
        view = View(console, f"{graph.name} on {url}, {given['master']}", progress, reads, log)
        live = console.is_terminal and not given.get("verbose")
        with view.shown(live=live):
            summary = flow.run(url, on_epoch=view.told, **given)
        progress.lags = view.lags()
    _conclude(console, graph, progress, summary)
    return INTERRUPTED if summary.why == "stopped" else 0


def _quieten_py4j() -> None:
    """What connects Python with Spark logs a page when a run is stopped at once: nobody has asked for it."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    logging.getLogger().addFilter(lambda record: "py4j" not in record.pathname)


def _streams(job: Job) -> list[str]:
    """The streams of the log that a job reads."""
    return sorted({nodes[0].read_stream for nodes in job.sources.values() if nodes[0].read_stream})


def _conclude(console: Console, graph: Graph, progress: Progress, summary: Summary) -> None:
    """Say why it ended, and what it did."""
    rate = summary.records / max(summary.seconds, 0.001)
    console.print(f"[bold]{graph.name}[/]: {WHY[summary.why]}")
    console.print(
        f"{summary.records:,} records in {_some(summary.epochs, 'epoch')}, {summary.seconds:.1f} s "
        f"with Spark's start, {rate:,.0f} a second"
    )
    for line in progress.outputs():
        console.print(line)
    behind = sum(lag or 0 for lag in progress.lags.values())
    if behind:
        console.print(f"{behind:,} records are still to be read; the same command goes on from here")


WHY = {
    "end": "done, all that there was is read",
    "time": "the time is over; it ended at the edge of an epoch",
    "epochs": "the epochs asked for are done",
    "stopped": "interrupted; it ended at the edge of an epoch",
}


def _until(text: str | None) -> str | float | None:
    if text is None or text == "end":
        return text
    return milliseconds(text, "--until") / 1_000


def _record(text: str) -> tuple[str, int, int]:
    """A record's identity."""
    stream, _, rest = text.partition("/")
    shard, _, seq = rest.partition("/")
    if not (stream and shard.isdecimal() and seq.isdecimal()):
        raise typer.BadParameter(
            f"'{text}' names no record: expected STREAM/SHARD/SEQ, as in orders/0/17", param_hint="'--skip'"
        )
    return stream, int(shard), int(seq)


def _some(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
