"""The stores that the contract is tried on: one entry each."""

import importlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import millstream
from millstream.log import Log
from millstream.log.can import Can
from millstream.log.open import SCHEMES
from tests.manual_clock import ManualClock


@dataclass(frozen=True)
class Store:
    """How a kind of log is opened by tests."""

    scheme: str
    url: str  # of the log in a directory, which it may name
    survives: bool  # what was committed is there when the log is opened again

    @property
    def can(self) -> frozenset[Can]:
        """What it can do."""
        scheme = SCHEMES[self.scheme]
        kind: type[Log] = getattr(importlib.import_module(scheme.module), scheme.name)
        return kind.can

    def open(self, directory: Path, clock: ManualClock | None = None) -> Log:
        """The log of a directory; upkeep only when a test asks for it."""
        return millstream.open(
            self.url.format(directory=directory), clock=clock or ManualClock(), upkeep=False
        )

    @contextmanager
    def new(self) -> Iterator[Log]:
        """A log that is empty, and gone afterwards; for each example of a property."""
        with tempfile.TemporaryDirectory() as directory, self.open(Path(directory)) as log:
            yield log


STORES = (
    Store("memory", "memory:", survives=False),
    Store("file", "file:{directory}/log", survives=True),
)
