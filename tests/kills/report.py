"""A process's report: events as lines of JSON, each written by one call, so that a kill tears none.

>>> decoded(encoded(Started()))
[Started()]
"""

from __future__ import annotations

import os
from pathlib import Path
from threading import Lock

import msgspec

from tests.kills.history import Event, Started

_SUFFIX = ".jsonl"


class Report:
    """The file in which a process says what happened, as soon as it has."""

    def __init__(self, folder: Path, process: str) -> None:
        """Begin it."""
        self._fd = os.open(folder / f"{process}{_SUFFIX}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._lock = Lock()

    def tell(self, *events: Event) -> None:
        """Add events, in one write."""
        if events:
            with self._lock:
                os.write(self._fd, encoded(*events))


def encoded(*events: Event) -> bytes:
    """Events as lines."""
    return b"".join(msgspec.json.encode(event) + b"\n" for event in events)


def decoded(lines: bytes) -> list[Event]:
    """The events of whole lines; the last one may be torn."""
    return [_DECODER.decode(line) for line in lines.splitlines(keepends=True) if line.endswith(b"\n")]


def has_begun(folder: Path, process: str) -> bool:
    """Whether a process has reported anything yet."""
    path = folder / f"{process}{_SUFFIX}"
    return path.exists() and path.stat().st_size > 0


def reports(folder: Path) -> dict[str, list[Event]]:
    """What every process has reported."""
    return {path.stem: decoded(path.read_bytes()) for path in sorted(folder.glob(f"*{_SUFFIX}"))}


__all__ = ["Report", "Started", "decoded", "encoded", "has_begun", "reports"]
_DECODER = msgspec.json.Decoder(Event)
