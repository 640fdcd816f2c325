"""What a stream is: its settings, and the description of one.

>>> Retention(age_ms=60_000).bytes is None
True
"""

from __future__ import annotations

import enum

import msgspec
import pyarrow as pa

from millstream.record import VALUE_BYTES, batch_schema


class Cleanup(enum.StrEnum):
    """What upkeep does with old records."""

    DELETE = "delete"  # by retention
    COMPACT = "compact"  # the latest of each key is kept


class Retention(msgspec.Struct, frozen=True):
    """What is kept: whatever is older or more than this goes, oldest first. None: no limit.

    Retention stops at what jobs and groups have not finished, unless `force` says otherwise.
    Bytes and records count per shard.
    """

    age_ms: int | None = None
    bytes: int | None = None
    records: int | None = None
    force: bool = False


class Settings(msgspec.Struct, frozen=True):
    """How a stream is kept. `value` None: bytes; an Arrow type: a columnar stream."""

    shards: int = 1
    value: pa.DataType | None = None
    codec: str | None = None  # how the bytes of values are to be read: a name, recorded and not used
    retention: Retention = Retention()
    cleanup: Cleanup = Cleanup.DELETE
    tombstones_ms: int = 86_400_000  # how long compaction keeps tombstones

    @property
    def value_type(self) -> pa.DataType:
        """The Arrow type of values."""
        return VALUE_BYTES if self.value is None else self.value

    @property
    def schema(self) -> pa.Schema:
        """The form of the stream's batches."""
        return batch_schema(self.value_type)


class ShardInfo(msgspec.Struct, frozen=True):
    """One shard: seqs from `first` up to, and without, `end`."""

    shard: int
    first: int
    end: int
    synced_end: int
    records: int
    bytes: int
    batches: int
    oldest_ms: int | None
    newest_ms: int | None


class GroupInfo(msgspec.Struct, frozen=True):
    """One group's place in a stream. `lag` is an upper bound where seqs have gaps."""

    group: str
    offsets: dict[int, int]
    lag: int
    owners: dict[int, str]


class Description(msgspec.Struct, frozen=True):
    """All there is to say of a stream."""

    stream: str
    settings: Settings
    shards: tuple[ShardInfo, ...]
    groups: tuple[GroupInfo, ...]
    pins: dict[str, dict[int, int]]

    @property
    def records(self) -> int:
        """How many records the stream holds."""
        return sum(shard.records for shard in self.shards)

    @property
    def bytes(self) -> int:
        """How many bytes they take in the store."""
        return sum(shard.bytes for shard in self.shards)
