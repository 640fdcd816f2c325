"""Parcels: records on their way to a page, as one piece of bytes that Spark carries without looking at it.

A header says where they go and where they come from; the columns follow as one Arrow message, whose schema
follows from the header.

>>> header = Header(node=3, place=0, level=1, source="orders", shard=0, count=1, first=7)
>>> columns = [pa.array([1_000]), pa.array([b"ann"], pa.binary()), pa.array([b"7"], pa.binary())]
>>> data = encode_parcel(header, columns)
>>> again, columns = decode_parcel(data)
>>> again == header, columns["key"].to_pylist()
(True, [b'ann'])
"""

from __future__ import annotations

import struct

import msgspec
import pyarrow as pa

from millstream.engine.stage.plan import Signed, Ticket, Whole
from millstream.errors import Damaged

BEAT = -1  # of `node`: a parcel without records, so that a page learns of the epoch
REPORT = -2  # what the driver is told
STATE = -3  # states that move to another page
DEEPEST = 1 << 20  # the level of reports: they go through all

PARCEL_BYTES_MAX = 1 << 30
_LENGTH = struct.Struct("<I")


class Header(msgspec.Struct, frozen=True, array_like=True):
    """Where a parcel goes and comes from.

    `at` is the running maximum of timestamps at its last record: parcels are put in that order. Records
    come from one shard of `source`, or, where that is None, have columns that say which.
    """

    node: Signed
    place: Whole = 0
    level: Whole = 0
    at: Signed = 0
    progress: Signed | None = None
    stage: Whole = 0  # the level it comes from
    upstream: Signed = -1  # and the page; -1: it was read from a source
    number: Whole = 0
    source: str | None = None
    shard: Whole = 0
    streams: tuple[str, ...] = ()
    count: Whole = 0
    first: Whole | None = None  # the seqs count from here; None: there is a column of them
    sorted: bool = True  # the running maximum is the timestamp; else there is a column of it
    reader: Signed = -1  # the source whose codec the values are in; -1: the runtime's own
    partial: bool = False
    column: bytes = b""  # the type of values that are Arrow, as a schema
    ticket: Ticket | None = None  # of a beat
    report: dict[str, Whole] | None = None


def encode_parcel(header: Header, columns: list[pa.Array]) -> bytes:
    """A parcel as bytes."""
    head = _ENCODER.encode(header)
    schema = _schema(header)
    body = pa.RecordBatch.from_arrays(columns, schema=schema).serialize() if columns else b""
    return b"".join((_LENGTH.pack(len(head)), head, body))


def header_of(data: bytes) -> Header:
    """Only the header."""
    return _split(data)[0]


def decode_parcel(data: bytes) -> tuple[Header, dict[str, pa.Array]]:
    """A parcel again."""
    header, start = _split(data)
    if not header.count:
        return header, {}
    try:
        schema = _schema(header)
        batch = pa.ipc.read_record_batch(pa.py_buffer(memoryview(data)[start:]), schema)
    except (pa.ArrowException, OSError, EOFError) as error:
        raise Damaged(f"a parcel cannot be read: {error}") from None
    if batch.num_rows != header.count:
        raise Damaged(f"a parcel of {header.count} records has {batch.num_rows}")
    return header, dict(zip(schema.names, batch.columns, strict=True))


def _split(data: bytes) -> tuple[Header, int]:
    if len(data) < _LENGTH.size or len(data) > PARCEL_BYTES_MAX:
        raise Damaged(f"a parcel of {len(data)} bytes")
    (length,) = _LENGTH.unpack_from(data)
    start = _LENGTH.size + length
    if start > len(data):
        raise Damaged(f"a parcel of {len(data)} bytes whose header has {length}")
    try:
        return _DECODER.decode(data[_LENGTH.size : start]), start
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Damaged(f"a parcel's header cannot be read: {error}") from None


def _schema(header: Header) -> pa.Schema:
    """The columns that follow a header."""
    value = pa.ipc.read_schema(pa.py_buffer(header.column)).field(0).type if header.column else pa.binary()
    fields = [pa.field("time", pa.int64()), pa.field("key", pa.binary()), pa.field("value", value)]
    if header.first is None:
        fields.append(pa.field("seq", pa.int64()))
    if not header.sorted:
        fields.append(pa.field("high", pa.int64()))
    if header.source is None:
        fields += [pa.field("stream", pa.int16()), pa.field("shard", pa.int32())]
    return pa.schema(fields)


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Header)
