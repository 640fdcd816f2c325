"""Any plain Python value as bytes that say what it was: what comes back equals what went, types included.

>>> anything = Anything()
>>> anything.decode(anything.encode({"seen": {1, 2}, "last": (1, None), "sum": 2**70}))
{'seen': {1, 2}, 'last': (1, None), 'sum': 1180591620717411303424}

Classes are known by name, and only those that were given: nothing that is read is looked up elsewhere.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from typing import Any, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec

from millstream.codec.kind import named, records_in
from millstream.errors import WrongType

_TUPLE, _SET, _FROZENSET, _PAIRS, _INT, _SIMPLE, _RECORD, _ENUM = range(1, 9)
_INT_MAX = 1 << 63
_T = TypeVar("_T", dt.datetime, dt.time)
_SIMPLE_TYPES: dict[str, tuple[type, Callable[[Any], str], Callable[[str], object]]] = {
    "datetime": (
        dt.datetime,
        lambda time: _as_text(time),  # noqa: PLW0108 - it is defined below
        lambda text: _in_zone(dt.datetime, *text.split(" ")),
    ),
    "date": (dt.date, dt.date.isoformat, dt.date.fromisoformat),
    "time": (
        dt.time,
        lambda time: _as_text(time),  # noqa: PLW0108 - as above
        lambda text: _in_zone(dt.time, *text.split(" ")),
    ),
    "timedelta": (
        dt.timedelta,
        lambda delta: f"{delta.days} {delta.seconds} {delta.microseconds}",
        lambda text: dt.timedelta(*map(int, text.split())),
    ),
    "decimal": (Decimal, str, Decimal),
    "uuid": (UUID, str, UUID),
}
_NAMES = {kind: name for name, (kind, _, _) in _SIMPLE_TYPES.items()}
_AS_THEY_ARE = {type(None), bool, float, str, bytes}


class Anything:
    """Encodes what it is given, and decodes it again."""

    def __init__(self, records: Mapping[str, type] | None = None) -> None:
        """Know these classes, by name."""
        self._classes = dict(records or {})
        self._names = {kind: name for name, kind in self._classes.items()}
        self._decoder = msgspec.msgpack.Decoder(ext_hook=self._unpack)

    def encode(self, value: object) -> bytes:
        """The value as bytes; equal values of equal types give equal bytes, but for the order in dicts."""
        return _ENCODER.encode(self._pack(value))

    def decode(self, data: bytes) -> Any:
        """The value again."""
        return self._decoder.decode(data)

    def _pack(self, value: Any) -> object:
        kind = type(value)
        if kind in _AS_THEY_ARE:
            return value
        if kind is int:
            return value if -_INT_MAX <= value < _INT_MAX else self._ext(_INT, str(value))
        if kind is list:
            return [self._pack(item) for item in value]
        if kind is tuple:
            return self._ext(_TUPLE, [self._pack(item) for item in value])
        if kind is dict:
            if all(type(key) is str for key in value):
                return {key: self._pack(item) for key, item in value.items()}
            return self._ext(_PAIRS, [[self._pack(key), self._pack(item)] for key, item in value.items()])
        if kind is set or kind is frozenset:
            items = sorted(_ENCODER.encode(self._pack(item)) for item in value)
            return self._ext(_SET if kind is set else _FROZENSET, [msgspec.Raw(item) for item in items])
        if kind in _NAMES:
            return self._ext(_SIMPLE, [_NAMES[kind], _SIMPLE_TYPES[_NAMES[kind]][1](value)])
        return self._pack_class(kind, value)

    def _pack_class(self, kind: type, value: Any) -> object:
        name = self._names.get(kind)
        if name is None:
            raise WrongType(
                f"a value of type {named(kind)} cannot be kept: nothing says what it is made of. "
                + (
                    f"Say its type, as in state={kind.__name__}, or give the function an annotation"
                    if records_in(kind)
                    else "Keep a plain value (a dict, a list, a set …), a dataclass or a msgspec.Struct"
                )
            )
        if issubclass(kind, Enum):
            return self._ext(_ENUM, [name, value.name])
        values = value if issubclass(kind, tuple) else (getattr(value, field) for field in _fields(kind))
        return self._ext(_RECORD, [name, *map(self._pack, values)])

    def _ext(self, code: int, value: object) -> msgspec.msgpack.Ext:
        return msgspec.msgpack.Ext(code, _ENCODER.encode(value))

    def _unpack(self, code: int, data: memoryview) -> object:
        found = self._decoder.decode(data)
        try:
            return self._made(code, found)
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            raise msgspec.DecodeError(f"a kept value cannot be read: {error!r}") from None

    def _made(self, code: int, found: Any) -> object:
        match code:
            case 1:
                return tuple(found)
            case 2:
                return set(found)
            case 3:
                return frozenset(found)
            case 4:
                return dict(found)
            case 5:
                return int(found)
            case 6:
                return _SIMPLE_TYPES[found[0]][2](found[1])
            case 7:
                kind = self._classes[found[0]]
                if issubclass(kind, tuple):
                    return kind(*found[1:])
                return kind(**dict(zip(_fields(kind), found[1:], strict=True)))
            case 8:
                return self._classes[found[0]][found[1]]  # type: ignore[index]  # it is an Enum
            case _:
                raise ValueError(f"there is no kind {code}")


def _fields(kind: type) -> tuple[str, ...]:
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    # What is no struct is a dataclass.
    return tuple(field.name for field in dataclasses.fields(kind))  # type: ignore[arg-type]


def _as_text(time: dt.datetime | dt.time) -> str:
    """What clocks showed, and where: a zone's rules are kept by its name."""
    zone = getattr(time.tzinfo, "key", None)
    return f"{(time.replace(tzinfo=None) if zone else time).isoformat()} {zone or ''} {time.fold}"


def _in_zone(kind: type[_T], text: str, zone: str, fold: str) -> _T:
    found = kind.fromisoformat(text).replace(fold=int(fold))
    return found.replace(tzinfo=ZoneInfo(zone)) if zone else found


_ENCODER = msgspec.msgpack.Encoder()
