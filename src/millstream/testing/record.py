"""Records that go into a model, and that come out of it.

Inputs are plain lists: of values where a source has no keys, of pairs (key, value) where it has, and of
`In` where more is to be said. Or text, where that is easier to read:

>>> from millstream.flow import Flow
>>> flow = Flow("f")
>>> _ = flow.source("orders", key=str, value=dict[str, int])
>>> text = '''
... key | cents
... ann | 30
... bob | 5
... '''
>>> [(record.key, record.value) for record in rows_of(text, str, dict[str, int])]
[('ann', {'cents': 30}), ('bob', {'cents': 5})]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect as kinds

from millstream.codec.kind import named
from millstream.errors import WrongType, shown

_OWN = ("key", "timestamp", "shard", "value")
_RULE = re.compile(r"[\s|:+-]*---[\s|:+-]*")


class In(NamedTuple):
    """A record to be put in; what is not said follows from its place in the list."""

    value: Any
    key: Any = None
    timestamp: int | None = None  # ms
    shard: int = 0


class Poison(NamedTuple):
    """Bytes to be put in as a value, as they would lie in the log: perhaps they cannot be read."""

    data: bytes


class Out(NamedTuple):
    """A record that came out."""

    key: Any
    value: Any
    timestamp: int


def pairs_of(stream: str, given: object) -> list[tuple[Any, Any]]:
    """Outputs as pairs (key, value)."""
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise WrongType(f"outputs of '{stream}': {shown(given)}; expected a list of pairs (key, value)")
    pairs = [item[:2] if isinstance(item, Out) else item for item in given]
    for item in pairs:
        if not isinstance(item, tuple) or len(item) != 2:
            raise WrongType(f"outputs of '{stream}': {shown(item)}; expected a pair (key, value)")
    return pairs


def rows_of(given: object, key: Any, value: Any) -> list[In]:
    """Inputs in whatever way they were given."""
    if isinstance(given, str):
        return list(_parsed(given, key, value))
    if not isinstance(given, Iterable):
        raise WrongType(f"{shown(given)}: expected a list of records, or a table in text")
    return [_row(item, has_key=key is not type(None)) for item in given]


def _row(item: Any, *, has_key: bool) -> In:
    if isinstance(item, In):
        return item
    if not has_key:
        return In(item)
    if isinstance(item, tuple) and len(item) == 2:
        return In(item[1], item[0])
    raise WrongType(
        f"{shown(item)}: this source has keys; expected a pair (key, value), or an In(value, key=…)"
    )


def _parsed(text: str, key: Any, value: Any) -> Iterable[In]:
    """The rows of a table in text: its columns are key, timestamp, shard, and value or the value's fields."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _RULE.fullmatch(line)]
    if not lines:
        return
    framed = lines[0].startswith("|")
    names, types = _cells(lines[0], framed=framed), _field_types(value)
    if "key" not in names and key not in {Any, type(None)}:
        raise WrongType(f"{lines[0]!r}: this source has keys; expected a column 'key'")
    unknown = [name for name in names if name not in _OWN and types is not None and name not in types]
    if unknown:
        raise WrongType(
            f"the column {unknown[0]!r} is no field of {named(value)}: it has {', '.join(types or ())}"
        )
    for line in lines[1:]:
        cells = _cells(line, framed=framed)
        if len(cells) != len(names):
            raise WrongType(f"{' | '.join(cells)!r}: expected {len(names)} columns, {' | '.join(names)}")
        row = dict(zip(names, cells, strict=True))
        fields = {
            name: _plain(cell, (types or {}).get(name)) for name, cell in row.items() if name not in _OWN
        }
        whole = row["value"] if "value" in row else {name: cell for name, cell in fields.items() if cell}
        yield In(
            _converted(whole, value),
            _converted(row["key"], key) if row.get("key") else None,
            int(row["timestamp"]) if row.get("timestamp") else None,
            int(row.get("shard") or 0),
        )


def _cells(line: str, *, framed: bool) -> list[str]:
    if framed:
        line = line.removeprefix("|").removesuffix("|")
    return [cell.strip() for cell in line.split("|")]


def _plain(cell: str, kind: kinds.Type | None) -> Any:
    """A field's text; of lists and the like, which are written as JSON, what it says."""
    inner = kind.types if isinstance(kind, kinds.UnionType) else (kind,)
    if cell[:1] not in {"[", "{"} or any(isinstance(one, kinds.StrType) for one in inner):
        return cell
    try:
        return msgspec.json.decode(cell)
    except msgspec.DecodeError:
        return cell


def _field_types(kind: Any) -> dict[str, kinds.Type] | None:
    """The types of a type's fields, by name; None where any will do."""
    try:
        info = kinds.type_info(kind)
    except (TypeError, NameError):
        return None
    return {field.name: field.type for field in info.fields} if hasattr(info, "fields") else None


def _converted(cell: Any, kind: Any) -> Any:
    """Text as a value of a type: lists and the like are written as JSON."""
    if kind in {str, Any}:
        return cell
    if kind is bytes:
        return cell.encode()
    try:
        if isinstance(cell, str) and cell[:1] in {"[", "{"}:
            cell = msgspec.json.decode(cell)
        return msgspec.convert(cell, kind, strict=False)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise WrongType(f"{shown(cell)} is no {named(kind)}: {error}") from None


def hashable(key: Any) -> Any:
    """A key that a dict can have: lists, maps and records that it cannot have, as tuples."""
    try:
        return {key: key}[key]
    except TypeError:
        if isinstance(key, list | tuple):
            return tuple(map(hashable, key))
        if isinstance(key, Mapping):
            return tuple(sorted(((name, hashable(item)) for name, item in key.items()), key=repr))
        return hashable(msgspec.to_builtins(key, enc_hook=repr))
