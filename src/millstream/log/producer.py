"""The producer: sends records one by one or as Arrow, and writes them in batches behind your back.

>>> import millstream
>>> log = millstream.open("memory:")
>>> log.create("orders")
>>> with log.producer("orders", name="shop-1") as producer:
...     sent = producer.send(b"two apples", key=b"ann", position=b"line 1")
...     sent.wait()
RecordId(stream='orders', shard=0, seq=0)

Started again, it goes on where it stopped:

>>> with log.producer("orders", name="shop-1") as producer:
...     producer.last_position()
b'line 1'

**Order.** Records with the same key keep the order in which they were sent, because one thread writes
them, batch after batch, and a key has one shard. Records without a key go batch by batch to one shard
after the other; they, records with a shard of their own (`shard=`), and keys across a change of the
number of shards have no order.

**What is promised** is the durability: `written` and `synced` records were acknowledged when `wait`
or `flush` returns; with `fire`, errors of the store are counted and never raised by `send`, `flush`
and `close`.

- Without a name: at least once. A commit whose outcome is unknown is tried again, and may be there
  twice. One that fails for good is told to its receipts and to `flush`, and the next one is tried.
- With a name: exactly once within the producer's life. A commit that is tried again is recognised. A
  newer producer of the name makes this one stop with `Fenced`. One that fails for good stops the
  producer, because what comes after it must not be written without it.
- With a name and positions: exactly once across restarts too. The application's own position is
  stored in the same commit as its record, and `last_position()` tells where to go on. Without
  positions a restarted application may send again what was written: at least once.

An error in the body of a `with` block does not take back what was sent: it is written all the same.
For all-or-nothing, use `Log.commit`.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

import msgspec
import pyarrow as pa

from millstream.errors import (
    Bug,
    MillstreamError,
    TimedOut,
    TooLarge,
    UsageError,
    WorldError,
    WrongType,
    shown,
)
from millstream.log.can import Can, unsupported
from millstream.log.check import (
    POSITION_BYTES_MAX,
    RECORD_BYTES_MAX,
    check_batch,
    check_durability,
    check_fits,
    check_positive,
    check_row,
    check_shard,
    check_timeout,
    header_pairs,
)
from millstream.log.commit import Commit, Durability, Fence, Receipt
from millstream.log.handle import Handle
from millstream.log.outbox import Bounds, Outbox, OverflowPolicy, Sent, SentBatch
from millstream.log.outgoing import Outgoing, misfit, row_bytes
from millstream.names import check_name
from millstream.record import VALUE_BYTES, HeadersLike, Row, warm_up

if TYPE_CHECKING:
    from millstream.log.log import Log

LINGER_MS_MAX = 3_600_000
TIMEOUT_S_MAX = 86_400
_PAUSE_S = 0.005  # before the first retry; doubled for each
_PAUSE_S_MAX = 1.0
_NO_SHARD_YET = -1


class ProducerOptions(TypedDict, total=False):
    """The options of a producer."""

    name: str | None  # commits once, as said above; None: at least once
    durability: Durability | str  # "written" unless given
    linger_ms: float  # how long a record waits for others to share its commit: 5
    batch_records: int  # a commit has at most so many records: 10,000
    batch_bytes: int  # and, roughly, bytes: 4 MiB
    buffer: int  # so many records may wait, besides those that are being written: 100,000
    buffer_bytes: int  # and, roughly, bytes: 64 MiB
    overflow: OverflowPolicy | str  # when the buffer is full: "block", "drop_newest", "drop_oldest", "error"
    timeout: float  # seconds: how long `send` may block, and how long after it a commit is tried again: 30
    retries: int | None  # at most so many times; None: as long as there is time


class _Checked(msgspec.Struct, frozen=True):
    """Options with their defaults, checked."""

    name: str | None = None
    durability: Durability = Durability.WRITTEN
    linger_ms: float = 5
    batch_records: int = 10_000
    batch_bytes: int = 4 << 20
    buffer: int = 100_000
    buffer_bytes: int = 64 << 20
    overflow: OverflowPolicy = OverflowPolicy.BLOCK
    timeout: float = 30.0
    retries: int | None = None

    def bounds(self) -> Bounds:
        """What the outbox is to know. A batch is at most half a buffer: one waits, one fills."""
        return Bounds(
            linger_s=self.linger_ms / 1000,
            batch_records=min(self.batch_records, max(1, self.buffer // 2)),
            batch_bytes=min(self.batch_bytes, max(1, self.buffer_bytes // 2)),
            buffer=self.buffer,
            buffer_bytes=self.buffer_bytes,
            overflow=self.overflow,
            timeout_s=self.timeout,
            quiet=self.durability is Durability.FIRE,
        )


def _checked(given: ProducerOptions) -> _Checked:
    """The options in full; `UsageError` for what cannot be."""
    known = _Checked.__struct_fields__
    unknown = sorted(given.keys() - set(known))
    if unknown:
        raise UsageError(f"a producer has no option {unknown[0]!r}: it has {', '.join(sorted(known))}")
    values: dict[str, Any] = dict(given)
    if "durability" in values:
        values["durability"] = check_durability(values["durability"])
    if "overflow" in values:
        values["overflow"] = _policy(values["overflow"])
    options = _Checked(**values)
    if options.name is not None:
        check_name("producer", options.name)
        if options.durability is Durability.FIRE:
            raise UsageError(
                f"name={options.name!r} with durability='fire': what happens once must be acknowledged; "
                "use 'written' or 'synced', or leave the name out"
            )
    _check_numbers(options)
    return options


def _policy(given: str) -> OverflowPolicy:
    try:
        return OverflowPolicy(given)
    except ValueError:
        *others, last = (repr(str(policy)) for policy in OverflowPolicy)
        raise UsageError(f"overflow={shown(given)}: expected {', '.join(others)} or {last}") from None


def _check_numbers(options: _Checked) -> None:
    for what in ("batch_records", "batch_bytes", "buffer", "buffer_bytes"):
        check_positive(what, getattr(options, what))
    if options.batch_bytes > RECORD_BYTES_MAX:
        raise TooLarge(f"batch_bytes={options.batch_bytes:,}: at most {RECORD_BYTES_MAX:,}")
    if options.retries is not None and (type(options.retries) is not int or options.retries < 0):
        raise WrongType(f"retries={shown(options.retries)}: expected a whole number from 0 on, or None")
    for what, least, most in (("linger_ms", 0, LINGER_MS_MAX), ("timeout", 0.001, TIMEOUT_S_MAX)):
        number = getattr(options, what)
        if type(number) not in {int, float} or not least <= number <= most:
            raise WrongType(f"{what}={shown(number)}: expected a number from {least} to {most}")


class Producer(Handle):
    """Sends records to one stream: see the module. All methods may be called from several threads."""

    def __init__(self, log: Log, stream: str, **options: Unpack[ProducerOptions]) -> None:
        """Made by `Log.producer`. A name is taken over at once."""
        self._options = checked = _checked(options)
        if checked.durability is Durability.SYNCED and Can.SYNCED not in log.can:
            raise unsupported(log.scheme, Can.SYNCED, log.can)
        warm_up()
        self._log = log
        self._stream = stream
        self._settings = log.settings(stream)
        self._durability = checked.durability
        self._quick_type = bytes if self._settings.value_type == VALUE_BYTES else _Never
        self._now_ms = log.clock.now_ms
        self._run = 0
        self._number = 0
        self._position: bytes | None = None
        if checked.name is not None:
            self._run = log.take_over(checked.name)
            known = log.fence(checked.name)
            self._position = None if known is None else known.position
        self._digest = os.urandom(8)  # tells this incarnation from another, even one with the same run
        self._keyless = _NO_SHARD_YET
        self._outbox = Outbox(checked.bounds())
        self._give_up = threading.Event()
        self._thread = threading.Thread(target=self._write_all, name=f"producer of {stream}", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    # -- sending

    def send(
        self,
        value: object,
        key: bytes | None = None,
        timestamp: int | None = None,
        headers: HeadersLike | None = None,
        shard: int | None = None,
        position: bytes | None = None,
    ) -> Sent:
        """Take in one record, to be written soon; the receipt tells where it went.

        `timestamp` is now unless given, `shard` that of the key. `position` is the application's own
        (see the module). Do not change a value that is not bytes after sending it. Raises what is
        wrong with the record; `TimedOut` or `Overflow` if there is no room for it, as the policy says;
        and, once the producer has failed, why.
        """
        if (
            type(value) is self._quick_type
            and type(key) is bytes
            and timestamp is None
            and headers is None
            and shard is None
            and position is None
        ):
            timestamp = self._now_ms()
            size = len(key) + len(value)  # type: ignore[arg-type]  # it is bytes
            outbox = self._outbox
            with outbox.lock:
                outgoing = outbox.open
                rows = outgoing.rows
                index = len(rows)
                size += outgoing.bytes
                if index < outgoing.records_limit and size <= outgoing.bytes_limit:
                    rows.append((timestamp, key, value, None))
                    outgoing.bytes = size
                    return Sent(outbox, outgoing, index)
        pairs = None if headers is None else header_pairs(headers) or None
        row = (self._now_ms() if timestamp is None else timestamp, key, value, pairs)
        size = self._check_row(row)
        self._check_place(shard, position)
        return self._outbox.put(row, size, shard, position)

    def send_batch(
        self,
        records: pa.RecordBatch | pa.Table,
        shard: int | None = None,
        position: bytes | None = None,
    ) -> SentBatch:
        """Take in Arrow records in the form without seqs: timestamp, key, value, headers.

        All of it is one commit, after what was sent before. Its rows go to the shards of their keys,
        or to the one given.
        """
        if isinstance(records, pa.Table):
            records = _as_one(records)
        if not isinstance(records, pa.RecordBatch):
            raise WrongType(
                f"records={shown(records)}: expected a pyarrow RecordBatch or Table; see also `send`"
            )
        batch = check_batch(records, self._stream, self._settings.value_type)
        self._check_place(shard, position)
        return self._outbox.put_arrow(batch, shard, position)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all that was sent before is written.

        Raises the first error that no receipt has raised yet, and `TimedOut` when it takes too long:
        then it goes on behind your back.
        """
        if not self._outbox.drain(check_timeout(timeout)):
            raise TimedOut(
                f"{self!r} was not flushed in {timeout} s; {self._outbox.pending()[0]:,} records wait"
            )
        self._raise_untold(self._outbox.failure)

    def close(self, timeout: float | None = None) -> None:
        """Flush and stop. Raises as `flush` does; what is not written in time is given up.

        Closing twice is fine.
        """
        timeout = check_timeout(timeout)
        self._outbox.close()
        atexit.unregister(self.close)
        if self._give_up.is_set():
            return
        if self._outbox.drain(timeout):
            self._thread.join()
        else:
            self._give_up.set()
            self._outbox.abandon(
                TimedOut(f"{self!r} was closed before all was written: it took longer than {timeout} s")
            )
        self._raise_untold(None)

    def last_position(self) -> bytes | None:
        """The application's position that was stored last, by this producer or one before it.

        None if there is none, or the producer has no name. Go on from here after a restart.
        """
        if self._outbox.failure is not None:
            raise self._outbox.failure.with_traceback(None)
        return self._position

    def statistics(self) -> dict[str, int]:
        """Counts since the producer was made.

        `records_sent` = `records_acknowledged` + `records_failed` + `dropped_newest` +
        `dropped_oldest` + `records_pending`, and with `fire` + `refused_timed_out` +
        `refused_overflow`, which else were raised and not taken in.
        """
        return {**_ZEROS, **self._outbox.statistics()}

    def __enter__(self) -> Self:
        """The producer itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it. What was sent is written even if the body raised; that error is the one raised."""
        try:
            self.close()
        except MillstreamError:
            if error is None:
                raise

    def __repr__(self) -> str:
        """Stream and name."""
        name = f" as '{self._options.name}'" if self._options.name else ""
        return f"<Producer of '{self._stream}'{name}>"

    # -- checking, in the sender's thread

    def _check_row(self, row: Row) -> int:
        """Its size, if the row is right as far as can be told now."""
        timestamp, key, value, headers = row
        if self._quick_type is bytes:
            check_row(row)
        else:
            check_row((timestamp, key, None, headers))
            try:
                check_fits(value, self._settings.value_type)
            except TypeError as error:
                raise misfit(value, self._stream, self._settings.value_type, error) from None
        size = row_bytes(row)
        if size > RECORD_BYTES_MAX:
            raise TooLarge(f"a record of {size:,} bytes is over the limit of {RECORD_BYTES_MAX:,}")
        return size

    def _check_place(self, shard: int | None, position: bytes | None) -> None:
        if shard is not None and (type(shard) is not int or not 0 <= shard < self._settings.shards):
            self._settings = self._log.settings(self._stream)
            check_shard(self._stream, shard, self._settings.shards)
        if position is not None:
            if self._options.name is None:
                raise WrongType(
                    "position= is kept under the producer's name, and this one has none: give it one"
                )
            if type(position) is not bytes:
                raise WrongType(f"position={shown(position)}: expected bytes")
            if len(position) > POSITION_BYTES_MAX:
                raise TooLarge(f"a position of {len(position):,} bytes: at most {POSITION_BYTES_MAX:,}")

    def _raise_untold(self, failure: MillstreamError | None) -> None:
        error = self._outbox.untold() or failure
        if error is not None and self._durability is not Durability.FIRE:
            raise error.with_traceback(None)

    # -- writing, in the producer's thread

    def _write_all(self) -> None:
        while (outgoing := self._outbox.take()) is not None:
            try:
                self._write(outgoing)
            except MillstreamError as error:
                if self._options.name is None and isinstance(error, WorldError) and error.retriable:
                    self._outbox.finish(outgoing, error)
                else:
                    self._outbox.fail(error)
            except Exception as error:  # noqa: BLE001 - whatever it is, those who wait must be told
                bug = Bug(f"{self!r} failed in an unforeseen way: {error!r}; please report it")
                bug.__cause__ = error
                self._outbox.fail(bug)
            else:
                self._outbox.finish(outgoing)

    def _write(self, outgoing: Outgoing) -> None:
        """Commit it, as often as it takes; the same commit each time."""
        counts = self._outbox.counts
        give_up_at = outgoing.opened_at + self._options.timeout
        pause = _PAUSE_S
        tries = 0
        commit: Commit | None = None
        while True:
            try:
                commit = commit or self._commit_of(outgoing)
                if commit.records or outgoing.position is not None:
                    self._written(outgoing, commit, self._log.commit(commit, self._durability))
                return
            except WorldError as error:
                counts["errors"] += 1
                tries += 1
                left = give_up_at - time.monotonic()
                spent = self._options.retries is not None and tries > self._options.retries
                if not error.retriable or spent or left <= 0 or self._give_up.wait(min(pause, left)):
                    if tries > 1:
                        error.add_note(f"given up after {tries} tries")
                    raise
                counts["retries"] += 1
                pause = min(pause * 2, _PAUSE_S_MAX)

    def _commit_of(self, outgoing: Outgoing) -> Commit:
        """The commit that the records become, with the shards that the stream has by now."""
        self._settings = settings = self._log.settings(self._stream)
        self._keyless = (self._keyless + 1) % settings.shards
        records = outgoing.split(self._stream, settings, keyless=self._keyless)
        fence = None
        if self._options.name is not None:
            # a commit without a position of its own repeats the last one: else that would be forgotten
            position = self._position if outgoing.position is None else outgoing.position
            fence = Fence(self._options.name, self._run, self._number, self._digest, position)
        return Commit(records=records, fence=fence)

    def _written(self, outgoing: Outgoing, commit: Commit, receipt: Receipt) -> None:
        outgoing.place(receipt.placed)
        if commit.fence is not None:
            self._number += 1
            self._position = commit.fence.position
        self._outbox.counts["commits"] += 1
        self._outbox.counts["commits_recognised"] += not receipt.applied


class _Never:
    """The type of no value: what is not bytes takes the longer way."""


def _as_one(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    if len(batches) == 1:
        return batches[0]
    return pa.RecordBatch.from_pylist([], table.schema) if not batches else pa.concat_batches(batches)


_ZEROS = {
    "records_sent": 0,
    "records_acknowledged": 0,
    "records_failed": 0,
    "dropped_newest": 0,
    "dropped_oldest": 0,
    "refused_overflow": 0,
    "refused_timed_out": 0,
    "commits": 0,
    "commits_recognised": 0,
    "errors": 0,
    "retries": 0,
}
