"""The outbox: the buffer between those who send and the one thread that writes.

>>> outbox = Outbox(Bounds(linger_s=0.0))
>>> sent = outbox.put((0, None, b"two apples", None), 10)
>>> sent.done
False
>>> outgoing = outbox.take()
>>> outgoing.place((Placed("orders", 0, 7, 8),))
>>> outbox.finish(outgoing)
>>> sent.wait().seq
7

One lock guards it all. `Producer.send` adds to `open` by itself as long as its limits allow, because
a call would cost as much as all the rest; everything else happens here.
"""

from __future__ import annotations

import enum
import os
import threading
import time
import weakref
from collections import Counter, deque

import msgspec
import pyarrow as pa

from millstream.errors import Closed, MillstreamError, Overflow, TimedOut
from millstream.log.check import check_timeout
from millstream.log.commit import Placed
from millstream.log.outgoing import Outgoing, RecordId
from millstream.record import Row

_UNTOLD_MAX = 1_000


class OverflowPolicy(enum.StrEnum):
    """What happens to a record for which there is no room, because the store is slow."""

    BLOCK = "block"  # the sender waits, and gets `TimedOut` at last
    DROP_NEWEST = "drop_newest"  # this record is not written
    DROP_OLDEST = "drop_oldest"  # the oldest that waits is not written
    ERROR = "error"  # the sender gets `Overflow`


class Bounds(msgspec.Struct, frozen=True):
    """How much goes into one commit, how much may wait, how long, and what happens then."""

    linger_s: float = 0.005
    batch_records: int = 10_000
    batch_bytes: int = 4 << 20
    buffer: int = 100_000
    buffer_bytes: int = 64 << 20
    overflow: OverflowPolicy = OverflowPolicy.BLOCK
    timeout_s: float = 30.0
    quiet: bool = False  # what would be raised to senders is counted


