"""`millstream graph`: a picture of a flow."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console

from millstream.cli.arguments import FILE, NAME, VERBOSE
from millstream.cli.told import told


class Form(StrEnum):
    """What the picture is for."""

    TEXT = "text"
    MERMAID = "mermaid"
    DOT = "dot"


def graph(
    file: FILE,
    form: Annotated[
        Form, typer.Option("--form", help="For a terminal, for Mermaid, or for Graphviz.")
    ] = Form.TEXT,
    flow: NAME = None,
    verbose: VERBOSE = False,
) -> None:
    """Draw a flow."""
    with told(Console(stderr=True), verbose=verbose):
        from millstream.cli.flow_file import flow_in

        typer.echo(flow_in(file, flow).graph(form.value))
