"""A consumer: reads streams, alone or as one of a group, and remembers what is done with.

>>> import millstream
>>> log = millstream.open("memory:")
>>> log.create("orders")
>>> for order in (b"3 apples", b"1 pear", b"2 plums"):
...     _ = log.append("orders", order)
>>> with log.consumer("orders", group="bills", until="end") as consumer:
...     for record in consumer:
...         if record.value == b"2 plums":
...             break
>>> log.offsets("bills")
{('orders', 0): 2}

A record counts as done with when the next one is asked for, so the plums above come again. What
comes twice, or not at all, or exactly once is the choice of `deliver`:

- "repeat": offsets are committed after the records were processed. After a crash some come again.
- "once": `transactions` commits outputs together with offsets. After a crash nothing is there twice.
- "latest": fresh records for whoever looks now. What it cannot keep up with is skipped, and counted.

All other choices are listed at `millstream.log.options.Options`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from math import inf
from typing import Self, TypeVar, Unpack

from millstream.errors import Closed, Conflict, Fenced, UnknownStream, UsageError, shown
from millstream.log.batch import Batch
from millstream.log.check import check_seq, check_timeout, check_timestamp
from millstream.log.commit import Append
from millstream.log.cursor import Cursor, Position
from millstream.log.group import Place
from millstream.log.handle import Handle
from millstream.log.interest import Interest
from millstream.log.log import Log
from millstream.log.member import BEATS_PER_LEASE, Member, Pulse, new_member
from millstream.log.offsets import Offsets
from millstream.log.options import ConsumerOptions, Deliver, Options, Start, checked
from millstream.log.reader import Reader
from millstream.log.share import Manual, Share, Whole
from millstream.log.transaction import Transaction
from millstream.record import Record

T = TypeVar("T")

NAP_SECONDS = 0.25  # how long a waiting consumer may be deaf to `stop` and to its group


class Consumer(Handle):
    """Reads records; iterate over it, or call `poll`, `batches` or `transactions`.

    One thread reads. Any thread may call `stop`, `close`, `positions`, `lag` and `statistics`.
    """

    def __init__(
        self, log: Log, streams: str | Sequence[str] = (), **options: Unpack[ConsumerOptions]
    ) -> None:
        """Take streams, by names and patterns; join the group, if there is one."""
        self.options: Options = checked(streams, options)
        self._log = log
        self._process = os.getpid()
        self._lock = threading.RLock()  # around everything but waiting and processing
        self._stopped = self._closed = False
        self._pulse: Pulse | None = None
        assign = self.options.assign
        self._interest = Interest(log, streams if assign is None else sorted({place[0] for place in assign}))
        self._share = self._new_share()
        at_first = self._interest.ends()
        self._offsets = Offsets(log, self.options, at_first)
        self._reader = Reader(log, self.options, self._interest.stream_ends)
        self._transaction: Transaction | None = None
        self._commit_at = self._next_commit()
        self._followed: Mapping[Place, int] | None = None  # the share that the cursors are for
        self._share.refresh()
        try:
            self._follow_share()
        except BaseException:
            self._share.leave()
            raise
        if self.options.group is not None:
            seconds = min(self.options.lease / BEATS_PER_LEASE, self.options.commit_every or inf, 3_600.0)
            self._pulse = Pulse(seconds, self._attend)

    def _new_share(self) -> Share:
        options = self.options
        if options.assign is not None:
            return Manual(self._log, options.assign)
        if options.group is None:
            return Whole(self._log, self._interest)
        name = options.member or new_member()
        return Member(self._log, options.group, name, self._interest, lease=options.lease)

    # -- reading

    def __iter__(self) -> Iterator[Record]:
        """The records, one by one: the fastest way is also the plain one."""
        self._check_reading()
        return chain.from_iterable(self._slices())

    def _slices(self) -> Iterator[Iterator[Record]]:
        while (records := self._next(lambda: self._reader.take_slice(self._room()), None)) is not None:
            yield records

    def batches(self) -> Iterator[Batch]:
        """The records as Arrow batches, each of one shard."""
        self._check_reading()
        while (batch := self._next(self._reader.take_batch, None)) is not None:
            yield batch

    def poll(self, timeout: float | None = None) -> Batch | None:
        """One batch; None: there was nothing for so many seconds, or it is the end, or `stop`."""
        self._check_reading()
        return self._next(self._reader.take_batch, timeout)

    def transaction(self, timeout: float | None = None) -> Transaction:
        """One batch, for a `with` block whose outputs and offset are committed together."""
        self._check_reading(transactions=True)
        return self._begin(timeout)

    def transactions(self) -> Iterator[Transaction]:
        """One transaction after the other; each is committed when the next is asked for."""
        self._check_reading(transactions=True)
        while transaction := self._begin(None):
            yield transaction
            if not self._closed:  # else somebody has closed the consumer: the records come again
                transaction.commit()

    def _begin(self, timeout: float | None) -> Transaction:
        batch = self._next(self._reader.take_batch, timeout)
        with self._lock:
            self._transaction = Transaction(self._log, batch, self._commit_transaction)
            return self._transaction

    @property
    def finished(self) -> bool:
        """Whether everything was handed out that should be, up to the ends at the start."""
        with self._lock:
            return self.options.until == "end" and self._reader.finished

    # -- where it is

    def positions(self) -> dict[Place, Position]:
        """Where reading goes on in each shard: after what was handed out last."""
        with self._lock:
            return {place: cursor.position for place, cursor in self._reader.cursors.items()}

    def seek(self, stream: str, shard: int, position: int | Position) -> None:
        """Go on from a seq in a shard, or from what `positions` told."""
        where = position if isinstance(position, Position) else Position(position)
        check_seq("seq", where.seq)
        if where.history is not None:
            check_seq("history", where.history)
        with self._lock:
            self._settle()
            if (stream, shard) not in self._reader.cursors:
                mine = ", ".join(f"{name}/{number}" for name, number in sorted(self._reader.cursors))
                raise UsageError(
                    f"this consumer does not read stream {shown(stream)}, shard {shown(shard)}: "
                    f"it reads {mine or 'nothing now'}"
                )
            self._reader.move((stream, shard), where.seq, where.history)

    def seek_time(self, timestamp: int) -> None:
        """Go to the first record of each shard that is not older than this (ms, UTC)."""
        check_timestamp(timestamp)
        self._seek_all(lambda stream, shard, _: self._log.seek(stream, shard, timestamp))

    def seek_beginning(self) -> None:
        """Go to the first record of each shard."""
        self._seek_all(lambda _, __, ends: ends[0])

    def seek_end(self) -> None:
        """Go to the end of each shard."""
        self._seek_all(lambda _, __, ends: ends[1])

    def _seek_all(self, seq_of: Callable[[str, int, tuple[int, int]], int]) -> None:
        with self._lock:
            self._settle()
            ends = self._interest.ends()
            for place in list(self._reader.cursors):
                if place in ends:
                    self._reader.move(place, seq_of(*place, ends[place]))

    def lag(self) -> dict[Place, int]:
        """How many records there are after each position, at most: where seqs have gaps, fewer."""
        with self._lock:
            ends = self._interest.ends()
            at = self.positions()
            return {place: max(0, ends[place][1] - at[place].seq) for place in at if place in ends}

    def statistics(self) -> dict[str, int]:
        """Counts since the consumer was made.

        `skipped` counts seqs that were gone or passed over, `rewound` those read and then taken back
        by a power cut, `fenced` commits refused because the shard was another's, `rebalances` changes
        of the share, `waits` how often there was nothing to read.
        """
        with self._lock:
            counts = self._reader.counts
            return {name: counts[name] for name in _COUNTED} | {"records": self._reader.given}

    # -- what is done with

    def commit(self) -> bool:
        """Commit everything handed out, the record or batch in hand too.

        False: a shard of it was another's by now (counted as `fenced`); its records come again there.
        """
        self._check_open()
        if not self._offsets.kept:
            why = "has no group" if self.options.group is None else "is for the latest"
            raise UsageError(f"there are no offsets to commit: this consumer {why}")
        if self.options.deliver is Deliver.ONCE:
            raise UsageError("deliver='once' commits transactions: use `tx.commit()`")
        with self._lock:
            for cursor in self._reader.cursors.values():
                cursor.acknowledge()
            return self._commit_offsets()

    def stop(self) -> None:
        """End the iteration after the record or batch in hand; callable from a signal's handler."""
        self._stopped = True
        self._reader.cut()

    def close(self) -> None:
        """Commit what is done with, unless commits are yours to make, and leave the group."""
        self.stop()
        if self._pulse is not None:
            self._pulse.stop()
        if os.getpid() != self._process:
            return  # a fork has neither lock nor lease
        with self._lock:
            if self._closed:
                return
            self._closed = True
            with suppress(Closed):  # the log went first: what was done with comes again
                try:
                    if self.options.commits_by_itself:
                        self._commit_offsets()
                finally:
                    self._share.leave()

    def __enter__(self) -> Self:
        """The consumer itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def __repr__(self) -> str:
        """What it reads, and for whom."""
        asked = self.options.assign or sorted({*self._interest.names, *self._interest.patterns})
        group = f" group={self.options.group}" if self.options.group else ""
        return f"<Consumer {asked}{group} of {self._log.url}>"

    # -- between two batches

    def _next(self, take: Callable[[], T | None], timeout: float | None) -> T | None:
        """Say that what was handed out is done with, see to the group, and take what is next."""
        left, waited, idle = check_timeout(timeout), False, False
        while True:
            self._check_process()
            with self._lock:
                if self._closed:
                    return None
                self._settle()
                if self._stopped:
                    return None
                self._tend(idle=idle)
                found = take()
                if found is None and not waited:  # new streams and shards are looked for before a wait
                    self._tend(idle=True)
                    found = take()
                if found is not None:
                    if self._stopped:
                        self._reader.cut()
                    return found
                if self.options.until == "end" and self._reader.finished:
                    if self.options.commits_by_itself:
                        self._commit_offsets()
                    return None
                ends = self._reader.waiting_for()
                self._reader.counts["waits"] += not waited
            if left is not None and left <= 0:
                return None
            nap = NAP_SECONDS if left is None else min(NAP_SECONDS, left)
            waited, idle = True, not self._sleep(ends, nap)
            if idle and left is not None:
                left -= nap

    def _sleep(self, ends: dict[Place, int], seconds: float) -> bool:
        try:
            return self._log.wait(ends, seconds)
        except UnknownStream:  # deleted: what follows is decided where it is read
            return True

    def _settle(self) -> None:
        transaction, self._transaction = self._transaction, None
        if transaction is not None and transaction.batch is not None and transaction.committed is None:
            transaction.abort()
            self._reader.take_back()
            self._reader.counts["aborted"] += 1
        self._reader.settle()

    def _tend(self, *, idle: bool) -> None:
        """Commit what is due, keep the lease, and go along with changes of the share."""
        if self.options.commits_by_itself and self._commit_due():
            self._commit_offsets()
        self._share.tend(idle=idle)
        while self._share.release:
            self._release()
        self._follow_share()

    def _release(self) -> None:
        """Finish with the shards that others are to have."""
        if self.options.commits_by_itself:
            self._commit_offsets()
        self._share.give_back(tuple(self._share.release))

    def _follow_share(self) -> None:
        """Drop the shards that are not ours any more, and begin with those that are now."""
        owned, cursors = self._share.owned, self._reader.cursors
        if owned is self._followed:
            return
        self._followed = owned
        gone = [place for place, cursor in cursors.items() if owned.get(place) != cursor.generation]
        for place in gone:
            self._reader.drop(place)
        new = {place: generation for place, generation in owned.items() if place not in cursors}
        if new:
            begun = list(self._offsets.cursors(new, self._interest.ends()))
            for cursor in begun:
                self._reader.add(cursor)
            if self.options.start is Start.END:
                self._forget(self._offsets.commit_each([cursor for cursor in begun if cursor.dirty]))
        self._reader.counts["rebalances"] += bool(gone or new)

    def _attend(self) -> None:
        """What a `Pulse` calls: keep the lease, and ask for attention where it is needed."""
        if isinstance(self._share, Member):
            self._share.beat_quietly()
        if self._share.release or self._commit_due():
            self._reader.cut()

    # -- commits

    def _commit_due(self) -> bool:
        records = self.options.commit_records
        return self._log.clock.uptime() >= self._commit_at[0] or (
            records is not None and self._reader.given >= self._commit_at[1]
        )

    def _next_commit(self) -> tuple[float, int]:
        """When to commit offsets by itself: at which time, and after how many records."""
        every, records = self.options.commit_every, self.options.commit_records
        return (
            float("inf") if every is None else self._log.clock.uptime() + every,
            0 if records is None else self._reader.given + records,
        )

    def _room(self) -> int | None:
        """How many records may be handed out before a commit is due."""
        if self.options.commit_records is None or not self.options.commits_by_itself:
            return None
        return max(1, self._commit_at[1] - self._reader.given)

    def _commit_offsets(self) -> bool:
        """Commit what is done with; what is refused is another's now, and dropped."""
        self._commit_at = self._next_commit()
        cursors = [cursor for cursor in self._reader.cursors.values() if cursor.dirty]
        if not cursors:
            return True
        try:
            self._offsets.commit([(cursor, cursor.done) for cursor in cursors])
            refused: list[Cursor] = []
        except (Fenced, Conflict):
            if self._share.alone:
                raise
            refused = self._offsets.commit_each(cursors)
        except UnknownStream:
            self._reader.look()  # raises, unless only a pattern had asked for the stream
            refused = self._offsets.commit_each([c for c in cursors if c.place in self._reader.cursors])
        self._reader.counts["commits"] += len(refused) < len(cursors)
        self._forget(refused)
        return not refused

    def _commit_transaction(self, transaction: Transaction, appends: tuple[Append, ...]) -> bool:
        self._check_open()
        with self._lock:
            cursor, batch = self._reader.held, transaction.batch
            if transaction is not self._transaction or cursor is None or batch is None:
                return False
            try:
                self._offsets.commit([(cursor, batch.next_seq)], appends)
            except (Fenced, Conflict):
                if self._share.alone:
                    raise
                self._transaction = None
                self._forget([cursor])
                return False
            self._transaction = None
            self._reader.settle()
            self._reader.counts["transactions"] += 1
            return True

    def _forget(self, refused: list[Cursor]) -> None:
        """Drop the shards whose commits were refused, and ask the group what is ours."""
        if refused:
            self._reader.counts["fenced"] += len(refused)
            for cursor in refused:
                self._reader.drop(cursor.place)
            self._followed = None
            if not self._closed:
                self._share.refresh()

    # -- checks

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise Closed(
                f"{self!r} was made by process {self._process}, and this is its fork {os.getpid()}: "
                "make a new one, of a log that was opened after the fork"
            )

    def _check_open(self) -> None:
        self._check_process()
        if self._closed:
            raise Closed(f"{self!r} was closed: make a new one with log.consumer(...)")

    def _check_reading(self, *, transactions: bool = False) -> None:
        self._check_open()
        if transactions and self.options.deliver is not Deliver.ONCE:
            raise UsageError(
                f"deliver='{self.options.deliver}' has no transactions: use deliver='once', with a group"
            )
        if not transactions and self.options.deliver is Deliver.ONCE:
            raise UsageError("deliver='once' reads in transactions: for tx in consumer.transactions(): ...")


_COUNTED = (
    "records",
    "batches",
    "commits",
    "transactions",
    "aborted",
    "rebalances",
    "skipped",
    "rewound",
    "fenced",
    "waits",
)
