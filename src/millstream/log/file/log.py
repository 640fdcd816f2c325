"""The `file:` store: streams in one directory, for any number of processes at once, without a server.

>>> import tempfile
>>> from millstream.log.open import open
>>> folder = tempfile.TemporaryDirectory()
>>> with open(f"file:{folder.name}/log") as log:
...     log.create("orders")
...     log.append("orders", b"two apples", durability="synced").placed[0].next
1
>>> with open(f"file:{folder.name}/log") as log:
...     [record.value for record in log.read("orders", 0, 0).records()]
[b'two apples']
>>> folder.cleanup()

What is promised, and against what:

- A commit that was acknowledged as `written` survives its process; as `synced` it survives a power
  cut, and so does every commit before it. A commit is seen whole or not at all, by everybody.
- A power cut may lose, tear, garble or reorder what was not synced. Whole commits are then undone,
  from the first one on that is not all there, and the log's history gets a new number.
- Damage to what was synced is an error that says where; it is never passed over.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import ClassVar, TypeVar

import msgspec
import pyarrow as pa

from millstream.clock import Clock
from millstream.errors import Bug, Damaged, MillstreamError, ReadOnly, StoreFailed, SyncFailed
from millstream.log.batch import Limits
from millstream.log.can import Can
from millstream.log.check import check_batch, check_ends, check_timeout
from millstream.log.commit import Commit, Durability, Receipt, Staged
from millstream.log.entry import Committed, Entry, Part
from millstream.log.file.backup import backup
from millstream.log.file.books import Books
from millstream.log.file.disk import Disk
from millstream.log.file.find import Finder
from millstream.log.file.fold import about, fold, split
from millstream.log.file.line import Line, Request
from millstream.log.file.lock import Turnstile, hold
from millstream.log.file.mark import SyncedMark
from millstream.log.file.recovery import begin, recover
from millstream.log.file.repair import repair
from millstream.log.file.segment import Kind, Note
from millstream.log.file.segments import Segments
from millstream.log.file.sweep import sweep
from millstream.log.file.tail import encode_rows
from millstream.log.file.upkeep import Upkeep
from millstream.log.file.verify import verify
from millstream.log.file.watch import Watch, Watches
from millstream.log.finding import Finding, Report
from millstream.log.group import Place
from millstream.log.state import Pending, ShardKey, ShardRow, StagedRow, State
from millstream.log.state_log import Found, StateLog
from millstream.log.stream import Settings, ShardInfo
from millstream.record import rows_to_batch, with_seqs

INLINE_BYTES_MAX = 32 << 10  # larger parts go to a segment at once
INLINE_ROWS_MAX = 2_000
FOLD_ENTRIES = 16_384
FOLD_JOURNAL_BYTES = 4 << 20
FOLD_SEGMENT_BYTES = 1 << 30
FOLD_AT_CLOSE_ENTRIES = 1_000  # fewer are read quickly enough by the next one who opens the log
_WAKE_MS = 250  # to look again although nothing seems to have changed
_TRIES = 5

T = TypeVar("T")


class CommitRequest(Request):
    """A commit on its way, and what came of it."""

    __slots__ = ("commit", "error", "pending", "receipt", "synced")

    def __init__(self, commit: Commit, pending: Sequence[Pending], *, synced: bool) -> None:
        """Nothing has come of it yet."""
        super().__init__()
        self.commit = commit
        self.pending = pending
        self.synced = synced
        self.receipt: Receipt | None = None
        self.error: MillstreamError | None = None


class _InTurn:
    """Alone among processes; the books are up to date in here, and afterwards hold what was written."""

    def __init__(self, log: FileLog) -> None:
        """Take the log; it may be entered any number of times, one after the other."""
        self._log = log

    def __enter__(self) -> State:
        """Wait for our turn, and take in what others have written."""
        return self._log._enter_turn()

    def __exit__(self, *_: object) -> None:
        """Let the next one in."""
        self._log._leave_turn()


class FileLog(StateLog):
    """Keeps streams in a directory."""

    scheme: ClassVar[str] = "file"
    can: ClassVar[frozenset[Can]] = frozenset(Can)

    def __init__(self, path: str, *, clock: Clock, upkeep: bool = True, disk: Disk | None = None) -> None:
        """Open the log in a directory, which is made if it is not there."""
        self._disk = disk or Disk(path)
        super().__init__(f"file:{self._disk.root}", clock)
        self._line = Line(self._commit_group)
        self._in_turn = _InTurn(self)
        self._sync_error: str | None = None
        self._disk.make_dir("")
        self._writable = self._disk.writable()
        self._segments = Segments(self._disk)
        with ExitStack() as opened:  # is closed again when something fails
            self._hold = hold(self._disk)
            if self._hold >= 0:
                opened.callback(self._disk.close, self._hold)
            self._turnstile = Turnstile(self._disk)
            opened.callback(self._turnstile.close)
            self._watches = Watches(self._disk.root)
            opened.callback(self._watches.close)
            with self._turnstile:
                if self._writable:
                    begin(self._disk)
                self._books = Books(self._disk, write=self._writable)
                opened.callback(self._books.close)
                self._finder = Finder(self._disk, self._books)
                self._mark = SyncedMark(self._disk, write=self._writable)
                opened.callback(self._mark.close)
                cut = recover(self._books, self._finder.reader, self._mark, write=self._writable)
            opened.pop_all()
        self.counts["recoveries"] += cut is not None
        self._state = self._books.state
        self._upkeep = Upkeep(
            self._books,
            self._segments,
            self._finder.reader,
            clock,
            self.counts,
            turn=self._alone,
            fold=self._fold,
            retain=self.retain,
        )
        self._upkeep_by_itself = upkeep and self._writable

    # -- what `StateLog` asks for

    def _now(self) -> State:
        self._check_open()
        self._books.refresh(alone=False)
        self._state = self._books.state
        return self._state

    @contextmanager
    def _alone(self) -> Iterator[State]:
        self._check_open()
        with self._line.turn(), self._lock, self._in_turn as state:
            yield state

    def _enter_turn(self) -> State:
        """See `_InTurn`."""
        self._check_open()
        if not self._writable:
            raise ReadOnly(f"{self!r} cannot be written: check the directory's owner and permissions")
        if self._sync_error is not None:
            raise self._refusal()
        try:
            self._turnstile.enter(self._catch_up)
            self._refresh_alone()
        except BaseException:
            self._turnstile.__exit__()
            raise
        return self._state

    def _catch_up(self) -> None:
        """Take in what others write while they have their turns, so that ours is short."""
        self._line.wake_done()
        self._books.refresh(alone=False)

    def _leave_turn(self) -> None:
        """See `_InTurn`."""
        try:
            if not self._books.whole:
                self._refresh_alone()
        finally:
            self._turnstile.__exit__()

    def _refresh_alone(self) -> None:
        self._books.refresh(alone=True)
        if self._books.journal.closed:
            self._fold()
        self._state = self._books.state

    def _write(self, entry: Entry, *, synced: bool = False) -> None:
        self._books.take(entry)
        self._books.append([entry])
        if synced:
            self._sync()

    def _submit(self, commit: Commit, pending: Sequence[Pending], durability: Durability) -> Receipt:
        request = CommitRequest(commit, pending, synced=durability is Durability.SYNCED)
        self._line.submit(request)
        if self._upkeep_by_itself:
            self._keep_up()
        if request.error is not None:
            raise request.error
        if request.receipt is None:
            raise Bug("a commit has neither a receipt nor an error")
        return request.receipt

    def _commit_group(self, requests: Sequence[CommitRequest]) -> None:
        """Commit all of them, with one write and, if somebody asks for it, one sync."""
        try:
            with self._lock, self._in_turn as state:
                self._commit_all(requests, state)
            self._line.wake_done()
            if any(request.synced and request.error is None for request in requests):
                self._sync()
        except MillstreamError as error:
            for request in requests:
                written = isinstance(error, SyncFailed) and request.receipt is not None and not request.synced
                if request.error is None and not written:
                    request.error = error
        except BaseException as error:
            for request in requests:
                request.error = StoreFailed(f"stopped by {error!r}: look whether this commit was written")
            raise
        self._after_commit()

    def _commit_all(self, requests: Sequence[CommitRequest], state: State) -> None:
        entries = []
        now = self.clock.now_ms()
        for request in requests:
            try:
                entry = state.judge(request.commit, request.pending, now)
                if entry is not None:
                    entry = self._place(entry, request.pending)
            except MillstreamError as error:
                request.error = error
                continue
            if entry is not None:
                self._books.take(entry)
                entries.append(entry)
            request.receipt = self._receipt(entry, request.commit, state)
        if entries:
            self._books.append(entries)
            self.counts.update(commits=len(entries), commit_groups=1)

    # -- placing records

    def _place(self, entry: Committed, pending: Sequence[Pending]) -> Committed:
        """The entry with its records: small parts in it, large ones in a segment."""
        large: list[tuple[int, pa.RecordBatch]] = []
        parts = list(entry.parts)
        for number, (part, given) in enumerate(zip(parts, pending, strict=False)):
            small = _inline(part, given) if given.count else part
            if small is not None:
                parts[number] = small
                continue
            records = given.records
            if not isinstance(records, pa.RecordBatch):
                value_type = self._state.streams[given.stream].settings.value_type
                records = rows_to_batch(records, value_type)
            large += [(number, piece) for piece in split(with_seqs(records, part.first))]
        inline = sum(part.rows is not None or part.arrow is not None for part in parts)
        for place, (number, piece) in enumerate(large):
            part = parts[number]
            first = piece.column(0)[0].as_py()
            history = self._state.fact.history
            note = Note(history, entry.id, place, len(large), part.shard, first, inline=inline)
            extent = self._segments.write(about(self._state, part.stream), piece, note)
            parts[number] = msgspec.structs.replace(part, extents=(*part.extents, extent))
        return msgspec.structs.replace(entry, parts=tuple(parts))

    # -- upkeep

    def _keep_up(self) -> None:
        """A small step of upkeep, if one is due; what fails is only counted, for nothing is lost by it."""
        try:
            self._upkeep.step()
        except (MillstreamError, FileNotFoundError):
            self.counts["upkeep_failed"] += 1

    def merge(self, stream: str | None = None, *, report: Report | None = None) -> int:
        """See `Log.merge`."""
        return self._upkeep.merge(stream, report)

    def compact(self, stream: str | None = None, *, report: Report | None = None) -> int:
        """See `Log.compact`."""
        return self._upkeep.compact(stream, report)

    def verify(self, stream: str | None = None, *, report: Report | None = None) -> list[Finding]:
        """See `Log.verify`."""
        return list(verify(self._books, self._alone, stream, report))

    def backup(self, target: str, *, report: Report | None = None) -> None:
        """See `Log.backup`."""
        backup(self._books, self._folded, Disk(target), report)

    @classmethod
    def repair(cls, path: str, report: Report | None = None) -> list[Finding]:
        """See `Log.repair`."""
        return repair(Disk(path), report)

    @contextmanager
    def _folded(self) -> Iterator[State]:
        """Alone, with nothing in the journal."""
        with self._alone() as state:
            self._fold()
            yield state

    def stage(self, stream: str, shard: int, batches: Iterable[pa.RecordBatch]) -> Staged:
        """See `Log.stage`."""
        settings = self.settings(stream)
        extents = []
        count = 0
        for batch in batches:
            checked = check_batch(batch, stream, settings.value_type)
            for piece in split(checked):
                with self._alone() as state:
                    key, _ = state.shard(stream, shard)
                    note = Note(state.fact.history, 0, 0, 0, shard, count, Kind.STAGED)
                    extents.append(self._segments.write(about(state, key[0]), with_seqs(piece, count), note))
                    count += piece.num_rows
        with self._alone() as state:
            key, _ = state.shard(stream, shard)
            token = f"staged-{state.id + 1}"
            row = StagedRow(*key, count, self.clock.now_ms(), tuple(extents))
            self._change(state.staged.change(token, row), synced=True)
            return Staged(token, stream, shard, count)

    # -- durability

    def _sync(self) -> None:
        """Make everything durable that the books know of; a failure is for good."""
        with self._lock:
            books, journal = self._books, self._books.journal
            tail, position, settled = books.tail, journal.end, books.settled
            segments, tail.unsynced = sorted(tail.unsynced), set()  # others may add to them meanwhile
        try:
            if not settled:
                books.manifest.settle()
            self._segments.sync(segments)
            journal.sync()
        except BaseException as error:
            with self._lock:
                tail.unsynced.update(segments)
            if isinstance(error, MillstreamError):
                self._sync_error = f"a sync failed, so it is not known what is durable: {error}"
                raise self._refusal() from error
            raise
        with self._lock:
            books.settled = books.settled or books.journal is journal
        self._mark.write(journal.generation, position)
        self.counts["syncs"] += 1

    def _refusal(self) -> SyncFailed:
        return SyncFailed(f"{self._sync_error}. Nothing more is acknowledged until {self!r} is opened again")

    def _after_commit(self) -> None:
        """Fold when it is due; it is no part of what was committed, so what fails is only counted."""
        tail = self._books.tail
        if (
            tail.entries >= FOLD_ENTRIES
            or tail.journal_bytes >= FOLD_JOURNAL_BYTES
            or tail.segment_bytes >= FOLD_SEGMENT_BYTES
        ):
            try:
                with self._lock, self._in_turn:
                    self._fold()
            except MillstreamError:
                self.counts["folds_failed"] += 1

    def _fold(self) -> None:
        """Fold the journal, if there is anything in it; call it alone."""
        if self._books.tail.entries or self._books.journal.closed:
            touched = fold(self._books, self._segments)
            self.counts["segments_removed"] += sweep(self._disk, self._books, touched)
            self.counts["folds"] += 1

    def _discard(self) -> None:
        self._fold()

    # -- finding records

    def _find(self, key: ShardKey, row: ShardRow, from_seq: int, limits: Limits, settings: Settings) -> Found:
        def find() -> Found:
            with self._lock:
                plan = self._finder.plan(key, from_seq, limits)
            return self._finder.load(plan, limits, settings)

        return self._looking_again(find)

    def _find_time(self, key: ShardKey, row: ShardRow, timestamp: int, settings: Settings) -> int:
        return self._looking_again(
            lambda: self._finder.time(key, self._state.shards.get(key, row), timestamp, settings)
        )

    def _looking_again(self, look: Callable[[], T]) -> T:
        """Look once more where upkeep, here or in another process, has removed a segment meanwhile."""
        for left in reversed(range(_TRIES)):
            try:
                return look()
            except FileNotFoundError as error:
                if not left:
                    raise Damaged(
                        f"a segment that the manifest names is gone ({error}); run {self._disk.repair_call}"
                    ) from error
                with self._lock:
                    self._now()
        raise Bug("reading has run out of tries without an error")

    def _find_bytes(self, key: ShardKey, row: ShardRow, size: int) -> int:
        return self._finder.bytes(key, row, size)

    def _shard_info(self, key: ShardKey, row: ShardRow) -> ShardInfo:
        position = self._mark.position(self._books.journal.generation)
        return self._finder.info(key, row, position)

    def wait(self, ends: Mapping[Place, int], timeout: float | None = None) -> bool:
        """See `Log.wait`."""
        check_ends(ends)
        timeout = check_timeout(timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        if self._grown(ends):
            return True
        with self._watching() as watch:
            while not self._grown(ends):
                left_ms = _WAKE_MS if deadline is None else (deadline - time.monotonic()) * 1000
                if left_ms <= 0:
                    return False
                watch.wait(min(left_ms, _WAKE_MS))
            return True

    @contextmanager
    def _watching(self) -> Iterator[Watch]:
        with self._open():
            self._check_open()
            watch = self._watches.take()
        try:
            yield watch
        finally:
            with self._lock:
                self._watches.give(watch)

    def _grown(self, ends: Mapping[Place, int]) -> bool:
        with self._open():
            state = self._now()
            return any(state.shard(*place)[1].end > end for place, end in ends.items())

    def close(self) -> None:
        """See `Log.close`."""
        if self._closed or os.getpid() != self._process:
            return
        with self._line.turn(), self._lock:
            if self._writable and self._sync_error is None:
                self._close_books()
            self._closed = True
            self._books.close()
            self._mark.close()
            self._turnstile.close()
            if self._hold >= 0:
                self._disk.close(self._hold)
            self._finder.reader.forget()
            self._watches.close()  # who waits wakes up, and finds the log closed

    def _close_books(self) -> None:
        """Leave the log as the next one likes to find it; what fails is only work for later."""
        try:
            self._segments.seal()
            if self._books.tail.entries >= FOLD_AT_CLOSE_ENTRIES:
                with self._in_turn:
                    self._fold()
                self._segments.seal()
        except MillstreamError:
            self.counts["folds_failed"] += 1


def _inline(part: Part, given: Pending) -> Part | None:
    """The part with its records in it; None if they are too many for that."""
    records = given.records
    if isinstance(records, pa.RecordBatch):
        if records.nbytes > INLINE_BYTES_MAX:
            return None
        return msgspec.structs.replace(part, arrow=records.serialize().to_pybytes())
    if given.count > INLINE_ROWS_MAX:
        return None
    rows = encode_rows(records)
    return msgspec.structs.replace(part, rows=rows) if len(rows) <= INLINE_BYTES_MAX else None
