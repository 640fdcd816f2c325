"""Errors as a person reads them: one message, an exit code, and Python's lines only with --verbose.

>>> from millstream.errors import WorldError
>>> [code_of(error) for error in (UsageError("no such flow"), WorldError("the disk is full"), ValueError())]
[2, 1, 1]
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile

import typer
from rich.console import Console
from rich.text import Text

from millstream.errors import MillstreamError, StepFailed, UsageError, WrongType

FAILED = 1
USAGE = 2
INTERRUPTED = 130  # as a shell says it of a program that Ctrl-C ended


@contextmanager
def told(console: Console, *, verbose: bool) -> Iterator[None]:
    """Have what is raised in here shown, and end the program with its code."""
    try:
        yield
    except MillstreamError as error:
        _show(console, str(error), verbose=verbose)
        raise typer.Exit(code_of(error)) from None
    except KeyboardInterrupt:
        console.print(Text("interrupted at once: an epoch under way is done again at the next start"))
        raise typer.Exit(INTERRUPTED) from None
    except typer.Exit:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told in words
        hint = "" if verbose else " (--verbose shows where)"
        _show(console, f"{type(error).__name__}: {_first_lines(str(error))}{hint}", verbose=verbose)
        raise typer.Exit(FAILED) from None


def code_of(error: Exception) -> int:
    """Whether the command was wrong, or what it started failed."""
    ran = isinstance(error, StepFailed | WrongType)
    return USAGE if isinstance(error, UsageError) and not ran else FAILED


def _show(console: Console, message: str, *, verbose: bool) -> None:
    if verbose:
        console.print(Text(traceback.format_exc()), soft_wrap=True)
    text = Text.assemble(("error: ", "bold red"), message)
    console.print(text, soft_wrap=not console.is_terminal)


def _first_lines(text: str) -> str:
    """What is said before the lines that tell where in Java it happened."""
    return " ".join(takewhile(lambda line: not line.startswith("at "), map(str.strip, text.splitlines())))
