"""`millstream check`: what is wrong with a flow, all at once, or what it would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from millstream.cli.arguments import FILE, NAME, VERBOSE
from millstream.cli.told import told

if TYPE_CHECKING:
    from millstream.engine.stage.job import Job


def check(
    file: FILE,
    log: Annotated[
        str | None,
        typer.Argument(metavar="[LOG]", envvar="MILLSTREAM_LOG", help="The log whose streams it reads."),
    ] = None,
    flow: NAME = None,
    verbose: VERBOSE = False,
) -> None:
    """Tell all that is wrong with a flow, each thing with its line; with a log, missing streams too."""
    with told(Console(stderr=True), verbose=verbose):
        from millstream.cli.flow_file import flow_in
        from millstream.engine.stage.job import jobs_of
        from millstream.log.open import open as open_log

        found = flow_in(file, flow)
        if log is None:
            graph = found.build()
        else:
            with open_log(log, upkeep=False) as opened:
                graph = found.build(streams=opened.streams())
        console = Console(highlight=False)
        jobs = jobs_of(graph)
        console.print(f"flow '{graph.name}' is right: {len(graph.nodes)} nodes, {_some(len(jobs), 'job')}")
        for job in jobs:
            reads, writes = ", ".join(sorted(job.sources)), ", ".join(_written(job))
            how = _some(job.depth, "regrouping") if job.depth else "no regrouping"
            console.print(f"  {job.name}: reads {reads}; writes {writes}; {how}", soft_wrap=True)


def _written(job: Job) -> list[str]:
    return sorted({stream for level in range(job.depth + 1) for stream in job.streams_at(level)})


def _some(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
