"""Values as Arrow columns, and back.

>>> import pyarrow as pa
>>> column = to_arrow([3, None], int)
>>> column.type, from_arrow(column, int)
(DataType(int64), [3, None])
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import inspect as kinds

from millstream.codec.kind import named
from millstream.errors import WrongType

_SIMPLE: list[tuple[type[kinds.Type], pa.DataType]] = [
    (kinds.BoolType, pa.bool_()),
    (kinds.IntType, pa.int64()),
    (kinds.FloatType, pa.float64()),
    (kinds.StrType, pa.utf8()),
    (kinds.BytesType, pa.binary()),
    (kinds.NoneType, pa.null()),
    (kinds.DateType, pa.date32()),
    (kinds.TimeDeltaType, pa.duration("us")),
    (kinds.DecimalType, pa.utf8()),
    (kinds.UUIDType, pa.utf8()),
]


def arrow_type(kind: Any) -> pa.DataType:
    """The Arrow type that holds the values of a type."""
    try:
        return _arrow(kinds.type_info(kind))
    except (TypeError, NameError) as error:
        raise WrongType(f"values of type {named(kind)} have no form in Arrow: {error}") from None


def to_arrow(values: Sequence[Any], kind: Any) -> pa.Array:
    """Values as one column; of a type that is not known, as Arrow itself sees them."""
    wanted = None if kind is Any else arrow_type(kind)
    try:
        plain = [
            msgspec.to_builtins(value, builtin_types=(bytes, dt.datetime, dt.date, dt.timedelta))
            for value in values
        ]
        return pa.array(plain, wanted)
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise WrongType(f"values of type {named(kind)} cannot be put into Arrow: {error}") from None


def from_arrow(column: pa.Array | pa.ChunkedArray, kind: Any) -> list[Any]:
    """The values of a column."""
    found: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    if kind is Any:
        return found
    try:
        return [None if value is None else msgspec.convert(value, kind) for value in found]
    except msgspec.ValidationError as error:
        raise WrongType(f"a column of {column.type} holds no {named(kind)}: {error}") from None


def _arrow(info: kinds.Type) -> pa.DataType:
    for simple, found in _SIMPLE:
        if isinstance(info, simple):
            return found
    match info:
        case kinds.DateTimeType():
            return pa.timestamp("us", "UTC")
        case kinds.ListType(item_type) | kinds.VarTupleType(item_type) | kinds.SetType(item_type):
            return pa.list_(_arrow(item_type))
        case kinds.DictType(key_type, value_type):
            return pa.map_(_arrow(key_type), _arrow(value_type))
        case kinds.StructType() | kinds.DataclassType() | kinds.TypedDictType():
            return pa.struct([pa.field(field.encode_name, _arrow(field.type)) for field in info.fields])
        case kinds.UnionType(types):
            left = [one for one in types if not isinstance(one, kinds.NoneType)]
            if len(left) == 1:
                return _arrow(left[0])
    raise TypeError(f"there is no Arrow type for {type(info).__name__.removesuffix('Type').lower()}")
