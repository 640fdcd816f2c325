"""Which shard a key belongs to: murmur2, as Kafka's default partitioner has it.

>>> shard_of(b"ann", 8)
2
>>> shards_of(pa.array([b"ann", None]), 8).tolist()
[2, -1]
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

BUCKETS = 4096  # of keys: the units that move when a job is rescaled
NO_KEY = -1

_SEED = 0x9747B28C
_FACTOR = 0x5BD1E995
_WORD = 0xFFFFFFFF
_SIGN = 0x7FFFFFFF
_VECTOR_KEY_BYTES_MAX = 256  # longer keys are hashed one by one: a vector of few long keys gains nothing

Numbers: TypeAlias = npt.NDArray[np.int64]


@lru_cache(maxsize=65_536)
def shard_of(key: bytes, shards: int) -> int:
    """The shard of a key."""
    return (murmur2(key) & _SIGN) % shards


def shards_of(keys: pa.Array, shards: int) -> Numbers:
    """The shard of each key of a binary array; -1 where the key is null."""
    found = (hashes_of(keys) & np.uint32(_SIGN)).astype(np.int64) % shards
    if keys.null_count:
        found[keys.is_null().to_numpy(zero_copy_only=False)] = NO_KEY
    return found


def buckets_of(keys: pa.Array) -> Numbers:
    """The bucket of each key; -1 where the key is null."""
    return shards_of(keys, BUCKETS)


def murmur2(key: bytes) -> int:
    """The 32-bit hash of a key."""
    whole = len(key) & ~3
    value = _SEED ^ len(key)
    for (word,) in struct.iter_unpack("<I", key[:whole]):
        mixed = word * _FACTOR & _WORD
        value = (value * _FACTOR & _WORD) ^ ((mixed ^ mixed >> 24) * _FACTOR & _WORD)
    if len(key) > whole:
        value = (value ^ int.from_bytes(key[whole:], "little")) * _FACTOR & _WORD
    value = (value ^ value >> 13) * _FACTOR & _WORD
    return value ^ value >> 15


def hashes_of(keys: pa.Array) -> npt.NDArray[np.uint32]:
    """The hash of each key, word by word over all keys at once."""
    keys = keys.cast(pa.binary()) if keys.type != pa.binary() else keys
    _, offsets_buffer, data = keys.buffers()
    count = len(keys)
    if count == 0 or data is None or data.size < 4:
        return np.array([murmur2(key or b"") for key in keys.to_pylist()], np.uint32)
    offsets = np.frombuffer(offsets_buffer, np.int32)[keys.offset : keys.offset + count + 1].astype(np.int64)
    starts, lengths = offsets[:-1], np.diff(offsets)
    words = np.ndarray((data.size - 3,), "<u4", buffer=data, strides=(1,))
    factor = np.uint32(_FACTOR)
    values = np.uint32(_SEED) ^ lengths.astype(np.uint32)
    short = lengths <= _VECTOR_KEY_BYTES_MAX
    rows = np.flatnonzero(short & (lengths >= 4))
    position = 0
    while rows.size:
        mixed = words[starts[rows] + position] * factor
        mixed ^= mixed >> np.uint32(24)
        values[rows] = values[rows] * factor ^ mixed * factor
        position += 4
        rows = rows[lengths[rows] >= position + 4]
    _mix_tails(values, np.frombuffer(data, np.uint8), starts, lengths, short)
    values ^= values >> np.uint32(13)
    values *= factor
    values ^= values >> np.uint32(15)
    for row in np.flatnonzero(~short):
        values[row] = murmur2(keys[int(row)].as_py() or b"")
    return values


def _mix_tails(
    values: npt.NDArray[np.uint32],
    data: npt.NDArray[np.uint8],
    starts: Numbers,
    lengths: Numbers,
    short: npt.NDArray[np.bool_],
) -> None:
    """Mix in the one to three bytes that are left over after the last whole word."""
    rows = np.flatnonzero(short & (lengths & 3 > 0))
    tails = np.zeros(rows.size, np.uint32)
    left = lengths[rows] & 3
    first = starts[rows] + (lengths[rows] & ~3)
    for byte in range(3):
        has = left > byte
        tails[has] |= data[first[has] + byte].astype(np.uint32) << np.uint32(8 * byte)
    values[rows] = (values[rows] ^ tails) * np.uint32(_FACTOR)
