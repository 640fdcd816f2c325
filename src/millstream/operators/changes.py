"""Changes: what is different in a map since its last update, field by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millstream.flow.steps import Changes
from millstream.operators.meaning import Meaning

Change = tuple[Any, Any, Any, Any]  # key, field, old value, new value


def changes(_: Changes) -> Meaning:
    """Compare each map with the one before; a value of None is no value."""

    def run(
        before: Mapping[Any, Any] | None, update: tuple[Any, Mapping[Any, Any] | None]
    ) -> tuple[Mapping[Any, Any] | None, list[Change]]:
        key, after = update
        old, new = before or {}, after or {}
        fields = [*old, *(field for field in new if field not in old)]
        found = [(key, field, old.get(field), new.get(field)) for field in fields]
        return after, [change for change in found if change[2] != change[3]]

    return Meaning(None, run)
