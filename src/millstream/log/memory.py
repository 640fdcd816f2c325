"""The `memory:` store: a log inside one process, gone with it; for tests and for trying things.

>>> from millstream.log.open import open
>>> with open("memory:") as log:
...     log.create("orders")
...     log.append("orders", b"two apples").placed[0].next
1
"""

from __future__ import annotations

import bisect
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar

import msgspec
import pyarrow as pa

from millstream.clock import Clock
from millstream.log.batch import Limits
from millstream.log.can import Can, unsupported
from millstream.log.check import check_batch, check_ends, check_timeout
from millstream.log.commit import Commit, Durability, Receipt, Staged
from millstream.log.compaction import latest_seqs, survivors
from millstream.log.entry import Committed, Entry
from millstream.log.finding import Finding, Report
from millstream.log.group import Place
from millstream.log.state import Pending, ShardKey, ShardRow, StagedRow, State
from millstream.log.state_log import Found, StateLog
from millstream.log.stream import Cleanup, Settings, ShardInfo
from millstream.record import rows_to_batch, with_seqs

_CANNOT = {Can.PROCESSES, Can.WRITTEN, Can.SYNCED, Can.UPKEEP}


class Shelf(msgspec.Struct):
    """The records of one shard: batches, the seq each begins with, and marks by the seq they came at."""

    firsts: list[int] = []
    batches: list[pa.RecordBatch] = []
    marks: list[tuple[int, dict[str, int]]] = []


