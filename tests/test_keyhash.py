"""Keys to shards: the values of Kafka's murmur2, and the vectorised form gives the same."""

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millstream.keyhash import BUCKETS, buckets_of, murmur2, shard_of, shards_of

# Of Kafka's own tests (UtilsTest.testMurmur2), as signed numbers.
KAFKA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
# Long keys, and those at the edges of words, where vectors and loops differ most.
keys = st.none() | st.binary(max_size=20) | st.integers(250, 270).flatmap(lambda n: st.binary(max_size=n))


@pytest.mark.parametrize("key", KAFKA)
def test_the_hash_is_that_of_kafka(key: bytes) -> None:
    assert murmur2(key) == KAFKA[key] % 2**32
    assert shard_of(key, 12) == (KAFKA[key] & 0x7FFFFFFF) % 12
    assert shards_of(pa.array([key]), 12).tolist() == [shard_of(key, 12)]


@given(
    st.lists(keys),
    st.integers(1, 10_000),
    st.sampled_from([pa.binary(), pa.large_binary()]),
    st.integers(0, 5),
    st.integers(0, 5),
)
@example([], 3, pa.binary(), 0, 0)
@example([b"", None, b""], 3, pa.binary(), 1, 0)
@example([b"abc", None, b"abcd" * 65, b"a" * 256, b"a" * 257], 3, pa.binary(), 0, 0)
@example([b"x" * 300, b"", b"xyz"], 3, pa.large_binary(), 1, 0)
def test_a_vector_of_keys_goes_where_each_key_goes(
    listed: list[bytes | None], shards: int, kind: pa.DataType, before: int, after: int
) -> None:
    array = pa.array(listed, kind)[before : max(before, len(listed) - after)]
    one_by_one = [-1 if key is None else shard_of(key, shards) for key in array.to_pylist()]
    assert shards_of(array, shards).tolist() == one_by_one
    assert all(-1 <= shard < shards for shard in one_by_one)


@given(st.lists(keys))
def test_a_bucket_is_a_shard_of_4096(listed: list[bytes | None]) -> None:
    array = pa.array(listed, pa.binary())
    assert buckets_of(array).tolist() == shards_of(array, BUCKETS).tolist()


def test_what_lies_under_a_null_is_not_a_key() -> None:
    values = pa.array([b"abc", b"hidden", b"abc"])
    mask = pa.py_buffer(bytes([0b101]))
    nulls = pa.Array.from_buffers(pa.binary(), 3, [mask, *values.buffers()[1:]])
    assert nulls.to_pylist() == [b"abc", None, b"abc"]
    assert shards_of(nulls, 8).tolist() == [shard_of(b"abc", 8), -1, shard_of(b"abc", 8)]


def test_texts_are_hashed_as_their_bytes() -> None:
    assert shards_of(pa.array(["foobar", "ä"]), 8).tolist() == [
        shard_of(b"foobar", 8),
        shard_of("ä".encode(), 8),
    ]


def test_keys_spread_over_the_shards() -> None:
    counts = [0] * 8
    for shard in shards_of(pa.array([b"key-%d" % number for number in range(8_000)]), 8).tolist():
        counts[shard] += 1
    assert min(counts) > 850
