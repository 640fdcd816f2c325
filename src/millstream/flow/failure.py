"""What a step failed on: the error that a user reads, and the letter that keeps the record.

>>> told(ValueError("no cents"))
'ValueError: no cents'
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from millstream.errors import StepFailed, shown
from millstream.flow.letter import Letter
from millstream.flow.node import Node, Stateful
from millstream.flow.site import function_site


class Origin(NamedTuple):
    """The record of a stream that something came of."""

    stream: str
    shard: int
    seq: int


def step_failed(node: Node, error: Exception, origin: Origin, key: Any, value: Any) -> StepFailed:
    """The error: which step, the user's function with its line, the record."""
    function: object = getattr(node, "function", None)
    if isinstance(node, Stateful):
        function = node.step.function
    where = f"{function_site(function)} raised " if function is not None else ""
    record = f"stream '{origin.stream}', shard {origin.shard}, seq {origin.seq}, key {shown(key)}"
    return StepFailed(
        f"the step '{node.label}' ({node.site}): {where}{told(error)}. "
        f"It was given {shown(value)}, of the record {record}. Mend it, or say what to do with such records: "
        "on_error='skip', or on_error=dead_letter(\"stream\")",
        step=node.label,
        record=record,
    )


def letter(node: Node, error: Exception, origin: Origin, value: Any) -> Letter:
    """What is kept of a record where the step's policy is to put it aside."""
    return Letter(
        step=node.label,
        error=told(error),
        stream=origin.stream,
        shard=origin.shard,
        seq=origin.seq,
        value=_plain(value),
    )


def told(error: Exception) -> str:
    """An error in words, whatever its class makes of them."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception as other:  # noqa: BLE001 - the step is named all the same
        return f"{type(error).__name__}, whose text raises {type(other).__name__}"


def _plain(value: Any) -> Any:
    """A value in plain form, for a letter; as text, if it has none."""
    try:
        return msgspec.to_builtins(value, enc_hook=repr)
    except Exception:  # noqa: BLE001 - a letter is written whatever the value is
        return shown(value)
