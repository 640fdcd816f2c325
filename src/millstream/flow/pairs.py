"""Small functions on pairs that builders of flows need: named, so that they can be sent anywhere."""

from __future__ import annotations

from typing import Any


def by_first(keyed: tuple[Any, tuple[Any, Any]]) -> Any:
    """Of (key, (first, rest)): first."""
    return keyed[1][0]


def rest_of(keyed: tuple[Any, tuple[Any, Any]]) -> tuple[Any, Any]:
    """Of (key, (first, rest)): (key, rest)."""
    return keyed[0], keyed[1][1]


def by_field(change: tuple[Any, Any, Any, Any]) -> Any:
    """Of (key, field, old, new): field."""
    return change[1]
