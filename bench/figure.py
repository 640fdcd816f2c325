"""What a benchmark says: named values, the bars they must reach, and the rates behind them.

>>> at_least(0.25).reached(0.3), at_most(2).reached(2.5)
(True, False)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

_COMPARE = {">=": operator.ge, "<=": operator.le, "==": operator.eq}


class Bar(NamedTuple):
    """Where a value must lie."""

    sign: str
    limit: float

    def reached(self, value: float) -> bool:
        """Whether the value is good enough."""
        return bool(_COMPARE[self.sign](value, self.limit))

    def __str__(self) -> str:
        """As it is written in the table."""
        return f"{self.sign} {self.limit:g}"


def at_least(limit: float) -> Bar:
    """More is better."""
    return Bar(">=", limit)


def at_most(limit: float) -> Bar:
    """Less is better."""
    return Bar("<=", limit)


def exactly(limit: float) -> Bar:
    """There is one right answer."""
    return Bar("==", limit)


class Figure(NamedTuple):
    """A value, and what both sides of it came to."""

    name: str
    value: float
    ours: str = ""
    theirs: str = ""


class Room(NamedTuple):
    """Where a benchmark may write, and how long it may take."""

    folder: Path
    quick: bool

    @property
    def rounds(self) -> int:
        """How often both sides are measured."""
        return 5 if self.quick else 11

    @property
    def seconds(self) -> float:
        """How long one side works in a round."""
        return 0.2 if self.quick else 0.5


class Measure(NamedTuple):
    """A function, and the names of its figures with their bars (None: only told)."""

    take: Callable[[Room], Iterable[Figure]]
    bars: dict[str, Bar | None]


class Benchmark(NamedTuple):
    """Measures that belong together."""

    says: str
    measures: tuple[Measure, ...]

    @property
    def names(self) -> list[str]:
        """The names of all its figures."""
        return [name for measure in self.measures for name in measure.bars]


def rate(per_second: float, unit: str) -> str:
    """A rate as people read it.

    >>> rate(1_234_567, "records"), rate(812, "commits")
    ('1.23 M records/s', '812 commits/s')
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if per_second >= size:
            return f"{per_second / size:.3g} {letter}{'' if unit == 'B' else ' '}{unit}/s"
    return f"{per_second:.3g} {unit}/s"
