"""A stream with a table: each event with what the table has for its key at that moment."""

from __future__ import annotations

from typing import Any

from millstream.flow.branch import Branch
from millstream.flow.steps import JoinTable
from millstream.operators.meaning import Meaning


def join_table(step: JoinTable) -> Meaning:
    """Updates of the table change the state, events come out with it."""

    def run(latest: Any, branch: Branch) -> tuple[Any, tuple[tuple[Any, Any], ...]]:
        if branch.name == "table":
            return branch.value, ()
        if latest is None and step.how == "inner":
            return latest, ()
        return latest, ((branch.value, latest),)

    return Meaning(None, run)
