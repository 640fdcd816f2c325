"""Fold: each value changes the state, and each state comes out."""

from __future__ import annotations

from typing import Any

from millstream.flow.steps import Fold
from millstream.operators.meaning import Meaning


def fold(step: Fold) -> Meaning:
    """The state after each value."""
    function = step.run

    def run(state: Any, value: Any) -> tuple[Any, tuple[Any]]:
        state = function(state, value)
        return state, (state,)

    return Meaning(step.zero, run)
