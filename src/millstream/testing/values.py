"""Hypothesis strategies for the values of a type: all that codecs can write, and bring back as it was.

>>> from hypothesis import find
>>> find(values_of(dict[str, list[int]]), lambda value: any(value.values()))
{'': [0]}
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from hypothesis import strategies as st
from msgspec import inspect as kinds

from millstream.codec.kind import named
from millstream.errors import WrongType

SIZE_MAX = 4  # of texts, lists and the like: small is enough to find what is wrong
_INT_MAX = 2**53 - 1  # what every reader of JSON knows exactly, and sums of some can be written too
_LETTERS = st.characters(codec="utf-8")  # halves of a pair are none
_SIMPLE: dict[type[kinds.Type], st.SearchStrategy[Any]] = {
    kinds.NoneType: st.none(),
    kinds.BoolType: st.booleans(),
    kinds.DateTimeType: st.datetimes(timezones=st.just(dt.UTC)),
    kinds.DateType: st.dates(),
    kinds.TimeType: st.times(),
    kinds.TimeDeltaType: st.timedeltas(dt.timedelta(days=-1_000), dt.timedelta(days=1_000)),
    kinds.UUIDType: st.uuids(),
    kinds.DecimalType: st.decimals(allow_nan=False, allow_infinity=False, places=2),
    kinds.AnyType: st.none() | st.booleans() | st.integers(-1_000, 1_000) | st.text(max_size=SIZE_MAX),
}


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type, small ones."""
    try:
        return _values(kinds.type_info(kind), {})
    except (TypeError, NameError) as error:
        raise WrongType(f"values of type {named(kind)} cannot be made up: {error}") from None


def _values(info: kinds.Type, seen: dict[type, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """By what msgspec knows of the type; `seen` are classes that hold others of their own."""
    match info:
        case kinds.UnionType(types):
            return st.one_of([_values(one, seen) for one in sorted(types, key=_is_something)])
        case kinds.TupleType(item_types):
            return st.tuples(*(_values(one, seen) for one in item_types))
        case kinds.CollectionType(item_type):
            return _collections(info, _values(item_type, seen))
        case kinds.DictType(key_type, value_type):
            least, most = _sizes(info)
            keys, values = _values(key_type, seen), _values(value_type, seen)
            return st.dictionaries(keys, values, min_size=least, max_size=most)
        case kinds.StructType() | kinds.DataclassType() | kinds.NamedTupleType() | kinds.TypedDictType():
            return _with_fields(info, seen)
        case _:
            return _single(info)


def _single(info: kinds.Type) -> st.SearchStrategy[Any]:
    """Values that are not made of others."""
    match info:
        case kinds.IntType():
            return st.integers(*_bounds(info, -_INT_MAX - 1, _INT_MAX, 1)).filter(_is_multiple(info))
        case kinds.FloatType():
            return st.floats(*_bounds(info, None, None, 1e-9), allow_nan=False, allow_infinity=False)
        case kinds.StrType(pattern=str() as pattern):
            return st.from_regex(pattern)
        case kinds.StrType():
            return st.text(_LETTERS, min_size=_sizes(info)[0], max_size=_sizes(info)[1])
        case kinds.BytesType():
            return st.binary(min_size=_sizes(info)[0], max_size=_sizes(info)[1])
        case kinds.EnumType(cls):
            return st.sampled_from(list(cls))
        case kinds.LiteralType(values):
            return st.sampled_from(values)
    if type(info) not in _SIMPLE:
        raise TypeError(f"nothing says what a {type(info).__name__.removesuffix('Type')} is made of")
    return _SIMPLE[type(info)]


def _collections(info: kinds.CollectionType, items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    least, most = _sizes(info)
    if isinstance(info, kinds.SetType | kinds.FrozenSetType):
        found = st.frozensets(items, min_size=least, max_size=most)
        return found if isinstance(info, kinds.FrozenSetType) else found.map(set)
    lists = st.lists(items, min_size=least, max_size=most)
    return lists.map(tuple) if isinstance(info, kinds.VarTupleType) else lists


def _with_fields(
    info: kinds.StructType | kinds.DataclassType | kinds.NamedTupleType | kinds.TypedDictType,
    seen: dict[type, st.SearchStrategy[Any]],
) -> st.SearchStrategy[Any]:
    if info.cls in seen:
        return seen[info.cls]
    inner = {**seen, info.cls: st.deferred(lambda: made)}
    cls: Any = dict if isinstance(info, kinds.TypedDictType) else info.cls
    made = st.builds(cls, **{field.name: _values(field.type, inner) for field in info.fields})
    return made


def _bounds(info: kinds.IntType | kinds.FloatType, least: Any, most: Any, step: Any) -> tuple[Any, Any]:
    """The smallest and the largest number that the type allows."""
    low = info.ge if info.ge is not None else info.gt + step if info.gt is not None else least
    high = info.le if info.le is not None else info.lt - step if info.lt is not None else most
    return low, high


def _is_multiple(info: kinds.IntType) -> Any:
    of = info.multiple_of or 1
    return lambda value: value % of == 0


def _sizes(info: Any) -> tuple[int, int]:
    least = info.min_length or 0
    return least, least + SIZE_MAX if info.max_length is None else info.max_length


def _is_something(info: kinds.Type) -> bool:
    """For sorting: what comes first is what examples shrink to."""
    return not isinstance(info, kinds.NoneType)
