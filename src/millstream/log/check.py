"""The checks of what callers give, the same for every store, and the limits they keep.

>>> check_row((0, b"k", b"v", None))
>>> check_row((0, "k", b"v", None))
Traceback (most recent call last):
millstream.errors.WrongType: a key must be bytes or None, not str 'k': encode it, as in key='k'.encode()
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import isnan
from numbers import Integral, Number

import numpy as np
import pyarrow as pa

from millstream.errors import ShardOutOfRange, TooLarge, WrongType, shown
from millstream.log.batch import Limits
from millstream.log.commit import Append, Commit, Durability, Expect, Fence, Mark, Offset, Staged
from millstream.log.group import Place
from millstream.log.stream import Cleanup, Retention, Settings
from millstream.names import check_name
from millstream.record import (
    HEADERS_TYPE,
    TIMESTAMP_MS_MAX,
    TIMESTAMP_MS_MIN,
    VALUE_BYTES,
    Headers,
    HeadersLike,
    Row,
    rows_schema,
    rows_to_batch,
)

RECORD_BYTES_MAX = 64 << 20
COMMIT_BYTES_MAX = 512 << 20
COMMIT_PARTS_MAX = 100_000
SHARDS_MAX = 10_000
SEQ_MAX = 2**62
DIGEST_BYTES_MAX = 64
POSITION_BYTES_MAX = 64 << 10

_TIMEOUT_S_MAX = 1e9
_ARROW_BYTES = 64  # at most what Arrow adds to one record: its timestamp, offsets and bits
_PARTS = (
    ("records", Append),
    ("staged", Staged),
    ("offsets", Offset),
    ("expect", Expect),
    ("marks", Mark),
)
_BYTES_TESTS = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
    pa.types.is_binary_view,
)


def check_settings(
    *,
    shards: int,
    value: pa.DataType | pa.Schema | None,
    codec: str | None,
    retention: Retention | None,
    cleanup: Cleanup | str,
    tombstones_ms: int,
) -> Settings:
    """The settings of a new stream, checked."""
    if isinstance(value, pa.Schema):
        value = pa.struct(list(value))
    if value is not None and not isinstance(value, pa.DataType):
        raise WrongType(f"value={shown(value)} is no Arrow type: expected None, a pyarrow type or schema")
    if value is not None and (within := dictionary_in(value)) is not None:
        raise WrongType(
            f"value={shown(value)}: a dictionary is a way to send values, and batches are kept one by one, "
            f"each whole in itself; use {within.value_type}, and dictionary_decode() what you have"
        )
    if codec is not None:
        check_name("codec", codec)
    return Settings(
        shards=check_shards(shards),
        value=None if value == VALUE_BYTES else value,
        codec=codec,
        retention=check_retention(retention or Retention()),
        cleanup=check_cleanup(cleanup),
        tombstones_ms=check_positive("tombstones_ms", tombstones_ms),
    )


def dictionary_in(kind: pa.DataType) -> pa.DataType | None:
    """The first dictionary type in a type, if there is one."""
    if pa.types.is_dictionary(kind):
        return kind
    inner = (kind.field(place).type for place in range(kind.num_fields)) if pa.types.is_nested(kind) else ()
    return next((found for found in map(dictionary_in, inner) if found is not None), None)


def check_shards(shards: int) -> int:
    """How many shards a stream may have."""
    if type(shards) is not int or not 1 <= shards <= SHARDS_MAX:
        raise ShardOutOfRange(f"shards={shown(shards)}: a stream has 1 to {SHARDS_MAX} shards")
    return shards


def check_cleanup(cleanup: Cleanup | str) -> Cleanup:
    """A way to clean up, by name or as itself."""
    try:
        return Cleanup(cleanup)
    except ValueError:
        raise WrongType(
            f"cleanup={shown(cleanup)}: expected {' or '.join(map(repr, map(str, Cleanup)))}"
        ) from None


def check_durability(durability: Durability | str) -> Durability:
    """A durability, by name or as itself."""
    try:
        return Durability(durability)
    except ValueError:
        raise WrongType(
            f"durability={shown(durability)}: expected {' or '.join(map(repr, map(str, Durability)))}"
        ) from None


def check_retention(retention: Retention) -> Retention:
    """Retention whose limits are positive."""
    if not isinstance(retention, Retention):
        raise WrongType(f"retention={shown(retention)}: expected a millstream.Retention")
    for name in ("age_ms", "bytes", "records"):
        if getattr(retention, name) is not None:
            check_positive(f"retention.{name}", getattr(retention, name))
    if type(retention.force) is not bool:
        raise WrongType(f"retention.force={shown(retention.force)}: expected True or False")
    return retention


def check_positive(name: str, value: int) -> int:
    """A positive number of something."""
    if type(value) is not int or not 0 < value <= SEQ_MAX:
        raise WrongType(f"{name}={shown(value)}: expected a whole number from 1 to {SEQ_MAX}")
    return value


def check_seq(name: str, seq: int) -> int:
    """A number that can be a seq."""
    if type(seq) is not int or not 0 <= seq <= SEQ_MAX:
        raise WrongType(f"{name}={shown(seq)}: a seq is a whole number from 0 on")
    return seq


def check_ends(ends: Mapping[Place, int]) -> None:
    """A seq for each of some shards."""
    if not isinstance(ends, Mapping):
        raise WrongType(f"{shown(ends)}: expected a seq for each shard, as in {{('orders', 0): 7}}")
    check_places(ends)
    for seq in ends.values():
        check_seq("seq", seq)


def check_places(places: Iterable[Place]) -> None:
    """Pairs of a stream's name and a shard."""
    for place in places if isinstance(places, Iterable) else (places,):
        if not isinstance(place, tuple) or len(place) != 2:
            raise WrongType(f"{shown(place)} is no shard: expected (stream, shard), as in ('orders', 0)")


