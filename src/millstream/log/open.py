"""Open a log by its URL, or repair it.

>>> with open("memory:") as log:
...     log.streams()
[]
>>> open("gopher:x")
Traceback (most recent call last):
millstream.errors.UnknownScheme: 'gopher:x' names no log: expected file:PATH or memory:
"""

from __future__ import annotations

import importlib
from typing import NamedTuple, Protocol

from millstream.clock import Clock, SystemClock
from millstream.errors import MissingExtra, UnknownScheme, shown
from millstream.log.finding import Finding, Report
from millstream.log.log import Log


class Scheme(NamedTuple):
    """A kind of log: how its URL looks, where its class is, and the extra that brings its packages."""

    form: str
    module: str
    name: str
    extra: str | None = None


class Kind(Protocol):
    """The class of a store, as it is used here."""

    def __call__(self, path: str, *, clock: Clock, upkeep: bool) -> Log:
        """Open the log at a path."""

    def repair(self, path: str, report: Report | None) -> list[Finding]:
        """Mend the log at a path."""


SCHEMES = {
    "file": Scheme("file:PATH", "millstream.log.file.log", "FileLog"),
    "memory": Scheme("memory:", "millstream.log.memory", "MemoryLog"),
}


def open(url: str, *, clock: Clock | None = None, upkeep: bool = True) -> Log:  # noqa: A001 - `millstream.open` reads well
    """The log at this URL: `file:PATH` (made if it is not there) or `memory:` (a new one, empty).

    `upkeep=False` turns off the small steps of upkeep that happen between commits.
    """
    kind, rest = _found(url)
    return kind(rest, clock=clock or SystemClock(), upkeep=upkeep)


def repair(url: str, *, report: Report | None = None) -> list[Finding]:
    """Mend a damaged log that nobody has open; gives what was wrong, nothing if nothing was.

    What cannot be brought back is said, with streams and seqs; damaged files and bytes are kept in the
    folder `damaged`. It may be killed at any moment and run again.
    """
    kind, rest = _found(url)
    return kind.repair(rest, report)


def _found(url: str) -> tuple[Kind, str]:
    """The class of a log, and where it is."""
    name, _, rest = str(url).partition(":")
    scheme = SCHEMES.get(name)
    if scheme is None or bool(rest) != scheme.form.endswith("PATH"):
        forms = " or ".join(scheme.form for scheme in SCHEMES.values())
        raise UnknownScheme(f"{shown(url)} names no log: expected {forms}")
    try:
        kind = getattr(importlib.import_module(scheme.module), scheme.name)
    except ModuleNotFoundError as error:
        if scheme.extra is None:
            raise
        raise MissingExtra(
            f"a '{name}:' log needs the package '{error.name}', which is not installed: "
            f"run pip install 'millstream[{scheme.extra}]'"
        ) from error
    return kind, rest