class Sent(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The receipt of one record: wait on it to learn where the record went, or why it did not."""

    outbox: Outbox
    outgoing: Outgoing
    index: int

    @property
    def done(self) -> bool:
        """Whether the record's fate is known."""
        return self.outgoing.done or self.index < self.outgoing.start

    def wait(self, timeout: float | None = None) -> RecordId:
        """Where the record was written; it lingers no longer. Raises what kept it from that.

        `TimedOut` if that is not known in time: then it may still be written.
        """
        self.outbox.wait(self.outgoing, self.index, timeout)
        return self.outgoing.id_of(self.index)

    def __repr__(self) -> str:
        """Whether it is done."""
        return f"<Sent {'done' if self.done else 'pending'}>"


class SentBatch(msgspec.Struct, frozen=True, eq=False):
    """The receipt of an Arrow batch."""

    outbox: Outbox
    outgoing: Outgoing

    @property
    def done(self) -> bool:
        """Whether the batch's fate is known."""
        return self.outgoing.done

    def wait(self, timeout: float | None = None) -> tuple[Placed, ...]:
        """Where the batch was written, shard by shard; as `Sent.wait`."""
        self.outbox.wait(self.outgoing, 0, timeout)
        return self.outgoing.placed

    def __repr__(self) -> str:
        """Whether it is done."""
        return f"<SentBatch {'done' if self.done else 'pending'}>"


class Outbox:
    """Records that wait, in order: `open` grows, the ones before it wait in a queue."""

    def __init__(self, bounds: Bounds) -> None:
        """Start empty."""
        self.bounds = bounds
        self.counts: Counter[str] = Counter()
        self.open = self._none = Outgoing(0.0)  # its limits are 0: nothing is ever added to it
        self.failure: MillstreamError | None = None  # why all was given up
        self._closed: Closed | None = None
        self._untold: dict[int, MillstreamError] = {}  # errors that nobody has been told of, by id
        self._queue: deque[Outgoing] = deque()
        self._queued_records = 0
        self._queued_bytes = 0
        self._in_flight: Outgoing | None = None
        self._closing = False
        self._make_locks()
        _OUTBOXES.add(self)

    def _make_locks(self) -> None:
        self.lock = threading.Lock()
        self._work = threading.Condition(self.lock)  # the writer waits for records
        self._changed = threading.Condition(self.lock)  # senders wait for room, and for results

    # -- senders

    def put(self, row: Row, size: int, shard: int | None = None, position: bytes | None = None) -> Sent:
        """Take in a row, or do what the policy says if there is no room for it."""
        with self.lock:
            refused = self._admit(1, size)
            if refused is not None:
                return Sent(self, refused, 0)
            outgoing = self._opened()
            index = len(outgoing.rows)
            outgoing.rows.append(row)
            outgoing.bytes += size
            if shard is not None:
                outgoing.shards[index] = shard
            if position is not None:
                outgoing.position = position
            self._set_limits(outgoing)
            return Sent(self, outgoing, index)

    def put_arrow(self, batch: pa.RecordBatch, shard: int | None, position: bytes | None) -> SentBatch:
        """Take in an Arrow batch, to be a commit of its own."""
        with self.lock:
            outgoing = Outgoing(time.monotonic(), batch, shard)
            refused = self._admit(len(outgoing), outgoing.bytes)
            if refused is not None:
                return SentBatch(self, refused)
            outgoing.position = position
            self._enqueue_open()
            self._enqueue(outgoing)
            self.counts["records_sent"] += len(outgoing)
            return SentBatch(self, outgoing)

    def wait(self, outgoing: Outgoing, index: int, timeout: float | None) -> None:
        """Return when a record is written; raise what kept it from that."""

        def known() -> bool:
            return outgoing.done or index < outgoing.start

        if not known():
            with self.lock:
                self._hurry(outgoing)
                if not self._changed.wait_for(known, check_timeout(timeout)):
                    raise TimedOut(
                        f"the record was not acknowledged in {timeout} s; it is not lost: wait again"
                    )
        error = outgoing.errors.get(index) or outgoing.error
        if index < outgoing.start:
            error = self._overflow()
        if error is not None:
            self._untold.pop(id(error), None)
            raise error.with_traceback(None)

    def drain(self, timeout: float | None) -> bool:
        """Wait until all that was taken in before is written or given up; False if that takes too long."""
        with self.lock:
            last = self.open if self.open.rows else None
            last = last or (self._queue[-1] if self._queue else self._in_flight)
            if last is None:
                return True
            self._hurry(last)
            return self._changed.wait_for(lambda: last.done, timeout)

    def untold(self) -> MillstreamError | None:
        """The first error that nobody has been told of yet; after this, all are told."""
        with self.lock:
            first = next(iter(self._untold.values()), None)
            self._untold.clear()
            return first

    def pending(self) -> tuple[int, int]:
        """How many records and bytes are taken in and not finished."""
        with self.lock:
            flying = self._in_flight
            records = self._queued_records + len(self.open) + (len(flying) if flying else 0)
            return records, self._queued_bytes + self.open.bytes + (flying.bytes if flying else 0)

    def statistics(self) -> dict[str, int]:
        """What was counted."""
        records, size = self.pending()
        with self.lock:
            counts = dict(self.counts)
            counts["records_sent"] = counts.get("records_sent", 0) + len(self.open.rows)
            return {**counts, "records_pending": records, "bytes_pending": size}

    # -- the writer

    def take(self) -> Outgoing | None:
        """The next records to write, once they are due; None when there will be no more."""
        with self.lock:
            while not self._queue:
                if self.open.rows:
                    due = self.open.opened_at + self.bounds.linger_s - time.monotonic()
                    if due <= 0 or self.open.urgent or self._closing:
                        self._enqueue_open()
                    else:
                        self._work.wait(due)
                elif self._closing:
                    return None
                else:
                    self._work.wait()
            outgoing = self._in_flight = self._queue.popleft()
            self._queued_records -= len(outgoing)
            self._queued_bytes -= outgoing.bytes
            self._changed.notify_all()
            return outgoing

    def finish(self, outgoing: Outgoing, error: MillstreamError | None = None) -> None:
        """What was taken is written, or given up."""
        with self.lock:
            self._finish(outgoing, error)

    def fail(self, error: MillstreamError) -> None:
        """Give up all that was taken in, and take in nothing more."""
        with self.lock:
            self._fail(error)

    def close(self) -> None:
        """Take in nothing more."""
        with self.lock:
            self._closing = True
            self._closed = Closed("this producer was closed; make another with log.producer()")
            self._enqueue_open()
            self._work.notify()

    def abandon(self, error: MillstreamError) -> None:
        """Give up what waits; what is being written just now goes on."""
        with self.lock:
            flying, self._in_flight = self._in_flight, None
            self._fail(error)
            self._in_flight = flying

    def forked(self) -> None:
        """In a child process: there is no writer here, and the locks may be somebody's for ever."""
        self._make_locks()
        self.fail(
            Closed(
                f"this producer was made before a fork, and this is the child {os.getpid()}: make one here"
            )
        )
        self._untold.clear()  # what was sent is the parent's to write

    # -- with the lock held

    def _admit(self, records: int, size: int) -> Outgoing | None:
        """Make room as the policy says. What is returned is the fate of a record that is not taken in."""
        policy = self.bounds.overflow
        give_up_at = time.monotonic() + self.bounds.timeout_s
        while True:
            refusal = self._closed or self.failure
            if refusal is not None:
                return self._refuse(refusal, "records_failed", records)
            if self._has_room(records, size):
                self._roll(size)
                return None
            if policy is OverflowPolicy.DROP_OLDEST:
                self._drop_oldest()
            elif policy is OverflowPolicy.DROP_NEWEST:
                self.counts["records_sent"] += records
                self.counts["dropped_newest"] += records
                return _finished(self._overflow())
            elif policy is OverflowPolicy.ERROR:
                return self._refuse(self._overflow(), "refused_overflow", records)
            else:
                self._hurry(self.open)
                left = give_up_at - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    return self._refuse(self._no_room_in_time(), "refused_timed_out", records)

    def _refuse(self, error: MillstreamError, counted: str, records: int) -> Outgoing:
        """Raise it, or count it."""
        if not self.bounds.quiet or isinstance(error, Closed):
            if counted != "records_failed":
                self.counts[counted] += records
            raise error.with_traceback(None)
        self.counts["records_sent"] += records
        self.counts[counted] += records
        return _finished(error)

    def _has_room(self, records: int, size: int) -> bool:
        waiting = self._queued_records + len(self.open)
        if not waiting:
            return True  # one alone is taken in, whatever its size
        waiting_bytes = self._queued_bytes + self.open.bytes
        return waiting + records <= self.bounds.buffer and waiting_bytes + size <= self.bounds.buffer_bytes

    def _roll(self, size: int) -> None:
        """Close what is open if this does not fit in."""
        rows, bounds = self.open.rows, self.bounds
        if rows and (len(rows) >= bounds.batch_records or self.open.bytes + size > bounds.batch_bytes):
            self._enqueue_open()

    def _opened(self) -> Outgoing:
        if self.open is self._none:
            self.open = Outgoing(time.monotonic())
            self._work.notify()
        return self.open

    def _set_limits(self, outgoing: Outgoing) -> None:
        """How far the open one may grow before somebody must look again."""
        bounds = self.bounds
        room = bounds.buffer - self._queued_records - len(outgoing)
        room_bytes = bounds.buffer_bytes - self._queued_bytes - outgoing.bytes
        outgoing.records_limit = min(bounds.batch_records, len(outgoing.rows) + room)
        outgoing.bytes_limit = min(bounds.batch_bytes, outgoing.bytes + room_bytes)

    def _enqueue_open(self) -> None:
        outgoing, self.open = self.open, self._none
        self.counts["records_sent"] += len(outgoing.rows)
        if len(outgoing):
            self._enqueue(outgoing)
        elif outgoing.rows:
            outgoing.finish(self._overflow())  # all of it was dropped
            self._changed.notify_all()

    def _enqueue(self, outgoing: Outgoing) -> None:
        self._queue.append(outgoing)
        self._queued_records += len(outgoing)
        self._queued_bytes += outgoing.bytes
        self._work.notify()

    def _hurry(self, outgoing: Outgoing) -> None:
        outgoing.urgent = True
        self._work.notify()

    def _drop_oldest(self) -> None:
        queued = bool(self._queue)
        outgoing = self._queue[0] if queued else self.open
        records, size = outgoing.drop_first()
        self.counts["dropped_oldest"] += records
        if queued:
            self._queued_records -= records
            self._queued_bytes -= size
            if not len(outgoing):
                self._queue.popleft()
                outgoing.finish(self._overflow())
        self._changed.notify_all()

    def _finish(self, outgoing: Outgoing, error: MillstreamError | None) -> None:
        records, unfit = len(outgoing), len(outgoing.errors)
        if error is None:
            self.counts["records_acknowledged"] += records - unfit
            self.counts["records_failed"] += unfit
        else:
            self.counts["records_failed"] += records
        for each in (error, *outgoing.errors.values()):
            if each is not None and len(self._untold) < _UNTOLD_MAX:
                self._untold[id(each)] = each
        outgoing.finish(error)
        self._in_flight = None
        self._changed.notify_all()

    def _fail(self, error: MillstreamError) -> None:
        self.failure = error
        self._closing = True
        flying = [self._in_flight] if self._in_flight else []
        self._enqueue_open()
        for outgoing in (*flying, *self._queue):
            self._finish(outgoing, error)
        self._queue.clear()
        self._queued_records = self._queued_bytes = 0
        self._work.notify_all()
        self._changed.notify_all()

    def _overflow(self) -> Overflow:
        bounds = self.bounds
        return Overflow(
            f"{bounds.buffer:,} records or {bounds.buffer_bytes:,} bytes wait to be written, as many as the "
            f"buffer holds, and the policy is '{bounds.overflow}': this record is not written. Send slower, "
            "or open the producer with a larger buffer, or with overflow='block'"
        )

    def _no_room_in_time(self) -> TimedOut:
        bounds = self.bounds
        return TimedOut(
            f"for {bounds.timeout_s} s the buffer had no room for another record ({bounds.buffer:,} records, "
            f"{bounds.buffer_bytes:,} bytes): the store writes nothing, or too slowly. It was not taken in; "
            "send it again later"
        )


def _finished(error: MillstreamError) -> Outgoing:
    """The fate of a record that was not taken in."""
    outgoing = Outgoing(0.0)
    outgoing.finish(error)
    return outgoing


def _forked() -> None:
    for outbox in list(_OUTBOXES):
        outbox.forked()


_OUTBOXES: weakref.WeakSet[Outbox] = weakref.WeakSet()
os.register_at_fork(after_in_child=_forked)
