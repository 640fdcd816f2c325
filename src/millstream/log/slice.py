"""A slice: records that are handed out one by one without any Python code in between.

`records` runs in C, and still it is known at any time how far it has got, and another thread may cut
it short: the record that is being processed is then the last.

>>> import pyarrow as pa
>>> from millstream.record import VALUE_BYTES, rows_to_batch, with_seqs
>>> rows = [(0, None, b"a", None), (0, None, b"b", None), (0, None, b"c", None)]
>>> slice = Slice(with_seqs(rows_to_batch(rows, VALUE_BYTES), 5), 8, "orders", 0)
>>> next(slice.records).value, slice.given, slice.done_seq, slice.next_seq
(b'a', 1, 5, 6)
>>> slice.cut()
>>> list(slice.records), slice.given, slice.next_seq
([], 1, 6)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from operator import length_hint

import pyarrow as pa

from millstream.record import Record, columns_of


class Slice:
    """The records of one Arrow batch, as they are handed out."""

    def __init__(self, batch: pa.RecordBatch, end: int, stream: str, shard: int) -> None:
        """Take a batch that is not empty; `end` is where to read on after it."""
        seqs, timestamps, keys, values, headers = columns_of(batch)
        self.batch = batch
        self._first = seqs[0]
        self._end = end
        # `map` asks its columns in their order: where the seqs end, no timestamp is taken. So to clear
        # the list of seqs ends the records, and the timestamps that are left tell how many there were.
        self._open = seqs
        self._left = iter(timestamps)
        self.records: Iterator[Record] = map(
            Record, seqs, self._left, keys, values, headers, repeat(stream), repeat(shard)
        )

    @property
    def given(self) -> int:
        """How many records were handed out."""
        count: int = self.batch.num_rows - length_hint(self._left)
        return count

    @property
    def next_seq(self) -> int:
        """Where to read on after what was handed out."""
        given = self.given
        if given == self.batch.num_rows:
            return self._end
        return self._seq(given - 1) + 1 if given else self._first

    @property
    def done_seq(self) -> int:
        """The seq of the record that is being processed: all before it are done with."""
        given = self.given
        return self._seq(given - 1) if given else self._first

    @property
    def rest(self) -> pa.RecordBatch:
        """What was not handed out."""
        return self.batch.slice(self.given)

    def cut(self) -> None:
        """Hand out no more; any thread may call this."""
        self._open.clear()

    def _seq(self, row: int) -> int:
        seq: int = self.batch.column(0)[row].as_py()
        return seq
