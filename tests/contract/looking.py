"""What tests look at: the records of a shard, and everything a log shows."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from millstream.errors import MillstreamError
from millstream.log import Limits, Log
from millstream.log.can import Can
from millstream.record import VALUE_BYTES, Record, Row, rows_to_batch

FENCES = ("sink", "other")
GROUPS = ("g", "h")


def rows(*values: object, at: int = 0) -> list[Row]:
    """Rows without keys, all of one time."""
    return [(at, None, value, None) for value in values]


def arrow(*values: object, at: int = 0, kind: pa.DataType = VALUE_BYTES) -> pa.RecordBatch:
    """The same as Arrow."""
    return rows_to_batch(rows(*values, at=at), kind)


def keyed(*pairs: tuple[bytes | None, object], at: int = 0) -> list[Row]:
    """Rows (key, value), all of one time."""
    return [(at, key, value, None) for key, value in pairs]


def records(log: Log, stream: str, shard: int = 0, limits: Limits | None = None) -> list[Record]:
    """All records of a shard, read on and on from the first that is left."""
    first, end = log.ends(stream)[shard]
    found: list[Record] = []
    seq = first
    while seq < end:
        batch = log.read(stream, shard, seq, limits or Limits())
        assert (batch.stream, batch.shard, batch.from_seq) == (stream, shard, seq)
        assert seq < batch.next_seq <= batch.end
        part = list(batch.records())
        assert all(seq <= record.seq < batch.next_seq for record in part)
        assert part or batch.next_seq == batch.end
        found += part
        seq = batch.next_seq
    assert [record.seq for record in found] == sorted({record.seq for record in found})
    return found


def values(log: Log, stream: str, shard: int = 0) -> list[Any]:
    """The values of all records of a shard."""
    return [record.value for record in records(log, stream, shard)]


def picture(log: Log) -> dict[str, Any]:
    """Everything that a log shows of itself, as far as it can keep such things."""
    found: dict[str, Any] = {}
    for stream in log.streams():
        description = log.describe(stream)
        shards = range(len(log.ends(stream)))
        found[stream] = {
            "settings": description.settings,
            "ends": log.ends(stream),
            "records": [records(log, stream, shard) for shard in shards],
            "marks": [log.read(stream, shard, log.ends(stream)[shard][1]).marks for shard in shards],
            "groups": description.groups,
            "pins": description.pins,
        }
    if Can.FENCE in log.can:
        found["fences"] = [log.fence(name) for name in FENCES]
    if Can.OFFSETS in log.can:
        found["offsets"] = [log.offsets(group) for group in GROUPS]
    return found


@contextmanager
def refused(
    log: Log, error: type[MillstreamError], *words: str
) -> Iterator[pytest.ExceptionInfo[MillstreamError]]:
    """What is done in here must raise that, in these words, and must not change anything."""
    before = picture(log)
    with pytest.raises(error) as caught:
        yield caught
    assert type(caught.value) is error
    for word in words:
        assert word in str(caught.value)
    assert picture(log) == before


def ends_of(log: Log, streams: Iterable[str]) -> dict[str, list[tuple[int, int]]]:
    """First seq and end of each shard of some streams."""
    return {stream: log.ends(stream) for stream in streams}
