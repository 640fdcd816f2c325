"""What upkeep has to say: how far it has come, and what it found.

>>> Finding("checksum of the batch does not match", stream="orders").lost
0
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec


class Step(msgspec.Struct, frozen=True):
    """How far a piece of upkeep has come: `done` of `total` in the step it is at."""

    step: str
    done: int
    total: int


Report: TypeAlias = Callable[[Step], None]


class Finding(msgspec.Struct, frozen=True):
    """Something found by `verify` or `repair`; `lost` counts the seqs that are gone with it."""

    what: str
    stream: str | None = None
    shard: int | None = None
    segment: str | None = None
    position: int | None = None
    first: int | None = None
    next: int | None = None
    lost: int = 0
