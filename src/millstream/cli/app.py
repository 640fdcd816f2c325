"""The program `millstream`: its commands, each from a file of its own."""

from __future__ import annotations

import typer

from millstream.cli.check import check
from millstream.cli.graph import graph
from millstream.cli.run import run

app = typer.Typer(
    name="millstream",
    help="Streams: run, check and draw flows.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run")(run)
app.command("check")(check)
app.command("graph")(graph)


def main() -> None:
    """What the console script calls."""
    app(prog_name="millstream")
