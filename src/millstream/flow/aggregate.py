"""Aggregates: how many values become one, so that parts can be put together first, anywhere.

An aggregate is a monoid with a way in and a way out: `lift` makes an element of a value, `plus` puts
two elements together (in whatever bracketing, but in order), `zero` changes nothing, and `present`
makes the result. An element must never be changed in place.

>>> average = mean()
>>> average.present(average.plus(average.lift(2), average.lift(4)))
3.0
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import Any, Generic, TypeVar

from millstream.errors import UsageError, shown

V = TypeVar("V")
A = TypeVar("A")
R = TypeVar("R")


@dataclass(frozen=True)
class Aggregate(Generic[V, A, R]):
    """What `Grouped.aggregate` takes; `title` and `of` are for its name, `state` is the type of elements."""

    title: str
    zero: A
    lift: Callable[[V], A]
    plus: Callable[[A, A], A]
    present: Callable[[A], R]
    of: Callable[[Any], Any] | None = None
    state: Any = Any
    result: Any = Any


class Field:
    """A field of a value, by its name: of a struct or dataclass, or of a dict.

    >>> Field("cents")({"cents": 30})
    30
    """

    def __init__(self, name: str) -> None:
        """The field of this name."""
        self.name = name
        self.__qualname__ = self.__name__ = name

    def __call__(self, value: Any) -> Any:
        """The field of a value."""
        return value[self.name] if isinstance(value, dict) else getattr(value, self.name)


def count() -> Aggregate[Any, int, int]:
    """How many values there were."""
    return Aggregate("count", 0, lambda _: 1, _add, _same, state=int, result=int)


def total(of: Callable[[V], Any] | None = None) -> Aggregate[V, Any, Any]:
    """The sum of the values, or of what `of` makes of each."""
    return Aggregate("sum", 0, of or _same, _add, _same, of)


def smallest(of: Callable[[V], Any] | None = None) -> Aggregate[V, Any, Any]:
    """The smallest; the first of those that are equal. NaN, once there is one."""
    return Aggregate("min", None, of or _same, _smaller, _same, of)


def largest(of: Callable[[V], Any] | None = None) -> Aggregate[V, Any, Any]:
    """The largest; the first of those that are equal. NaN, once there is one."""
    return Aggregate("max", None, of or _same, _larger, _same, of)


def mean(of: Callable[[V], Any] | None = None) -> Aggregate[V, Any, Any]:
    """The average."""
    get = of or _same
    return Aggregate("mean", (0, 0), lambda value: (1, get(value)), _add_pairs, _quotient, of)


def variance(of: Callable[[V], Any] | None = None) -> Aggregate[V, Any, float]:
    """The variance of all values there were (not an estimate from a sample)."""
    get = of or _same
    return Aggregate(
        "variance",
        (0, 0.0, 0.0),
        lambda value: (1, float(get(value)), 0.0),
        _add_moments,
        lambda moments: moments[2] / moments[0] if moments[0] else 0.0,
        of,
        tuple[int, float, float],
        float,
    )


def top_k(size: int, of: Callable[[V], Any] | None = None) -> Aggregate[V, Any, Any]:
    """The largest values, the largest first; of those that are equal the earlier first."""
    if type(size) is not int or size < 1:
        raise UsageError(f"top_k({shown(size)}): expected how many, 1 or more")
    get = of or _same

    def keep(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(islice(merge(left, right, key=order, reverse=True), size))

    def order(value: V) -> tuple[bool, Any]:
        found = get(value)
        return not _is_nan(found), found  # NaN comes last

    def lift(value: V) -> tuple[V, ...]:
        return (value,)

    return Aggregate(f"top {size}", (), lift, keep, list, of)


def distinct(of: Callable[[V], Any] | None = None) -> Aggregate[V, Any, int]:
    """How many different values there were, exactly: all of them are kept."""
    get = of or _same
    return Aggregate(
        "distinct", frozenset(), lambda value: frozenset((_one_nan(get(value)),)), _union, len, of, result=int
    )


def _same(value: Any) -> Any:
    return value


def _add(left: Any, right: Any) -> Any:
    return left + right


def _add_pairs(left: tuple[Any, Any], right: tuple[Any, Any]) -> tuple[Any, Any]:
    return left[0] + right[0], left[1] + right[1]


def _quotient(pair: tuple[Any, Any]) -> Any:
    return pair[1] / pair[0] if pair[0] else None


def _smaller(left: Any, right: Any) -> Any:
    if left is None or right is None:
        return left if right is None else right
    return right if right < left or (_is_nan(right) and not _is_nan(left)) else left


def _larger(left: Any, right: Any) -> Any:
    if left is None or right is None:
        return left if right is None else right
    return right if left < right or (_is_nan(right) and not _is_nan(left)) else left


def _add_moments(left: tuple[int, float, float], right: tuple[int, float, float]) -> tuple[int, float, float]:
    """Counts, means and sums of squares of two parts (Chan's formula, which loses nothing to large means)."""
    if not left[0] or not right[0]:
        return left if not right[0] else right
    size = left[0] + right[0]
    apart = right[1] - left[1]
    middle = left[1] + apart * right[0] / size
    return size, middle, left[2] + right[2] + apart * apart * left[0] * right[0] / size


def _is_nan(value: Any) -> bool:
    return bool(value != value)  # noqa: PLR0124 - of floats and of decimals, and of nothing else


def _one_nan(value: Any) -> Any:
    """The value; all NaN, of which none is equal to another, as one."""
    return ("not a number",) if _is_nan(value) else value


def _union(left: frozenset[Any], right: frozenset[Any]) -> frozenset[Any]:
    return left | right
