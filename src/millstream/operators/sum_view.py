"""Sum by key: a sum kept up to date by taking back old values and adding new ones."""

from __future__ import annotations

from typing import Any

from millstream.flow.steps import SumView
from millstream.operators.changes import Change
from millstream.operators.meaning import Meaning


def sum_view(_: SumView) -> Meaning:
    """How many there are, and their sum; None when there are none any more."""

    def run(state: tuple[int, Any], change: Change) -> tuple[tuple[int, Any], tuple[Any]]:
        count, total = state
        _, _, old, new = change
        if old is not None:
            count, total = count - 1, total - old
        if new is not None:
            count, total = count + 1, total + new
        return (count, total) if count else (0, 0), (total if count else None,)

    return Meaning((0, 0), run)
