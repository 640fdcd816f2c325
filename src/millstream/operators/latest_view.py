"""Latest by key: for each field of the maps of a table, the keys whose maps have it, with its values."""

from __future__ import annotations

from typing import Any

from millstream.flow.steps import LatestView
from millstream.operators.changes import Change
from millstream.operators.meaning import Meaning


def latest_view(_: LatestView) -> Meaning:
    """A map that changes are entered into; None when nothing is left in it."""

    def run(view: dict[Any, Any], change: Change) -> tuple[dict[Any, Any], tuple[dict[Any, Any] | None]]:
        key, _, _, new = change
        left = {known: value for known, value in view.items() if known != key}
        after = left if new is None else {**left, key: new}
        return after, (after or None,)

    return Meaning({}, run)
