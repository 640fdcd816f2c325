"""Aggregates: the elements of a monoid put together; each update replaces the one before."""

from __future__ import annotations

from typing import Any

from millstream.flow.steps import Combine
from millstream.operators.meaning import Meaning


def combine(step: Combine) -> Meaning:
    """What is presented of the sum so far, after each value."""
    lift, plus, present = step.lift, step.plus, step.present

    def run(state: Any, value: Any) -> tuple[Any, tuple[Any]]:
        state = plus(state, value if lift is None else lift(value))
        return state, (state if present is None else present(state),)

    return Meaning(step.zero, run)
