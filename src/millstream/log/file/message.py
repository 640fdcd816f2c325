"""Arrow messages as they are read back: looked over before Arrow makes a batch of them, and afterwards.

Arrow believes what a message says of its lengths and offsets. A message that says something else than
it holds could make it read outside of the file, or ask for any amount of memory: a checksum that fits
keeps accidents away from it, and not an enemy. So nothing that is compressed is taken, for ours never
is, and what the offsets of a batch point at is checked before anybody follows them.
"""

from __future__ import annotations

import struct

import pyarrow as pa

from millstream.errors import Damaged

_HEADER_SLOT = 8  # of a Message's table: what it is a message of
_COMPRESSION_SLOT = 10  # of a RecordBatch's table
_ANY_ERROR = (pa.ArrowException, OSError, EOFError, ValueError, OverflowError, MemoryError)


def read_batch(buffer: pa.Buffer, schema: pa.Schema, what: str, *, whole: bool) -> pa.RecordBatch:
    """The batch of a message; `whole`: look at every offset too, once is enough for the same bytes."""
    try:
        message = pa.ipc.read_message(buffer)
        if message.type != "record batch":
            raise Damaged(f"{what} cannot be read: it is a message of another kind, {message.type}")
        if _is_compressed(memoryview(message.metadata)):
            raise Damaged(f"{what} cannot be read: it is compressed, and millstream compresses nothing")
        batch = pa.ipc.read_record_batch(message, schema)
        if whole:
            batch.validate(full=True)
    except _ANY_ERROR as error:
        raise Damaged(f"{what} cannot be read: {error}") from error
    for field, column in zip(schema, batch.columns, strict=True):
        if not field.nullable and column.null_count:
            raise Damaged(f"{what} cannot be read: a '{field.name}' is missing")
    return batch


def _is_compressed(head: memoryview) -> bool:
    """Whether the head of a message, a flatbuffer that Arrow has found to be sound, names a compression."""
    table: int = struct.unpack_from("<I", head)[0]
    at = _slot(head, table, _HEADER_SLOT)
    if at is None:
        return False
    batch = at + struct.unpack_from("<I", head, at)[0]
    return _slot(head, batch, _COMPRESSION_SLOT) is not None


def _slot(head: memoryview, table: int, slot: int) -> int | None:
    """Where a field of a table is; None if it has none."""
    offsets = table - struct.unpack_from("<i", head, table)[0]
    if slot >= struct.unpack_from("<H", head, offsets)[0]:
        return None
    offset: int = struct.unpack_from("<H", head, offsets + slot)[0]
    return table + offset if offset else None
