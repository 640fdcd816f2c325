"""What `millstream run` can be told."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

VARIABLE = "MILLSTREAM_LOG"
_WHERE, _HOW, _AGAIN = "Where, and until when", "How", "Starting again"

LOG = Annotated[
    str | None, typer.Argument(metavar="LOG", envvar=VARIABLE, help="The log it runs on, as in file:shop.")
]
UNTIL = Annotated[
    str | None,
    typer.Option(
        metavar="end|TIME",
        help="Stop at the end of what the inputs have now, or after a time like 30s. Otherwise it runs until "
        "Ctrl-C.",
        rich_help_panel=_WHERE,
    ),
]
FINISH = Annotated[
    bool, typer.Option("--finish", help="At the end, close what steps hold open.", rich_help_panel=_WHERE)
]
MAX_EPOCHS = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Stop after so many epochs.", rich_help_panel=_WHERE)
]
MASTER = Annotated[str, typer.Option(metavar="URL", help="Where Spark is.", rich_help_panel=_WHERE)]
PAGES = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=4096,
        metavar="N",
        help="Into how many parts states are divided: one for each core does.",
        rich_help_panel=_HOW,
    ),
]
LATENCY = Annotated[str, typer.Option(metavar="TIME", help="What an epoch aims at.", rich_help_panel=_HOW)]
CHECKPOINT = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="The folder for what Spark keeps; beside the log.", rich_help_panel=_HOW
    ),
]
FRESH = Annotated[
    bool, typer.Option("--fresh", help="Begin anew: states and outputs cleared.", rich_help_panel=_AGAIN)
]
REBUILD = Annotated[
    bool,
    typer.Option(
        "--rebuild", help="The checkpoint was lost: make it again from the inputs.", rich_help_panel=_AGAIN
    ),
]
SKIP = Annotated[
    list[str] | None,
    typer.Option(
        metavar="STREAM/SHARD/SEQ", help="Leave out a record; can be repeated.", rich_help_panel=_AGAIN
    ),
]
DROP_STATE = Annotated[
    list[str] | None,
    typer.Option(metavar="STEP", help="Forget a step's states; can be repeated.", rich_help_panel=_AGAIN),
]
ACCEPT_MIXED = Annotated[
    bool,
    typer.Option(
        "--accept-mixed",
        help="Do an epoch that an older version of the flow planned with this one.",
        rich_help_panel=_AGAIN,
    ),
]
