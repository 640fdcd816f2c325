"""Updated pairs: of each update of a table, the value before and the value now."""

from __future__ import annotations

from typing import Any

from millstream.flow.steps import Pairs
from millstream.operators.meaning import Meaning


def pairs(_: Pairs) -> Meaning:
    """Remember the latest value."""

    def run(old: Any, new: Any) -> tuple[Any, tuple[tuple[Any, Any], ...]]:
        return new, ((old, new),) if old is not None or new is not None else ()

    return Meaning(None, run)
