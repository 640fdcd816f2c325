"""What a step means: how it begins, and what it makes of a state and a value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

Run: TypeAlias = Callable[[Any, Any], tuple[Any, Iterable[Any]]]


class Meaning(NamedTuple):
    """A stateful step as pure functions: state and value give a state, and values.

    `finish` gives what is left over when a bounded run is closed. What is given as a state may be
    changed in place: it is nobody else's.
    """

    zero: Any
    run: Run
    finish: Run | None = None  # its value is None
