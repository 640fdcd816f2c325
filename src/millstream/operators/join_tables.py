"""A table with a table: the latest values of both under each key."""

from __future__ import annotations

from typing import Any

from millstream.flow.branch import Branch
from millstream.flow.steps import JoinTables
from millstream.operators.meaning import Meaning


def join_tables(step: JoinTables) -> Meaning:
    """Remember both sides; a row that is no more is taken away with a None."""

    def row(left: Any, right: Any) -> tuple[Any, Any] | None:
        if left is None and (right is None or step.how != "full"):
            return None
        return None if right is None and step.how == "inner" else (left, right)

    def run(sides: tuple[Any, Any], branch: Branch) -> tuple[tuple[Any, Any], tuple[Any, ...]]:
        after = (branch.value, sides[1]) if branch.name == "left" else (sides[0], branch.value)
        before, now = row(*sides), row(*after)
        return after, (now,) if now is not None or before is not None else ()

    return Meaning((None, None), run)
