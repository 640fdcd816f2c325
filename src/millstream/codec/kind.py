"""What is known of a type: whether it says everything, and how it is called.

>>> is_exact(dict[str, tuple[int, ...]]), is_exact(dict), is_exact(list[Any])
(True, False, False)
>>> named(dict[str, int]), named(Any)
('dict[str, int]', 'anything')
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from enum import Enum
from typing import Any, get_args, get_type_hints

import msgspec
from msgspec import inspect as kinds


def named(kind: object) -> str:
    """A type as a message shows it."""
    if kind is Any:
        return "anything"
    if kind is None or kind is type(None):
        return "None"
    return kind.__name__ if isinstance(kind, type) and not hasattr(kind, "__args__") else str(kind)


def is_exact(kind: object) -> bool:
    """Whether a value comes back as it went when only this type is known of it."""
    try:
        return _exact(kinds.type_info(kind), set())
    except (TypeError, NameError):  # a type that msgspec does not know, or a name that is not there
        return False


def result_of(function: object) -> Any:
    """What a function says that it gives; `Any` if it does not say."""
    if isinstance(function, type):
        return function
    try:
        hints = get_type_hints(function)
    except (TypeError, NameError):
        return Any
    return hints.get("return", Any)


def _exact(info: kinds.Type, seen: set[type]) -> bool:
    match info:
        case kinds.AnyType() | kinds.CustomType() | kinds.RawType():
            return False
        case kinds.DateTimeType() | kinds.TimeType():  # msgpack keeps the instant, and forgets the zone
            return False
        case kinds.UnionType(types):
            return all(_exact(one, seen) for one in types)
        case kinds.TupleType(item_types):
            return all(_exact(one, seen) for one in item_types)
        case kinds.CollectionType(item_type):
            return _exact(item_type, seen)
        case kinds.DictType(key_type, value_type):
            return _exact(key_type, seen) and _exact(value_type, seen)
        case kinds.StructType() | kinds.DataclassType() | kinds.NamedTupleType() | kinds.TypedDictType():
            if info.cls in seen:
                return True
            return all(_exact(field.type, seen | {info.cls}) for field in info.fields)
        case _:
            return True


def is_fixed(kind: object) -> bool:
    """Whether the values of a type can never be changed in place.

    >>> is_fixed(tuple[str, int]), is_fixed(list[int]), is_fixed(Any)
    (True, False, False)
    """
    try:
        return _fixed(kinds.type_info(kind), set())
    except (TypeError, NameError):  # as above
        return False


def _fixed(info: kinds.Type, seen: set[type]) -> bool:
    match info:
        case kinds.UnionType(types):
            return all(_fixed(one, seen) for one in types)
        case kinds.TupleType(item_types):
            return all(_fixed(one, seen) for one in item_types)
        case kinds.VarTupleType(item_type) | kinds.FrozenSetType(item_type):
            return _fixed(item_type, seen)
        case kinds.StructType() | kinds.DataclassType() | kinds.NamedTupleType():
            if info.cls in seen:
                return True
            inner = seen | {info.cls}
            return _is_frozen(info.cls) and all(_fixed(field.type, inner) for field in info.fields)
        case _:
            return not isinstance(info, _CHANGING)


def _is_frozen(kind: type) -> bool:
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_config__.frozen
    return issubclass(kind, tuple) or bool(kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]


def custom_in(kind: object) -> object | None:
    """A class within a type of which nothing says what it is made of; None: there is none."""
    try:
        return _custom(kinds.type_info(kind), set())
    except (TypeError, NameError):  # msgspec does not know it, and says so itself
        return None


def _custom(info: kinds.Type, seen: set[type]) -> object | None:
    if isinstance(info, kinds.CustomType):
        return None if info.cls is object else info.cls
    if isinstance(info, _WITH_FIELDS):
        if info.cls in seen:
            return None
        seen.add(info.cls)
    return next((found for one in _inner(info) if (found := _custom(one, seen)) is not None), None)


def is_record(kind: object) -> bool:
    """Whether it is a class with fields: a msgspec struct or a dataclass."""
    return isinstance(kind, type) and (
        issubclass(kind, msgspec.Struct) or hasattr(kind, "__dataclass_fields__")
    )


def records_in(kind: object) -> dict[str, type]:
    """The classes with fields that a type is made of, by name."""
    found: dict[str, type] = {}
    try:
        _collect(kinds.type_info(kind), found)
    except (TypeError, NameError):  # a union whose types msgpack cannot tell apart, perhaps; their names can
        if isinstance(kind, type) and (is_record(kind) or issubclass(kind, Enum | tuple)):
            found[kind.__qualname__] = kind
        with suppress(TypeError, NameError):
            inner = get_type_hints(kind).values() if found else get_args(kind)
            for one in inner:
                found.update(records_in(one))
    return found


def _collect(info: kinds.Type, found: dict[str, type]) -> None:
    if isinstance(info, kinds.EnumType | kinds.StructType | kinds.DataclassType | kinds.NamedTupleType):
        if found.get(info.cls.__qualname__) is info.cls:
            return
        found[info.cls.__qualname__] = info.cls
    for one in _inner(info):
        _collect(one, found)


_WITH_FIELDS = (kinds.StructType, kinds.DataclassType, kinds.NamedTupleType, kinds.TypedDictType)


def _inner(info: kinds.Type) -> Iterable[kinds.Type]:
    """The types that a type is made of."""
    match info:
        case kinds.UnionType(types):
            return types
        case kinds.TupleType(item_types):
            return item_types
        case kinds.CollectionType(item_type):
            return (item_type,)
        case kinds.DictType(key_type, value_type):
            return key_type, value_type
        case kinds.StructType() | kinds.DataclassType() | kinds.NamedTupleType() | kinds.TypedDictType():
            return [field.type for field in info.fields]
        case _:
            return ()


_CHANGING = (
    kinds.AnyType,
    kinds.CustomType,
    kinds.RawType,
    kinds.CollectionType,
    kinds.DictType,
    kinds.TypedDictType,
    kinds.ByteArrayType,
    kinds.MemoryViewType,
)
