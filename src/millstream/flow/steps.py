"""The steps of stateful nodes: pure descriptions; `millstream.operators` says what each means.

>>> Fold(0, max).label
'fold max'
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from millstream.flow.process import Process as Composed
from millstream.flow.site import function_name, is_nameless, qualified_name


@dataclass(frozen=True)
class Step:
    """What all have."""

    operation = "step"

    @property
    def function(self) -> Callable[..., Any] | None:
        """The user's function by which the step is known, if there is one."""
        return None

    @property
    def label(self) -> str:
        """The operation, and the user's function."""
        return self.operation if self.function is None else f"{self.operation} {function_name(self.function)}"

    @property
    def full_name(self) -> str:
        """The operation, and the user's function with what it stands in: what names of states begin with."""
        return self.label if self.function is None else f"{self.operation} {qualified_name(self.function)}"

    @property
    def nameless(self) -> bool:
        """Whether nothing but its position tells it from another."""
        return self.function is not None and is_nameless(self.function)


@dataclass(frozen=True)
class Transform(Step):
    """State and value give a state, and values."""

    zero: Any
    run: Callable[[Any, Any], tuple[Any, Any]]
    operation = "transform"

    @property
    def function(self) -> Callable[..., Any]:
        """The user's."""
        return self.run


@dataclass(frozen=True)
class Fold(Step):
    """State and value give a state, which is the output too."""

    zero: Any
    run: Callable[[Any, Any], Any]
    operation = "fold"

    @property
    def function(self) -> Callable[..., Any]:
        """The user's."""
        return self.run


@dataclass(frozen=True)
class Process(Step):
    """A `transform` put together from smaller ones, see `millstream.flow.process`."""

    zero: Any
    run: Callable[[Any, Any], tuple[Any, Any]]
    operation = "process"

    @property
    def function(self) -> Callable[..., Any]:
        """The user's, or the composition."""
        return self.run

    @property
    def label(self) -> str:
        """A composition has no name to show."""
        return self.operation if isinstance(self.run, Composed) else super().label

    @property
    def nameless(self) -> bool:
        """Whether it is a composition: it has no name of its own."""
        return isinstance(self.run, Composed) or super().nameless


@dataclass(frozen=True)
class Combine(Step):
    """Values of a monoid, put together: a table, whose updates may be coalesced."""

    title: str
    zero: Any
    lift: Callable[[Any], Any] | None
    plus: Callable[[Any, Any], Any]
    present: Callable[[Any], Any] | None
    of: Callable[[Any], Any] | None = None
    operation = "aggregate"

    @property
    def function(self) -> Callable[..., Any] | None:
        """The user's, unless the aggregate has a title of its own."""
        return None if self.title else self.plus

    @property
    def label(self) -> str:
        """The title, and what it is of."""
        if not self.title:
            return super().label
        return self.title if self.of is None else f"{self.title} {function_name(self.of)}"

    @property
    def full_name(self) -> str:
        """The title, and what it is of with what that stands in."""
        if not self.title:
            return super().full_name
        return self.title if self.of is None else f"{self.title} {qualified_name(self.of)}"

    @property
    def nameless(self) -> bool:
        """Whether one of its functions has no name."""
        return any(is_nameless(f) for f in (self.function, self.of) if f is not None)


@dataclass(frozen=True)
class Grouped(Step):
    """Lists of `size` values; what is left over is kept, or given at the end of a run."""

    size: int
    flush: bool
    operation = "grouped"

    @property
    def label(self) -> str:
        """With the size."""
        return f"grouped {self.size}"


@dataclass(frozen=True)
class Pairs(Step):
    """Of each update of a table, the value before and the value now."""

    operation = "updated_pairs"


@dataclass(frozen=True)
class Join(Step):
    """Values with the latest ones of a table; `how` says what to do where there are none."""

    how: Literal["inner", "left", "full"]

    @property
    def label(self) -> str:
        """With what is not usual."""
        return self.operation if self.how == "inner" else f"{self.how} {self.operation}"

    @property
    def full_name(self) -> str:
        """Without: the state is the same."""
        return self.operation


@dataclass(frozen=True)
class JoinTables(Join):
    """The latest values of two tables."""

    operation = "join tables"


@dataclass(frozen=True)
class JoinTable(Join):
    """Each event with the latest value of a table."""

    operation = "join table"


@dataclass(frozen=True)
class Changes(Step):
    """What has changed in a map since its last update: (field, old, new), None where there is none."""

    operation = "changes"


@dataclass(frozen=True)
class SumView(Step):
    """Sums kept up to date by changes of what they are the sums of."""

    operation = "sum_by_key"


@dataclass(frozen=True)
class LatestView(Step):
    """Maps of the latest values, kept up to date by changes."""

    operation = "latest_by_key"
