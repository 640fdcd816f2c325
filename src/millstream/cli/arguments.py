"""What several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

FILE = Annotated[Path, typer.Argument(metavar="FILE", help="The file that makes the flow.")]
NAME = Annotated[str | None, typer.Option("--flow", metavar="NAME", help="Which flow, if there are several.")]
VERBOSE = Annotated[bool, typer.Option("--verbose", help="Show all there is to see of an error.")]
