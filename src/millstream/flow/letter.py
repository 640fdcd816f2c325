"""A dead letter: a record that a step failed on, and why."""

from __future__ import annotations

from typing import Any

import msgspec


class Letter(msgspec.Struct, frozen=True):
    """What is written to a stream of dead letters, under the record's own key."""

    step: str
    error: str
    stream: str  # of the record
    shard: int
    seq: int
    value: Any  # as the step was given it, in plain form