def check_timeout(timeout: float | None) -> float | None:
    """Seconds to wait, cut to what the system can; None: for ever."""
    if timeout is None:
        return None
    if not isinstance(timeout, int | float) or isnan(timeout):
        raise WrongType(f"timeout={shown(timeout)}: expected a number of seconds, or None to wait for ever")
    return min(timeout, _TIMEOUT_S_MAX)


def check_shard(stream: str, shard: int, shards: int) -> None:
    """A shard that the stream has."""
    if type(shard) is not int or not 0 <= shard < shards:
        raise ShardOutOfRange(
            f"stream '{stream}' has no shard {shown(shard)}: it has {shards}, 0 to {shards - 1}"
        )


def check_limits(limits: Limits) -> None:
    """Limits that let a read return something."""
    if not isinstance(limits, Limits):
        raise WrongType(f"limits={shown(limits)}: expected a millstream.Limits")
    check_positive("limits.records", limits.records)
    check_positive("limits.bytes", limits.bytes)


def check_timestamp(timestamp: int) -> None:
    """Milliseconds since 1970, UTC, in the years 1 to 9999."""
    if type(timestamp) is not int or not TIMESTAMP_MS_MIN <= timestamp <= TIMESTAMP_MS_MAX:
        raise WrongType(
            f"timestamp {shown(timestamp)} is out of range: expected whole milliseconds since 1970 (UTC), "
            f"from {TIMESTAMP_MS_MIN} (year 1) to {TIMESTAMP_MS_MAX} (year 9999)"
        )


def check_row(row: Row) -> None:
    """A record of a stream of bytes: types, range and size."""
    try:
        timestamp, key, value, headers = row
    except (TypeError, ValueError):
        raise _no_row(row) from None
    if type(timestamp) is not int or not TIMESTAMP_MS_MIN <= timestamp <= TIMESTAMP_MS_MAX:
        check_timestamp(timestamp)
    size = 0
    if key is not None:
        if type(key) is not bytes:
            raise _not_bytes("key", key)
        size += len(key)
    if value is not None:
        if type(value) is not bytes:
            raise _not_bytes("value", value)
        size += len(value)
    if headers is not None:
        if type(headers) not in {tuple, list}:
            raise _not_headers(headers, "pairs of str and bytes or None, in a tuple")
        size += sum(len(name) + len(data or b"") for name, data in header_pairs(headers))
    if size > RECORD_BYTES_MAX:
        raise _too_large(size)


def header_pairs(headers: HeadersLike) -> Headers:
    """Headers as pairs of a text and bytes, whatever way they were given."""
    try:
        pairs = tuple((n, v) for n, v in (headers.items() if isinstance(headers, Mapping) else headers))
        good = all(type(n) is str and (v is None or type(v) is bytes) for n, v in pairs)
        for name, _ in pairs if good else ():
            name.encode()  # half a surrogate pair is no text that could be written
    except (TypeError, ValueError):
        good = False
    if not good:
        raise _not_headers(headers, "a mapping, or pairs, of str to bytes or None")
    return pairs


