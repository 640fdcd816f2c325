"""Pages as Spark numbers them: for each an id that Spark's shuffle sends to a partition of its own.

>>> [spark_partition(page_id, 4) for page_id in page_ids(4)], page_ids(4)
([0, 1, 2, 3], [12, 6, 2, 0])
"""

from __future__ import annotations

from functools import lru_cache
from itertools import count

_WORD = 0xFFFFFFFF


@lru_cache(maxsize=64)
def _ids(pages: int) -> tuple[int, ...]:
    found: dict[int, int] = {}
    for number in count():
        found.setdefault(spark_partition(number, pages), number)
        if len(found) == pages:
            return tuple(found[place] for place in range(pages))
    raise AssertionError("numbers do not end")


def page_ids(pages: int) -> list[int]:
    """The id of each page."""
    return list(_ids(pages))


def spark_partition(number: int, partitions: int) -> int:
    """Where Spark's hash partitioning sends an int: Murmur3 with seed 42, as in its `hash` function."""
    mixed = _rotated(number * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD
    value = (_rotated(42 ^ mixed, 13) * 5 + 0xE6546B64) & _WORD
    value ^= 4
    value = (value ^ value >> 16) * 0x85EBCA6B & _WORD
    value = (value ^ value >> 13) * 0xC2B2AE35 & _WORD
    value ^= value >> 16
    signed = value - (1 << 32) if value >= 1 << 31 else value
    return signed % partitions


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _WORD
