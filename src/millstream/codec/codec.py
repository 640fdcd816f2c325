"""A codec: a type, and how its values become bytes.

>>> codec_of(str).name, codec_of(int).name, codec_of(bytes).name
('str', 'json', 'bytes')
>>> codec_of(int).encode(7)
b'7'
>>> codec_of(int).decode(b"seven")
Traceback (most recent call last):
millstream.errors.WrongType: b'seven' is no int in 'json': JSON is malformed: invalid character (byte 0)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from millstream.codec.anything import Anything
from millstream.codec.kind import is_exact, named
from millstream.errors import UsageError, WrongType, shown

CODECS = ("json", "msgpack", "str", "bytes")


class Codec(NamedTuple):
    """How the values of a type become bytes, and are made of them again."""

    name: str
    kind: Any
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    # The same for loops over many: what they raise is whatever the package below raises.
    bare_encode: Callable[[Any], bytes]
    bare_decode: Callable[[bytes], Any]


def codec_of(kind: Any, name: str | None = None) -> Codec:
    """The codec of a type: the one named, or what suits it (text and bytes as they are, else JSON)."""
    name = name or {str: "str", bytes: "bytes"}.get(kind, "json")
    try:
        return _made(kind, name)
    except TypeError as error:
        raise WrongType(f"values of type {named(kind)} cannot be written as {name!r}: {error}") from None


def key_codec(kind: Any, name: str | None = None) -> Codec:
    """The codec of keys: one key is one text of bytes, whatever made it."""
    found = codec_of(kind, name)
    return found if found.name in {"str", "bytes"} else _canonical(kind, found.name)


def state_codec(kind: Any, records: Mapping[str, type] | None = None) -> Codec:
    """The codec of states: what comes back equals what went. `records` are classes that may be in it."""
    if is_exact(kind):
        with suppress(WrongType):  # which of a union's types it is, msgpack cannot always say
            return codec_of(kind, "msgpack")
    anything = Anything(records)
    return Codec("anything", kind, anything.encode, anything.decode, anything.encode, anything.decode)


@lru_cache(maxsize=1_000)
def _made(kind: Any, name: str) -> Codec:
    if name in {"str", "bytes"}:
        if kind not in {str if name == "str" else bytes, Any}:
            raise WrongType(
                f"values of type {named(kind)} are not written as {name!r}: use 'json' or 'msgpack'"
            )
        if name == "str":
            return Codec(name, kind, _encode_str, _decode_str, _encode_str, bytes.decode)
        return Codec(name, kind, _as_bytes, _as_bytes, _as_bytes, _as_bytes)
    if name not in {"json", "msgpack"}:
        raise UsageError(f"there is no codec {name!r}: expected {', '.join(map(repr, CODECS))}")
    module = msgspec.json if name == "json" else msgspec.msgpack
    encode, decode = module.Encoder().encode, module.Decoder(kind).decode
    return Codec(name, kind, _encoder(name, encode), _decoder(name, kind, decode), encode, decode)


@lru_cache(maxsize=1_000)
def _canonical(kind: Any, name: str) -> Codec:
    found = _made(kind, name)
    module = msgspec.json if name == "json" else msgspec.msgpack
    encode = module.Encoder(order="deterministic").encode
    return found._replace(encode=_encoder(name, encode), bare_encode=encode)


def _encoder(name: str, encode: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    def checked(value: object) -> bytes:
        try:
            return encode(value)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise WrongType(f"{shown(value)} cannot be written as {name!r}: {error}") from None

    return checked


def _decoder(name: str, kind: object, decode: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def checked(data: bytes) -> object:
        try:
            return decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise WrongType(f"{shown(data)} is no {named(kind)} in {name!r}: {error}") from None

    return checked


def _encode_str(value: str) -> bytes:
    if type(value) is not str:
        raise WrongType(f"{shown(value)} is {named(type(value))}; expected str")
    return value.encode()


def _decode_str(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise WrongType(f"{shown(data)} is no text in UTF-8: {error}") from None


def _as_bytes(value: bytes) -> bytes:
    if type(value) is not bytes:
        raise WrongType(f"{shown(value)} is {named(type(value))}; expected bytes")
    return value
