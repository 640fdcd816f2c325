"""Transform, and process: the general step, all of it the user's."""

from __future__ import annotations

from typing import Any

from millstream.errors import WrongType, shown
from millstream.flow.steps import Process, Transform
from millstream.operators.meaning import Meaning


def transform(step: Transform | Process) -> Meaning:
    """State and value give a state, and values."""

    def run(state: Any, value: Any) -> tuple[Any, list[Any]]:
        found = step.run(state, value)
        if type(found) is not tuple or len(found) != 2:
            raise WrongType(
                f"it gave {shown(found)}: expected a pair of the state and the values that come out"
            )
        return found[0], list(found[1])

    return Meaning(step.zero, run)
