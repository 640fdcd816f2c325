"""Entries: every change of a log, one after the other; the state of a log is what they add up to.

There are two kinds. `Committed` is a commit with its seqs assigned; `Changed` is everything else, as
the rows of the state that are new. They are what the `file:` store writes to its journal.

>>> entry = Changed(1, (("pins", b"k", None),))
>>> decode_entries(encode_entries([entry])) == [entry]
True
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

import msgspec
import pyarrow as pa

from millstream.log.commit import Fence, Placed

# Numbers and names as they may be read back: within what Arrow and SQLite can hold, and no path leads out.
Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Signed: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]
SegmentName: TypeAlias = Annotated[
    str, msgspec.Meta(pattern=r"\A(?!\.{1,2}/)[a-zA-Z0-9._-]{1,249}/[a-zA-Z0-9_-]{1,99}\Z")
]


class Extent(msgspec.Struct, frozen=True, array_like=True):
    """Where an Arrow batch lies in a segment; `base` is the seq that it has there for its first record."""

    segment: SegmentName
    position: Whole
    length: Whole
    crc: Whole
    base: Whole
    first: Whole
    next: Whole
    count: Annotated[int, msgspec.Meta(ge=1, le=2**62)]
    oldest: Signed
    newest: Signed


class Part(msgspec.Struct, frozen=True, array_like=True):
    """Records of one shard: seqs `first` to `next - 1`, and the range of their timestamps.

    The records are rows (msgpack), or one Arrow batch (IPC), or lie in segments; a log in memory has
    them elsewhere.
    """

    stream: Whole
    shard: Whole
    first: Whole
    next: Whole
    oldest: Signed
    newest: Signed
    rows: bytes | None = None
    arrow: bytes | None = None
    extents: tuple[Extent, ...] = ()


class Committed(msgspec.Struct, frozen=True, array_like=True, tag="c"):
    """A commit that was applied. `staged` are the tokens it used up."""

    id: Whole
    at_ms: Signed
    parts: tuple[Part, ...]
    placed: tuple[Placed, ...] = ()  # of its fence
    fence: Fence | None = None
    offsets: tuple[tuple[str, Whole, Whole, Whole], ...] = ()  # group, stream, shard, next
    marks: tuple[tuple[Whole, Whole, str, Signed | None], ...] = ()  # stream, shard, writer, progress
    staged: tuple[str, ...] = ()


class Changed(msgspec.Struct, frozen=True, array_like=True, tag="s"):
    """Rows of the state that are new, or gone (None): table, key, row, both encoded."""

    id: Whole
    rows: tuple[tuple[str, bytes, bytes | None], ...]


Entry: TypeAlias = Committed | Changed


def encode_entries(entries: Sequence[Entry]) -> bytes:
    """Entries as msgpack."""
    return _ENCODER.encode(entries)


def decode_entries(data: bytes | memoryview) -> list[Entry]:
    """Entries from msgpack; `msgspec.DecodeError` if it is none of ours."""
    try:
        return _DECODER.decode(data)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"a text in an entry is none: {error}") from None


def encode_type(value: object) -> bytes:
    """Arrow types as the bytes of a schema, for msgspec."""
    if isinstance(value, pa.DataType):
        data: bytes = pa.schema([pa.field("value", value)]).serialize().to_pybytes()
        return data
    raise TypeError(f"cannot keep {value!r} in a log's state")


def decode_type(kind: type, value: bytes) -> pa.DataType:
    """The opposite of `encode_type`."""
    if issubclass(kind, pa.DataType):
        try:
            return pa.ipc.read_schema(pa.py_buffer(value)).field(0).type
        except (pa.ArrowException, OSError, IndexError) as error:
            raise ValueError(f"this is no Arrow type: {error}") from None
    raise TypeError(f"cannot read a {kind} in a log's state")


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[Entry])
