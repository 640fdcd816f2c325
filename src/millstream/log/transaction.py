"""A transaction: records that were read, and what came of them, in one commit with their offset.

>>> from millstream.log.open import open
>>> log = open("memory:")
>>> log.create("orders"), log.create("bills")
(None, None)
>>> _ = log.append("orders", b"3 apples", key=b"ann")
>>> with log.consumer("orders", group="bills", deliver="once", until="end") as consumer:
...     for tx in consumer.transactions():
...         for order in tx:
...             tx.send("bills", b"to pay: " + order.value, key=order.key)
>>> [record.value for record in log.consumer("bills", until="end")], log.offsets("bills")
([b'to pay: 3 apples'], {('orders', 0): 1})
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

from millstream.errors import UsageError
from millstream.keyhash import shard_of
from millstream.log.batch import Batch
from millstream.log.check import check_row, check_shard, header_pairs
from millstream.log.commit import Append
from millstream.log.log import Log
from millstream.record import VALUE_BYTES, HeadersLike, Record, Row


class Transaction:
    """One batch of one shard, and the outputs that become visible together with its offset.

    It is committed by `commit`, at the end of its `with` block, or when `Consumer.transactions` is
    asked for the next. Where it is not, because of an error or a `break`, nothing of it happened and
    its records come again. If the shard was taken over by another member meanwhile, nothing of it
    is written, and `committed` is False: the records are the other's to process.

    `bool(tx)` tells whether there are records: there are none at the end, or after a time-out.
    """

    def __init__(
        self, log: Log, batch: Batch | None, commit: Callable[[Transaction, tuple[Append, ...]], bool]
    ) -> None:
        """Take what was read; None: nothing."""
        self.batch = batch
        self.committed: bool | None = None  # None: not yet, or aborted
        self.open = batch is not None
        self._log = log
        self._commit = commit
        self._rows: dict[tuple[str, int], list[Row]] = {}

    def __bool__(self) -> bool:
        """Whether there are records."""
        return self.batch is not None

    def __iter__(self) -> Iterator[Record]:
        """The records."""
        return iter(()) if self.batch is None else self.batch.records()

    def send(
        self,
        stream: str,
        value: object,
        *,
        key: bytes | None = None,
        timestamp: int | None = None,
        headers: HeadersLike | None = None,
        shard: int | None = None,
    ) -> None:
        """Write a record to a stream of the same log, when the transaction is committed.

        Its timestamp is the time of day by default. Without a key its shard is that of the records
        that were read, as far as the stream has so many.
        """
        if not self.open:
            why = "is over" if self.batch else "has no records: there was nothing to read"
            raise UsageError(f"this transaction {why}; send within one that `if tx:` finds true")
        settings = self._log.settings(stream)
        if shard is not None:
            check_shard(stream, shard, settings.shards)
        elif key is None or settings.shards == 1:
            shard = self.batch.shard % settings.shards if self.batch else 0
        row = (
            self._log.clock.now_ms() if timestamp is None else timestamp,
            key,
            value,
            None if headers is None else header_pairs(headers),
        )
        # A columnar value is checked by the commit.
        check_row(row if settings.value_type == VALUE_BYTES else (row[0], key, None, row[3]))
        if shard is None:
            shard = shard_of(key or b"", settings.shards)
        self._rows.setdefault((stream, shard), []).append(row)

    def commit(self) -> bool:
        """Make outputs and offset visible together; False if the shard is another's now."""
        if self.open:
            self.open = False
            appends = (Append(stream, shard, rows) for (stream, shard), rows in self._rows.items())
            self.committed = self._commit(self, tuple(appends))
        return bool(self.committed)

    def abort(self) -> None:
        """Forget the outputs; the records come again."""
        self.open = False
        self._rows.clear()

    def __enter__(self) -> Self:
        """The transaction itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit it, or abort it where there was an error."""
        if kind is None:
            self.commit()
        else:
            self.abort()
