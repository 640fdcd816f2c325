"""Steps of a process: small functions of state and value, put together to larger ones.

A step takes the state and a value, and gives the state and any number of outputs. All steps of a
process share one state, which begins with the `zero` of `Grouped.process`.

>>> def remember(state: str, value: str) -> str:
...     return value
>>> def both(state: str, value: int) -> str:
...     return f"{state}: {value}"
>>> step = on(name=update(remember), number=emit(both))
>>> step("", Branch("name", "ann"))
('ann', [])
>>> step("ann", Branch("number", 7))
('ann', ['ann: 7'])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, Never, TypeVar

from millstream.errors import UsageError, shown
from millstream.flow.branch import Branch

S = TypeVar("S")
V = TypeVar("V")
W = TypeVar("W")
W_co = TypeVar("W_co", covariant=True)
X = TypeVar("X")


class Process(Generic[S, V, W_co]):
    """A step: call it with a state and a value."""

    def __init__(
        self, run: Callable[[S, V], tuple[S, Iterable[W_co]]], branches: Iterable[frozenset[str]] = ()
    ) -> None:
        """Make a step of a function that gives the state and the outputs.

        `branches`: of each `on` that is given the values, those that it has steps for.
        """
        self._run = run
        self.branches = tuple(branches)

    def __call__(self, state: S, value: V) -> tuple[S, list[W_co]]:
        """The new state, and what comes out."""
        state, outputs = self._run(state, value)
        return state, list(outputs)

    def and_then(self, after: Process[S, W_co, X]) -> Process[S, V, X]:
        """Give each output to another step, with the state as it is by then."""

        def run(state: S, value: V) -> tuple[S, list[X]]:
            state, outputs = self(state, value)
            found: list[X] = []
            for output in outputs:
                state, more = after(state, output)
                found += more
            return state, found

        return Process(run, self.branches)


def step(run: Callable[[S, V], tuple[S, Iterable[W]]]) -> Process[S, V, W]:
    """A step of a function that gives the state and the outputs."""
    return Process(run)


def update(function: Callable[[S, V], S]) -> Process[S, V, Never]:
    """Only the state changes."""
    return Process(lambda state, value: (function(state, value), ()))


def emit(function: Callable[[S, V], W]) -> Process[S, V, W]:
    """One output; the state stays."""
    return Process(lambda state, value: (state, (function(state, value),)))


def skip() -> Process[Any, Any, Never]:
    """Nothing comes out, and the state stays."""
    return Process(lambda state, _: (state, ()))


def chain(*steps: Process[S, V, W]) -> Process[S, V, W]:
    """Each step in turn is given the value, with the state that the one before it left."""

    def run(state: S, value: V) -> tuple[S, list[W]]:
        found: list[W] = []
        for one in steps:
            state, outputs = one(state, value)
            found += outputs
        return state, found

    return Process(run, [branches for one in steps for branches in one.branches])


def on(**branches: Process[S, Any, W]) -> Process[S, Branch, W]:
    """For each branch of a merged stream the step that its values are given to."""

    def run(state: S, value: Branch) -> tuple[S, list[W]]:
        found = branches.get(value.name) if isinstance(value, Branch) else None
        if found is None:
            known = ", ".join(branches)
            raise UsageError(f"no step for {shown(value)}: there are steps for the branches {known}")
        return found(state, value.value)

    return Process(run, [frozenset(branches)])
