"""The types of what a flow carries, as far as functions and values say them; `Any` where they do not.

>>> differ(list[int], list[Any]), differ(int, float), clash(int, float), clash(int, str)
(False, True, False, True)
>>> item_of(list[int]), without_none(int | None), pair_of(str, int)
(<class 'int'>, <class 'int'>, tuple[str, int])
"""

from __future__ import annotations

from types import UnionType
from typing import Any, Never, Protocol, TypeAlias, TypeVar, Union, get_args, get_origin, is_typeddict

from millstream.codec.kind import is_record

K_co = TypeVar("K_co", covariant=True)
V_co = TypeVar("V_co", covariant=True)
W = TypeVar("W")

Empty: TypeAlias = (
    list[Never] | set[Never] | dict[Never, Never] | tuple[()]
)  # what type checkers see in [] and the like
Kind: TypeAlias = type[W] | UnionType  # what may be said of values: type checkers do not see into a union


class Carries(Protocol[K_co, V_co]):
    """What has keys and values of these types, or of narrower ones: for methods that ask for such.

    A `Stream` of lists is no `Stream` of iterables for a type checker, as it could be given other
    iterables; but it carries some.
    """

    def _carries(self) -> tuple[K_co, V_co]:
        """Nothing that is ever called."""


def item_of(kind: Any) -> Any:
    """The type of the items of a type."""
    inner = get_args(kind)
    if get_origin(kind) is tuple:
        return inner[0] if len(inner) == 2 and inner[1] is Ellipsis else Any
    if get_origin(kind) is dict or not inner:
        return inner[0] if inner else (str if kind is str else Any)
    return inner[0]


def without_none(kind: Any) -> Any:
    """The type, where it may not be None."""
    left = tuple(one for one in get_args(kind) if one is not type(None))
    return left[0] if len(left) == 1 and type(None) in get_args(kind) else kind


def optional(kind: Any) -> Any:
    """The type, or None."""
    return kind if kind is Any else kind | None


def pair_of(left: Any, right: Any) -> Any:
    """The type of pairs."""
    return tuple[left, right]


def list_of(kind: Any) -> Any:
    """The type of lists."""
    return list[kind]


def state_of(zero: object, said: Any) -> Any:
    """The type of a state: what the function says, or that of its first value, if that says everything.

    A 0 does not: floats and decimals are added to it too.
    """
    if said is not Any:
        return said
    kind = type(zero)
    return kind if kind in {bool, float, str, bytes} or is_record(kind) else Any


def map_of(key: Any, value: Any) -> Any:
    """The type of maps."""
    return dict[key, value]


def differ(one: Any, other: Any) -> bool:
    """Whether two types are not the same, as far as they are known."""
    if one is Any or other is Any or one == other:
        return False
    inner, others = get_args(one), get_args(other)
    if not inner or get_origin(one) != get_origin(other) or len(inner) != len(others):
        return True
    return any(differ(*both) for both in zip(inner, others, strict=True))


def clash(given: Any, wanted: Any) -> bool:
    """Whether no value of one type is ever one of the other: only what is certain counts."""
    if given is Any or wanted is Any:
        return False
    for one, other in ((given, wanted), (wanted, given)):
        if get_origin(one) in {Union, UnionType}:
            return all(clash(inner, other) for inner in get_args(one))
    left, right = _class_of(given), _class_of(wanted)
    if left is None or right is None or (left, right) in _NUMBERS:
        return False
    if not (_is_subclass(left, right) or _is_subclass(right, left)):
        return True
    inner, others = get_args(given), get_args(wanted)
    if left is not right or not inner or not others or Ellipsis in (*inner, *others):
        return False
    return len(inner) != len(others) or any(clash(*both) for both in zip(inner, others, strict=True))


_NUMBERS = {(int, float), (bool, float), (int, complex), (bool, complex), (float, complex)}


def _class_of(kind: Any) -> type | None:
    """The class whose instances the values of a type are; None where that is not certain."""
    found = type(None) if kind is None else get_origin(kind) or kind
    if is_typeddict(found):
        return dict
    return found if isinstance(found, type) and not getattr(found, "_is_protocol", False) else None


def _is_subclass(one: type, other: type) -> bool:
    try:
        return issubclass(one, other)
    except TypeError:  # the class has its own opinion
        return True