class MemoryLog(StateLog):
    """Keeps streams in this process."""

    scheme: ClassVar[str] = "memory"
    can: ClassVar[frozenset[Can]] = frozenset(Can) - _CANNOT

    def __init__(self, path: str = "", *, clock: Clock, upkeep: bool = True) -> None:
        """Start empty; there is no path, and no upkeep that runs by itself."""
        del path, upkeep
        super().__init__("memory:", clock)
        self._shelves: dict[ShardKey, Shelf] = {}
        self._staged: dict[str, list[pa.RecordBatch]] = {}
        self._changed = threading.Condition(self._lock)

    # -- what `StateLog` asks for

    def _now(self) -> State:
        self._check_open()
        return self._state

    @contextmanager
    def _alone(self) -> Iterator[State]:
        with self._open():
            yield self._now()

    def _write(self, entry: Entry, *, synced: bool = False) -> None:
        del synced
        self._state.apply(entry)
        self._changed.notify_all()

    def _submit(self, commit: Commit, pending: Sequence[Pending], durability: Durability) -> Receipt:
        if durability is Durability.SYNCED:
            raise unsupported(self.scheme, Can.SYNCED, self.can)
        with self._alone() as state:
            entry = state.judge(commit, pending, self.clock.now_ms())
            if entry is not None:
                staged = [self._staged.pop(token) for token in entry.staged]
                values = [[_as_batch(part, state)] for part in pending] + staged
                self._write(entry)
                for part, batches in zip(entry.parts, values, strict=True):
                    self._put((part.stream, part.shard), part.first, batches)
                self._put_marks(entry)
                self.counts["commits"] += 1
            return self._receipt(entry, commit, state)

    def _put(self, key: ShardKey, first: int, batches: Sequence[pa.RecordBatch]) -> None:
        shelf = self._shelves.setdefault(key, Shelf())
        for batch in batches:
            if batch.num_rows:
                shelf.firsts.append(first)
                shelf.batches.append(with_seqs(batch, first))
                first += batch.num_rows

    def _put_marks(self, entry: Committed) -> None:
        for key in {(stream, shard) for stream, shard, _, _ in entry.marks}:
            row = self._state.shards[key]
            self._shelves.setdefault(key, Shelf()).marks.append((row.end, row.marks))

    def _find(self, key: ShardKey, row: ShardRow, from_seq: int, limits: Limits, settings: Settings) -> Found:
        with self._open():
            row = self._state.shards.get(key, row)  # it may have grown since the position was checked
            return self._find_in(self._shelves.get(key, Shelf()), row, from_seq, limits)

    def _find_in(self, shelf: Shelf, row: ShardRow, from_seq: int, limits: Limits) -> Found:
        found: list[pa.RecordBatch] = []
        records, size = 0, 0
        seq = from_seq
        for batch in shelf.batches[max(0, bisect.bisect_right(shelf.firsts, from_seq) - 1) :]:
            seqs = batch.column(0).to_numpy()
            start = int(seqs.searchsorted(from_seq))
            part = batch.slice(start, limits.records - records)
            if part.num_rows:
                each = max(1, part.nbytes // part.num_rows)
                part = part.slice(0, max(not found, (limits.bytes - size) // each))
            if part.num_rows:
                found.append(part)
                records += part.num_rows
                size += part.nbytes
                seq = part.column(0)[-1].as_py() + 1
            if start + part.num_rows < batch.num_rows:
                break
        else:
            seq = row.end
        at = bisect.bisect_right(shelf.marks, seq, key=lambda mark: mark[0])
        return Found(tuple(found), seq, shelf.marks[at - 1][1] if at else {})

    def _find_time(self, key: ShardKey, row: ShardRow, timestamp: int, settings: Settings) -> int:
        del settings
        for batch in self._shelves.get(key, Shelf()).batches:
            late = (batch.column(1).to_numpy() >= timestamp) & (batch.column(0).to_numpy() >= row.first)
            if late.any():
                return int(batch.column(0)[int(late.argmax())].as_py())
        return row.end

    def _find_bytes(self, key: ShardKey, row: ShardRow, size: int) -> int:
        first = row.end
        shelf = self._shelves.get(key, Shelf())
        for seq, batch in zip(reversed(shelf.firsts), reversed(shelf.batches), strict=True):
            size -= batch.nbytes
            if size < 0:
                break
            first = seq
        return first

    def _shard_info(self, key: ShardKey, row: ShardRow) -> ShardInfo:
        found = self._find(key, row, row.first, Limits(records=2**62, bytes=2**62), _ANY).batches
        times = [batch.column(1).to_numpy() for batch in found]
        return ShardInfo(
            shard=key[1],
            first=row.first,
            end=row.end,
            synced_end=row.first,
            records=sum(batch.num_rows for batch in found),
            bytes=sum(batch.nbytes for batch in found),
            batches=len(found),
            oldest_ms=min((int(part.min()) for part in times), default=None),
            newest_ms=max((int(part.max()) for part in times), default=None),
        )

    def _discard(self) -> None:
        for key in list(self._shelves):
            if key not in self._state.shards and key[0] not in self._state.names:
                del self._shelves[key]
                continue
            shelf, first = self._shelves[key], self._state.shards.get(key, ShardRow()).first
            while shelf.batches and shelf.batches[0].column(0)[-1].as_py() < first:
                del shelf.batches[0], shelf.firsts[0]
            while len(shelf.marks) > 1 and shelf.marks[1][0] <= first:
                del shelf.marks[0]
        self._staged = {token: kept for token, kept in self._staged.items() if token in self._state.staged}

    # -- the rest of the contract

    def wait(self, ends: Mapping[Place, int], timeout: float | None = None) -> bool:
        """See `Log.wait`."""
        check_ends(ends)
        timeout = check_timeout(timeout)

        def grown() -> bool:
            self._check_open()
            return any(self._state.shard(*place)[1].end > end for place, end in ends.items())

        with self._open():
            return self._changed.wait_for(grown, timeout)

    def stage(self, stream: str, shard: int, batches: Iterable[pa.RecordBatch]) -> Staged:
        """See `Log.stage`."""
        value_type = self.settings(stream).value_type
        kept = [check_batch(batch, stream, value_type) for batch in batches]
        with self._alone() as state:
            key, _ = state.shard(stream, shard)
            token = f"staged-{state.id + 1}"
            count = sum(batch.num_rows for batch in kept)
            self._staged[token] = kept
            self._change(state.staged.change(token, StagedRow(*key, count, self.clock.now_ms())))
            return Staged(token, stream, shard, count)

    def compact(self, stream: str | None = None, *, report: Report | None = None) -> int:
        """See `Log.compact`."""
        del report
        gone = 0
        with self._alone() as state:
            for name in [stream] if stream is not None else sorted(state.streams):
                known = state.stream(name)
                if stream is not None or known.settings.cleanup is Cleanup.COMPACT:
                    cutoff = self.clock.now_ms() - known.settings.tombstones_ms
                    for shard in range(known.settings.shards):
                        gone += self._compact_shard((known.id, shard), cutoff)
        return gone

    def _compact_shard(self, key: ShardKey, tombstones_before_ms: int) -> int:
        shelf, row = self._shelves.get(key, Shelf()), self._state.shards.get(key, ShardRow())
        end = min((seq for _, seq in self._state.holds(key)), default=row.end)
        whole = [batch for batch in shelf.batches if batch.column(0)[-1].as_py() < end]
        if whole:  # the first may begin with records that were trimmed
            whole[0] = whole[0].slice(int(whole[0].column(0).to_numpy().searchsorted(row.first)))
        latest = latest_seqs(whole)
        before = tombstones_before_ms
        kept = [batch.filter(survivors(batch, latest, tombstones_before_ms=before)) for batch in whole]
        left = [batch for batch in kept if batch.num_rows]
        shelf.batches[: len(whole)] = left
        shelf.firsts[: len(whole)] = [batch.column(0)[0].as_py() for batch in left]
        gone: int = sum(batch.num_rows for batch in whole) - sum(batch.num_rows for batch in left)
        return gone

    def merge(self, stream: str | None = None, *, report: Report | None = None) -> int:
        """Not for a log in memory."""
        raise unsupported(self.scheme, Can.UPKEEP, self.can)

    def verify(self, stream: str | None = None, *, report: Report | None = None) -> list[Finding]:
        """Not for a log in memory."""
        raise unsupported(self.scheme, Can.UPKEEP, self.can)

    def backup(self, target: str, *, report: Report | None = None) -> None:
        """Not for a log in memory."""
        raise unsupported(self.scheme, Can.UPKEEP, self.can)

    def close(self) -> None:
        """See `Log.close`."""
        if os.getpid() != self._process:
            return  # in a fork nobody may be there to let go of the lock
        with self._lock:
            self._closed = True
            self._shelves.clear()
            self._changed.notify_all()


def _as_batch(pending: Pending, state: State) -> pa.RecordBatch:
    if isinstance(pending.records, pa.RecordBatch):
        return pending.records
    return rows_to_batch(pending.records, state.streams[pending.stream].settings.value_type)


_ANY = Settings()
