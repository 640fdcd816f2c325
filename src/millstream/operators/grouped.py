"""Grouped: lists of so many values, in order; none is lost."""

from __future__ import annotations

from typing import Any

from millstream.flow.steps import Grouped
from millstream.operators.meaning import Meaning


def grouped(step: Grouped) -> Meaning:
    """A list whenever there are enough, and what is left over at the end if that is asked for."""

    def run(waiting: list[Any], value: Any) -> tuple[list[Any], tuple[list[Any], ...]]:
        waiting = [*waiting, value]
        return ([], (waiting,)) if len(waiting) == step.size else (waiting, ())

    def finish(waiting: list[Any], _: None) -> tuple[list[Any], tuple[list[Any], ...]]:
        return [], (waiting,) if waiting else ()

    return Meaning([], run, finish if step.flush else None)
