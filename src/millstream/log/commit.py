"""A commit: the one way to write to a log; all of it happens, or nothing.

Producers, transactions, exactly-once consumption, sinks and compaction are all commits.

>>> Commit(records=(Append("orders", 0, [(0, b"k", b"v", None)]),)).records[0].shard
0
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

import msgspec
import pyarrow as pa

from millstream.record import Row


class Durability(enum.StrEnum):
    """What an acknowledgement promises."""

    FIRE = "fire"  # nothing: errors are counted, not raised
    WRITTEN = "written"  # survives a killed process
    SYNCED = "synced"  # survives a power cut, and so does every commit before it


class Append(msgspec.Struct, frozen=True):
    """Records for one shard: rows (timestamp, key, value, headers), or Arrow in the form without seqs."""

    stream: str
    shard: int
    records: Sequence[Row] | pa.RecordBatch


class Staged(msgspec.Struct, frozen=True):
    """Records that are durable but invisible, until a commit names them."""

    token: str
    stream: str
    shard: int
    count: int


class Fence(msgspec.Struct, frozen=True):
    """What makes a commit happen once.

    A newer number of the same run is applied; the same run, number and digest give
    `Receipt(applied=False)` with the first positions; anything else raises `Fenced`.
    `position` is the application's own, kept with the fence (`Log.fence`).
    """

    name: str
    run: int
    number: int
    digest: bytes = b""
    position: bytes | None = None


class Expect(msgspec.Struct, frozen=True):
    """Refuse the commit (`Conflict`) unless the shard ends at this seq: a conditional append."""

    stream: str
    shard: int
    seq: int


class Offset(msgspec.Struct, frozen=True):
    """Move a group's offset from `expected` (None: it has none yet) to `next`.

    A mismatch, or another owner's generation, refuses the whole commit (`Conflict`, `Fenced`).
    Generation 0 is that of a shard which no member of the group ever owned.
    """

    group: str
    stream: str
    shard: int
    expected: int | None
    next: int
    generation: int = 0


class Mark(msgspec.Struct, frozen=True):
    """`writer` adds nothing older than `progress` (ms) to the shard after here; None: it has left."""

    stream: str
    shard: int
    writer: str
    progress: int | None


class Commit(msgspec.Struct, frozen=True):
    """Everything that becomes visible together."""

    records: tuple[Append, ...] = ()
    staged: tuple[Staged, ...] = ()
    offsets: tuple[Offset, ...] = ()
    fence: Fence | None = None
    expect: tuple[Expect, ...] = ()
    marks: tuple[Mark, ...] = ()


class Placed(msgspec.Struct, frozen=True):
    """Where records went: seqs `first` to `next - 1` of a shard."""

    stream: str
    shard: int
    first: int
    next: int


class Receipt(msgspec.Struct, frozen=True):
    """What a commit did.

    `applied` is False when the fence shows that it was done before; `placed` then tells where it
    went the first time. There is one `Placed` for each of the commit's `records`, then each of its
    `staged`, in their order.
    """

    applied: bool
    placed: tuple[Placed, ...]
    history: int


class FenceState(msgspec.Struct, frozen=True):
    """What a log knows of a name that commits under a fence."""

    name: str
    run: int
    number: int
    digest: bytes
    position: bytes | None
    placed: tuple[Placed, ...]
