"""What a read returns: Arrow batches of one shard, and what is known at their end.

>>> Limits(records=10).records
10
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import msgspec
import pyarrow as pa

from millstream.log.commit import Mark
from millstream.record import Record, records_of


class Limits(msgspec.Struct, frozen=True):
    """How much a read returns at most; at least one record comes whatever its size."""

    records: int = 100_000
    bytes: int = 8 << 20


DEFAULT_LIMITS = Limits()


class Batch(msgspec.Struct, frozen=True):
    """Committed records of one shard, in order.

    `next_seq` is where to read on (never `from_seq + records`: seqs have gaps), `end` the shard's
    committed end when this was read, `history` what positions past a power cut are told by,
    `marks` the newest mark of each writer at or before `next_seq`.
    """

    stream: str
    shard: int
    from_seq: int
    next_seq: int
    end: int
    history: int
    batches: tuple[pa.RecordBatch, ...]
    schema: pa.Schema
    marks: tuple[Mark, ...] = ()

    @property
    def num_records(self) -> int:
        """How many records there are."""
        return sum(batch.num_rows for batch in self.batches)

    @property
    def progress(self) -> int | None:
        """No record after `next_seq` is older than this, by the marks of all live writers."""
        return min((mark.progress for mark in self.marks if mark.progress is not None), default=None)

    def table(self) -> pa.Table:
        """The records as one Arrow table."""
        return pa.Table.from_batches(self.batches, self.schema)

    def records(self) -> Iterator[Record]:
        """The records, one by one."""
        return chain.from_iterable(records_of(batch, self.stream, self.shard) for batch in self.batches)
