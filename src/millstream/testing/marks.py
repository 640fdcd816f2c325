"""Marks: what tells one value from another, where moments of a search are compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.codec import Anything
from millstream.flow.graph import Graph


def marks(graph: Graph) -> Callable[[Any], object]:
    """A function that gives equal marks to equal values: their bytes, and where they have none a new one."""
    encode = Anything(graph.records).encode

    def mark(value: Any) -> object:
        try:
            return encode(value)
        except Exception:  # noqa: BLE001 - whatever is wrong with it, a step will say
            return object()

    return mark
