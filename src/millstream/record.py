"""A record: an immutable fact, and the Arrow form in which batches of them travel.

>>> record = Record(seq=7, timestamp=0, key=b"k", value=b"v", headers=(), stream="orders", shard=0)
>>> record.stream, record.shard, record.seq
('orders', 0, 7)
>>> rows_to_batch([(0, b"k", b"v", None)], VALUE_BYTES).num_rows
1

The form of a batch is the same everywhere: `seq`, `timestamp` (ms, UTC), `key`, `value`, `headers`.
A null value is a tombstone; null headers mean that there are none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, repeat
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

TIMESTAMP_MS_MIN = -62_135_596_800_000  # 0001-01-01
TIMESTAMP_MS_MAX = 253_402_300_799_999  # 9999-12-31

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
HeadersLike: TypeAlias = Mapping[str, bytes | None] | Sequence[tuple[str, bytes | None]]
Row: TypeAlias = tuple[int, bytes | None, Any, Headers | None]  # timestamp, key, value, headers

VALUE_BYTES = pa.binary()
HEADERS_TYPE = pa.list_(
    pa.struct([pa.field("name", pa.utf8(), nullable=False), pa.field("value", pa.binary())])
)

RECORDS_PER_SLICE = 1_000  # small enough that the objects of a slice stay in the processor's cache


class Record(msgspec.Struct, frozen=True, gc=False):
    """One fact; its identity is (stream, shard, seq)."""

    seq: int
    timestamp: int
    key: bytes | None
    value: Any
    headers: Headers
    stream: str
    shard: int


@lru_cache(maxsize=1_000)
def batch_schema(value_type: pa.DataType) -> pa.Schema:
    """The form of a stream's batches, as it is stored and read."""
    return pa.schema([pa.field("seq", pa.int64(), nullable=False), *rows_schema(value_type)])


@lru_cache(maxsize=1_000)
def rows_schema(value_type: pa.DataType) -> pa.Schema:
    """The form of a batch that has no seqs yet: what is sent to a log."""
    return pa.schema(
        [
            pa.field("timestamp", pa.int64(), nullable=False),
            pa.field("key", pa.binary()),
            pa.field("value", value_type),
            pa.field("headers", HEADERS_TYPE),
        ]
    )


@lru_cache(maxsize=1)
def warm_up() -> None:
    """Let Arrow import what it imports when it makes its first array: pandas, where that is installed.

    It takes a third of a second, which nobody should spend holding a lock, and cannot be done any more while
    the interpreter ends.
    """
    pa.array([])


def rows_to_batch(rows: Sequence[Row], value_type: pa.DataType) -> pa.RecordBatch:
    """Rows (timestamp, key, value, headers) as one Arrow batch without seqs."""
    timestamps, keys, values, headers = zip(*rows, strict=True) if rows else ((), (), (), ())
    return pa.RecordBatch.from_arrays(
        [
            pa.array(timestamps, pa.int64()),
            pa.array(keys, pa.binary()),
            pa.array(values, value_type),
            headers_array(headers),
        ],
        schema=rows_schema(value_type),
    )


def with_seqs(batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
    """A batch without seqs in the stored form, counted from `first`."""
    seqs = pa.array(np.arange(first, first + batch.num_rows, dtype=np.int64))
    return pa.RecordBatch.from_arrays(
        [seqs, *batch.columns], schema=batch_schema(batch.schema.field("value").type)
    )


def headers_array(headers: Sequence[Headers | None]) -> pa.Array:
    """Headers as Arrow: null where there are none."""
    if not any(headers):
        return pa.nulls(len(headers), HEADERS_TYPE)
    return pa.array([[{"name": n, "value": v} for n, v in h] if h else None for h in headers], HEADERS_TYPE)


def records_of(batch: pa.RecordBatch, stream: str, shard: int) -> Iterator[Record]:
    """The records of a batch of the stored form, in order."""
    slices = (batch.slice(start, RECORDS_PER_SLICE) for start in range(0, batch.num_rows, RECORDS_PER_SLICE))
    # `chain` and `map` hand out records without running Python code in between.
    return chain.from_iterable(
        map(Record, *columns_of(part), repeat(stream), repeat(shard)) for part in slices
    )


def columns_of(
    batch: pa.RecordBatch,
) -> tuple[list[int], list[int], list[bytes | None], list[Any], Iterable[Headers]]:
    """The first five fields of a batch's records: a column of each."""
    headers = batch.column(4)
    bare = headers.null_count == len(headers)
    return (
        batch.column(0).to_pylist(),
        batch.column(1).to_pylist(),
        batch.column(2).to_pylist(),
        batch.column(3).to_pylist(),
        repeat(()) if bare else map(_headers, headers.to_pylist()),
    )


def _headers(items: list[dict[str, Any]] | None) -> Headers:
    return tuple((item["name"], item["value"]) for item in items or ())