def check_records(append: Append, value_type: pa.DataType) -> pa.RecordBatch | Sequence[Row]:
    """The records of an append: rows of a bytes stream as they are, everything else as Arrow."""
    records = append.records
    if isinstance(records, pa.RecordBatch):
        return check_batch(records, append.stream, value_type)
    if value_type == VALUE_BYTES:
        for row in records:
            check_row(row)
        return records
    for row in records:
        check_row((row[0], row[1], None, row[3]))
    try:
        for row in records:
            check_fits(row[2], value_type)
        batch = rows_to_batch(records, value_type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise WrongType(
            f"a value does not fit stream '{append.stream}', whose values are {value_type}: {error}"
        ) from None
    check_record_sizes(batch)
    check_nulls(batch.column(2), value_type, append.stream)
    return batch


def check_batch(batch: pa.RecordBatch, stream: str, value_type: pa.DataType) -> pa.RecordBatch:
    """An Arrow batch in the form without seqs, its columns in order and its timestamps in range."""
    if not isinstance(batch, pa.RecordBatch):
        raise WrongType(f"{shown(batch)} for stream '{stream}': expected a pyarrow.RecordBatch")
    schema = rows_schema(value_type)
    if batch.schema.names != schema.names or batch.schema.types != schema.types:
        raise WrongType(
            f"a batch for stream '{stream}' must have the columns "
            f"{', '.join(f'{f.name}: {f.type}' for f in schema)}; "
            f"this one has {', '.join(f'{f.name}: {f.type}' for f in batch.schema) or 'none'}"
        )
    timestamps = batch.column(0)
    if timestamps.null_count:
        raise WrongType(f"a batch for stream '{stream}' has records without a timestamp")
    if batch.num_rows:
        numbers = timestamps.to_numpy()
        check_timestamp(int(numbers.min()))
        check_timestamp(int(numbers.max()))
    check_record_sizes(batch)
    check_nulls(batch.column(2), value_type, stream)
    check_nulls(batch.column(3), HEADERS_TYPE, stream)
    if not batch.schema.equals(schema):
        batch = pa.RecordBatch.from_arrays(batch.columns, schema=schema)
    return batch


def check_record_sizes(batch: pa.RecordBatch) -> None:
    """Records that are each within the limit; only a batch that is over it is looked into."""
    if batch.nbytes <= RECORD_BYTES_MAX + _ARROW_BYTES:
        return
    if batch.num_rows == 1:
        raise _too_large(batch.nbytes - _ARROW_BYTES)
    half = batch.num_rows // 2
    check_record_sizes(batch.slice(0, half))
    check_record_sizes(batch.slice(half))


def check_nulls(array: pa.Array, kind: pa.DataType, stream: str) -> None:
    """Refuse nulls in fields whose type promises that there are none; Arrow itself does not look."""
    if not _promises(kind) or array.null_count == len(array):
        return
    array = array.drop_null()
    if not pa.types.is_struct(kind):
        check_nulls(array.flatten(), kind.field(0).type, stream)
        return
    for place, field in enumerate(kind):
        if not field.nullable and array.field(place).null_count:
            raise WrongType(f"a record for stream '{stream}' has no '{field.name}', and its type is not null")
        check_nulls(array.field(place), field.type, stream)


@lru_cache(maxsize=1_000)
def _promises(kind: pa.DataType) -> bool:
    """Whether a struct, or one in lists, has fields that are never null."""
    if pa.types.is_struct(kind):
        return any(not field.nullable or _promises(field.type) for field in kind)
    lists = pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list
    return any(test(kind) for test in lists) and _promises(kind.field(0).type)


def check_fits(value: object, kind: pa.DataType) -> None:
    """Refuse, with a `TypeError`, what Arrow would change in silence: 1.5 as an integer, an unknown field."""
    if value is None:
        return
    if pa.types.is_struct(kind):
        if isinstance(value, Mapping):
            if unknown := [name for name in value if kind.get_field_index(name) < 0]:
                raise TypeError(f"there is no field {', '.join(map(shown, unknown))}")
            value = tuple(value.get(field.name) for field in kind)
        for item, field in zip(_items(value), kind, strict=False):
            check_fits(item, field.type)
    elif pa.types.is_nested(kind) and kind.num_fields == 1:  # a list, of whatever sort, or a map
        for item in value.items() if isinstance(value, Mapping) else _items(value):
            check_fits(item, kind.field(0).type)
    elif isinstance(value, Number):
        if (pa.types.is_integer(kind) or pa.types.is_temporal(kind)) and not isinstance(value, Integral):
            raise TypeError(f"{shown(value)} is no whole number")
    elif isinstance(value, str | bytes) and isinstance(value, str) == _holds_bytes(kind):
        raise TypeError(f"{shown(value)} is {type(value).__name__}: {kind} holds the other of text and bytes")


def check_commit(commit: Commit) -> None:
    """Whatever can be known of a commit without its streams."""
    _check_parts(commit)
    if len(commit.records) + len(commit.staged) > COMMIT_PARTS_MAX:
        raise TooLarge(
            f"a commit of {len(commit.records) + len(commit.staged):,} parts: at most {COMMIT_PARTS_MAX:,}"
        )
    size = 0
    for append in commit.records:
        if isinstance(append.records, pa.RecordBatch):
            size += append.records.nbytes
        else:
            size += _rows_bytes(append.records)
    if size > COMMIT_BYTES_MAX:
        raise TooLarge(
            f"a commit of {size:,} bytes is over the limit of {COMMIT_BYTES_MAX:,}: "
            "split it, or stage its batches first"
        )
    if commit.fence is not None:
        if not isinstance(commit.fence, Fence):
            raise WrongType(f"fence={shown(commit.fence)}: expected a millstream.Fence, or None")
        check_fence(commit.fence)
    for expect in commit.expect:
        check_seq("expect.seq", expect.seq)
    for offset in commit.offsets:
        check_name("group", offset.group)
        check_seq("next", offset.next)
    for mark in commit.marks:
        check_name("writer", mark.writer)
        if mark.progress is not None:
            check_timestamp(mark.progress)


def _check_parts(commit: Commit) -> None:
    if not isinstance(commit, Commit):
        raise WrongType(f"{shown(commit)}: expected a millstream.Commit")
    for name, kind in _PARTS:
        parts = getattr(commit, name)
        if not isinstance(parts, tuple | list):
            raise WrongType(f"{name}={shown(parts)}: expected a tuple of {kind.__name__}")
        for part in parts:
            if not isinstance(part, kind):
                raise WrongType(f"{name} has {shown(part)}: expected a millstream {kind.__name__}")


def check_fence(fence: Fence) -> None:
    """A fence that a store can keep."""
    check_name("fence", fence.name)
    check_seq("run", fence.run)
    check_seq("number", fence.number)
    if type(fence.digest) is not bytes:
        raise _not_bytes("digest", fence.digest)
    if fence.position is not None and type(fence.position) is not bytes:
        raise _not_bytes("position", fence.position)
    if len(fence.digest) > DIGEST_BYTES_MAX:
        raise TooLarge(f"a digest of {len(fence.digest)} bytes: at most {DIGEST_BYTES_MAX}")
    if fence.position is not None and len(fence.position) > POSITION_BYTES_MAX:
        raise TooLarge(f"a position of {len(fence.position):,} bytes: at most {POSITION_BYTES_MAX:,}")


def _rows_bytes(rows: Sequence[Row]) -> int:
    """How many bytes the keys and values of rows have, and that they are rows at all."""
    if not isinstance(rows, Sequence):
        raise WrongType(
            f"records={shown(rows)}: expected rows (timestamp, key, value, headers) in a list or tuple, "
            "or a pyarrow.RecordBatch"
        )
    size = 0
    row: object = rows
    try:
        for row in rows:
            _, key, value, _ = row
            if type(key) is bytes:
                size += len(key)
            if type(value) is bytes:
                size += len(value)
    except (TypeError, ValueError):
        raise _no_row(row) from None
    return size


def _items(value: object) -> Iterable[object]:
    return value if isinstance(value, list | tuple | np.ndarray) else ()


def _holds_bytes(kind: pa.DataType) -> bool:
    return any(test(kind) for test in _BYTES_TESTS)


def _no_row(row: object) -> WrongType:
    return WrongType(f"{shown(row)} is no record: expected a tuple (timestamp, key, value, headers)")


def _not_headers(headers: object, expected: str) -> WrongType:
    return WrongType(f"headers={shown(headers)}: expected {expected}")


def _too_large(size: int) -> TooLarge:
    return TooLarge(
        f"a record of {size:,} bytes is over the limit of {RECORD_BYTES_MAX:,}: "
        "keep large objects elsewhere, and send where they are"
    )


def _not_bytes(what: str, value: object) -> WrongType:
    if isinstance(value, str):
        hint = f", as in {what}={shown(value)}.encode()"
    else:
        hint = ", or create the stream with an Arrow type" if what == "value" else ""
    return WrongType(
        f"a {what} must be bytes or None, not {type(value).__name__} {shown(value)}: encode it{hint}"
    )
