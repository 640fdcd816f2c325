"""Two things measured side by side: in turns, so that what disturbs the machine disturbs both.

>>> side_by_side(lambda: 50.0, lambda: 100.0, rounds=3)
Ratio(value=0.5, ours=50.0, theirs=100.0)
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple


class Ratio(NamedTuple):
    """The median of the rounds' ratios, and of each side's rates."""

    value: float
    ours: float
    theirs: float


def side_by_side(ours: Callable[[], float], theirs: Callable[[], float], rounds: int) -> Ratio:
    """Compare two rates. A first round warms up and does not count; who goes first alternates."""
    pairs = []
    for number in range(rounds + 1):
        if number % 2:
            left = ours()
            right = theirs()
        else:
            right = theirs()
            left = ours()
        pairs.append((left, right))
    del pairs[0]
    return Ratio(
        statistics.median(left / right for left, right in pairs),
        statistics.median(left for left, _ in pairs),
        statistics.median(right for _, right in pairs),
    )


def rate_for(seconds: float, step: Callable[[], int]) -> float:
    """Call again and again for so long; each call says how much it did, and the sum per second is given."""
    done = 0
    start = now = time.perf_counter()
    while now - start < seconds:
        done += step()
        now = time.perf_counter()
    return done / (now - start)


def rate_of(work: Callable[[], int]) -> float:
    """Call once; what it says it did, per second."""
    start = time.perf_counter()
    done = work()
    return done / (time.perf_counter() - start)
