"""Random histories of a log: what was done, after which call it was acknowledged, and what it promised."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any
from unittest import mock

import pyarrow as pa

import millstream.log.file.fold as folding
import millstream.log.file.log as file_log
import millstream.log.file.rewrite as rewriting
from millstream.clock import ManualClock
from millstream.errors import Conflict, Fenced
from millstream.log.commit import Append, Commit, Durability, Expect, Fence, Mark, Offset, Receipt, Staged
from millstream.log.file import segments
from millstream.log.file.log import FileLog
from millstream.log.stream import Retention
from millstream.record import rows_to_batch
from tests.crash.events import Event, Machine
from tests.crash.oracle import COLUMNS, Numbered, Row, Shard, Stream, View, difference, view_of
from tests.crash.recorder import RecordingDisk

# So small that every path of the store is taken within a few commits.
SMALL: list[tuple[Any, str, int]] = [
    (file_log, "INLINE_BYTES_MAX", 900),
    (file_log, "INLINE_ROWS_MAX", 8),
    (file_log, "FOLD_ENTRIES", 9),
    (file_log, "FOLD_JOURNAL_BYTES", 6_000),
    (file_log, "FOLD_SEGMENT_BYTES", 12_000),
    (file_log, "FOLD_AT_CLOSE_ENTRIES", 4),
    (folding, "BATCH_RECORDS_MAX", 24),
    (folding, "BATCH_BYTES_MAX", 4_000),
    (rewriting, "BATCH_RECORDS_MAX", 48),
    (rewriting, "_SMALL_RECORDS", 16),
    (segments, "SEGMENT_BYTES_MAX", 6_000),
    (segments, "_LIVE_MAX", 2),
]
KEEP = Retention(records=10**9)  # upkeep has something to look at, and nothing to remove


@contextmanager
def small_limits() -> Iterator[None]:
    """The store with its limits made small."""
    with ExitStack() as stack:
        for module, name, value in SMALL:
            stack.enter_context(mock.patch.object(module, name, value))
        yield


@dataclass(frozen=True)
class Step:
    """One thing that was done, between two calls of the disk."""

    what: str
    begin: int  # how many calls there were before
    end: int  # and when it was acknowledged
    promise: bool  # it, and all before, survives a power cut
    view: View  # what is to be seen afterwards
    history: int
    in_parts: bool = False  # a compaction: it may be seen half done


@dataclass
class Trace:
    """What happened to a directory, from a machine's state on."""

    start: Machine
    events: list[Event]
    steps: list[Step]  # the first one opens the log
    boot: str
    done: Counter[str] = field(default_factory=Counter)


class Workload:
    """Does random things to a log, and keeps account."""

    def __init__(self, root: str, seed: int, *, machine: Machine, boot: str, durable: bool) -> None:
        """Open the log; `durable`: what it shows now survives a power cut from here on."""
        self.random = Random(seed)
        self.clock = ManualClock()
        self.disk = RecordingDisk(root, boot, machine, seed)
        self.root = root
        self.trace = Trace(machine.copy(), self.disk.events, [], boot)
        self.log = self._open()
        self.view = view_of(self.log)
        self._note("open", 0, promise=durable)
        for name in self.view.streams:  # a cut in the midst of retaining leaves it on
            if self.log.settings(name).retention != KEEP:
                self.log.alter(name, retention=KEEP)

    def _open(self) -> FileLog:
        return FileLog(self.root, clock=self.clock, disk=self.disk)

    def run(self, steps: int) -> Trace:
        """Do so many things."""
        for number in range(steps):
            self.clock.advance(self.random.choice((0.001, 0.1, 0.3)))
            what = self.random.choices(list(_ACTIONS), list(_ACTIONS.values()))[0]
            if number < 2 and not self.view.streams:
                what = "create"
            begin = len(self.disk.events)
            promise = getattr(self, f"_{what}")()
            if promise is not None:
                self._note(what, begin, promise=promise)
        return self.trace

    def stop(self) -> None:
        """Close the log, without that being part of what happened."""
        count = len(self.disk.events)
        self.log.close()
        del self.disk.events[count:]
        self.disk.forget()

    def _note(self, what: str, begin: int, *, promise: bool) -> None:
        seen = view_of(self.log)
        if seen != self.view:
            raise AssertionError(f"after {what} the log shows {difference(seen, self.view)}")
        history = self.log._books.state.fact.history
        end = len(self.disk.events)
        parts = what == "compact"
        self.trace.steps.append(Step(what, begin, end, promise, self.view.copy(), history, parts))
        self.trace.done[what] += 1

    # -- commits

    def _rows(self, columnar: bool, count: int) -> list[Row]:
        rows: list[Row] = []
        for _ in range(count):
            key = self.random.choice((None, b"a", b"b", b"c"))
            value: Any = {"item": self.random.choice("xyz"), "price": self.random.randrange(9)}
            if not columnar:
                value = self.random.randbytes(self.random.choice((0, 3, 30, 300)))
            if key is not None and self.random.random() < 0.1:
                value = None
            headers = (("h", b"1"),) if self.random.random() < 0.2 else ()
            rows.append((self.clock.now_ms() - self.random.randrange(2_000), key, value, headers))
        return rows

    def _commit_of(self, view: View) -> Commit:
        """A commit that is not refused, and `view` with what it does."""
        random = self.random
        appends: list[Append] = []
        places = view.places()
        for name, number in random.sample(places, min(len(places), random.choice((0, 1, 1, 2, 3)))):
            stream = view.streams[name]
            rows = self._rows(stream.columnar, random.choice((1, 1, 1, 3, 7, 12, 40)))
            as_arrow = random.random() < 0.3
            value_type = COLUMNS if stream.columnar else pa.binary()
            given = [(t, k, v, h or None) for t, k, v, h in rows]
            appends.append(Append(name, number, rows_to_batch(given, value_type) if as_arrow else given))
            _append(stream.shards[number], rows)
        staged = self._published(view)
        fence = self._fence(view)
        offsets = self._offsets(view)
        marks = []
        if places and random.random() < 0.3:
            name, number = random.choice(places)
            progress = random.choice((None, random.randrange(1_000)))
            marks.append(Mark(name, number, random.choice("vw"), progress))
            _mark(view.streams[name].shards[number], marks[0])
        return Commit(tuple(appends), staged, offsets, fence, (), tuple(marks))

    def _published(self, view: View) -> tuple[Staged, ...]:
        tokens = [token for token in view.staged if token in self._rows_staged]
        if not tokens or self.random.random() < 0.4:
            return ()
        token = self.random.choice(tokens)
        name, number, count = view.staged.pop(token)
        _append(view.streams[name].shards[number], self._rows_staged[token])
        return (Staged(token, name, number, count),)

    def _fence(self, view: View) -> Fence | None:
        name = self.random.choice(("sink", "copy"))
        if name not in view.fences or self.random.random() < 0.4:
            return None
        run, number, _, _ = view.fences[name]
        fence = Fence(name, run, number + 1, self.random.randbytes(2), self.random.randbytes(3))
        view.fences[name] = (run, number + 1, fence.digest, fence.position)
        return fence

    def _offsets(self, view: View) -> tuple[Offset, ...]:
        places = view.places()
        if not places or self.random.random() < 0.5:
            return ()
        offsets = []
        for name, number in self.random.sample(places, min(len(places), self.random.choice((1, 2)))):
            known = view.offsets.get(("group", name, number))
            # Up to what was there before the commit, or is in it; staged records do not count.
            before = self.view if view is not self.view else view
            end = before.streams[name].shards[number].end if name in before.streams else 0
            following = self.random.randint(min(known or 0, end), end)
            offsets.append(Offset("group", name, number, known, following))
            view.offsets["group", name, number] = following
        return tuple(offsets)

    def _commit(self) -> bool:
        after = self.view.copy()
        commit = self._commit_of(after)
        durability = self.random.choice(("written", "written", "written", "synced", "fire"))
        receipt = self.log.commit(commit, durability)
        assert receipt.applied
        self.view = after
        for fate in ("staged", "fence", "offsets", "marks"):
            self.trace.done[f"commit with {fate}"] += bool(getattr(commit, fate))
        return durability == "synced"

    def _group(self) -> bool:
        """Several threads' commits, in one frame of the journal."""
        after = self.view.copy()
        commits = [self._commit_of(after) for _ in range(self.random.randint(2, 4))]
        synced = self.random.random() < 0.3
        receipts: list[Receipt] = []
        threads = [
            threading.Thread(
                target=lambda c=commit: receipts.append(
                    self.log.commit(c, Durability.SYNCED if synced else Durability.WRITTEN)
                )
            )
            for commit in commits
        ]
        self.log._upkeep_by_itself = False  # it would come in an order that nobody knows
        with self.log._line.turn():
            for number, thread in enumerate(threads):
                thread.start()
                while len(self.log._line._queue) <= number:
                    thread.join(0.0005)
        for thread in threads:
            thread.join()
        self.log._upkeep_by_itself = True
        assert len(receipts) == len(commits)
        self.view = after
        return synced

    def _refused(self) -> bool | None:
        """A commit whose last part is refused: nothing of it is there afterwards."""
        if not self.view.streams:
            return None
        after = self.view.copy()
        commit = self._commit_of(after)
        name, number = self.random.choice(self.view.places())
        end = self.view.streams[name].shards[number].end
        refused = Commit(
            commit.records, commit.staged, commit.offsets, commit.fence, (Expect(name, number, end + 1),)
        )
        try:
            self.log.commit(refused, "synced")
        except (Conflict, Fenced):
            return False
        raise AssertionError("a commit was not refused")

    def _again(self) -> bool | None:
        """A commit that was done before: its fence says so."""
        if "sink" not in self.view.fences or not self.view.streams:
            return None
        run, number, digest, _ = self.view.fences["sink"]
        if number < 0:
            return None
        name = self.random.choice(list(self.view.streams))
        rows = self._rows(self.view.streams[name].columnar, 1)
        given = [(t, k, v, h or None) for t, k, v, h in rows]
        receipt = self.log.commit(Commit((Append(name, 0, given),), fence=Fence("sink", run, number, digest)))
        assert not receipt.applied
        return False

    # -- everything else

    _rows_staged: dict[str, list[Row]] = {}  # noqa: RUF012

    def _create(self) -> bool | None:
        names = [name for name in ("a", "b", "columns", "latest") if name not in self.view.streams]
        if not names:
            return None
        name = self.random.choice(names)
        shards = self.random.randint(1, 3)
        columnar, compacted = name == "columns", name == "latest"
        self.log.create(
            name,
            shards=shards,
            value=COLUMNS if columnar else None,
            cleanup="compact" if compacted else "delete",
            retention=KEEP,
        )
        self.view.streams[name] = Stream(columnar, compacted, [Shard() for _ in range(shards)])
        return True

    def _alter(self) -> bool | None:
        names = [name for name, stream in self.view.streams.items() if len(stream.shards) < 4]
        if not names:
            return None
        name = self.random.choice(names)
        self.log.alter(name, shards=len(self.view.streams[name].shards) + 1)
        self.view.streams[name].shards.append(Shard())
        return True

    def _delete(self) -> bool | None:
        if len(self.view.streams) < 2:
            return None
        name = self.random.choice(list(self.view.streams))
        self.log.delete(name)
        view = self.view
        del view.streams[name]
        view.offsets = {key: seq for key, seq in view.offsets.items() if key[1] != name}
        view.staged = {token: row for token, row in view.staged.items() if row[0] != name}
        pins = {pin: {p: s for p, s in rows.items() if p[0] != name} for pin, rows in view.pins.items()}
        view.pins = {pin: rows for pin, rows in pins.items() if rows}
        return True

    def _trim(self) -> bool | None:
        if not self.view.streams:
            return None
        name, number = self.random.choice(self.view.places())
        shard = self.view.streams[name].shards[number]
        seq = self.random.randint(shard.first, shard.end)
        assert self.log.trim(name, number, seq, force=True) == seq
        _trim(shard, seq)
        return False

    def _retain(self) -> bool | None:
        """Retention by count, for one stream; it is taken back before upkeep comes by."""
        names = [name for name, stream in self.view.streams.items() if not stream.compacted]
        if not names:
            return None
        name = self.random.choice(names)
        count = self.random.randint(1, 60)
        begin = len(self.disk.events)
        self.log.alter(name, retention=Retention(records=count, force=True))
        self._note("alter", begin, promise=True)
        begin = len(self.disk.events)
        self.log.retain(name)
        for shard in self.view.streams[name].shards:
            _trim(shard, max(shard.first, shard.end - count))
        self._note("retain", begin, promise=False)
        self.log.alter(name, retention=KEEP)
        return True

    def _take_over(self) -> bool:
        name = self.random.choice(("sink", "copy"))
        run, _, _, position = self.view.fences.get(name, (0, 0, b"", None))
        assert self.log.take_over(name) == run + 1
        self.view.fences[name] = (run + 1, -1, b"", position)
        return True

    def _stage(self) -> bool | None:
        if not self.view.streams:
            return None
        name, number = self.random.choice(self.view.places())
        stream = self.view.streams[name]
        rows: list[Row] = []
        batches = []
        for _ in range(self.random.randint(1, 3)):
            some = self._rows(stream.columnar, self.random.choice((1, 5, 30)))
            given = [(t, k, v, h or None) for t, k, v, h in some]
            batches.append(rows_to_batch(given, COLUMNS if stream.columnar else pa.binary()))
            rows += some
        staged = self.log.stage(name, number, batches)
        self._rows_staged = {**self._rows_staged, staged.token: rows}
        self.view.staged[staged.token] = (name, number, len(rows))
        return True

    def _pin(self) -> bool | None:
        if not self.view.streams:
            return None
        if "pin" in self.view.pins and self.random.random() < 0.5:
            self.log.unpin("pin")
            del self.view.pins["pin"]
            return False
        places = self.random.sample(self.view.places(), 1)
        seqs = {(name, n): self.view.streams[name].shards[n].first for name, n in places}
        self.log.pin("pin", seqs)
        self.view.pins["pin"] = seqs
        return False

    def _folds(self) -> int:
        return self.log.counts["folds"]

    def _merge(self) -> bool:
        """What folds the journal makes all of it durable."""
        before = self._folds()
        self.log.merge()
        return self._folds() > before

    def _compact(self) -> bool:
        """What goes is the log's choice, as far as the newest of each key stays."""
        before = self._folds()
        self.log.compact()
        seen = view_of(self.log)
        for name, stream in self.view.streams.items():
            for number, shard in enumerate(stream.shards):
                kept = {seq for seq, _ in seen.streams[name].shards[number].records}
                newest = {row[1]: seq for seq, row in shard.records if row[1] is not None}
                assert stream.compacted or kept == {seq for seq, _ in shard.records}
                assert set(newest.values()) <= kept
                shard.records = [record for record in shard.records if record[0] in kept]
        return self._folds() > before

    def _fold(self) -> bool:
        before = self._folds()
        with self.log._folded():
            return self._folds() > before

    def _reopen(self) -> bool:
        self.log.close()
        self.log = self._open()
        return False


_ACTIONS = {
    "commit": 30,
    "group": 5,
    "refused": 1,
    "again": 1,
    "create": 4,
    "alter": 1,
    "delete": 1,
    "trim": 1,
    "retain": 1,
    "take_over": 2,
    "stage": 2,
    "pin": 1,
    "merge": 1,
    "compact": 1,
    "fold": 1,
    "reopen": 2,
}


def _append(shard: Shard, rows: list[Row]) -> None:
    numbered: list[Numbered] = [(shard.end + number, row) for number, row in enumerate(rows)]
    shard.records = [*shard.records, *numbered]
    shard.end += len(rows)


def _trim(shard: Shard, seq: int) -> None:
    shard.first = seq
    shard.records = [record for record in shard.records if record[0] >= seq]


def _mark(shard: Shard, mark: Mark) -> None:
    if mark.progress is None:
        shard.marks.pop(mark.writer, None)
    else:
        shard.marks[mark.writer] = max(mark.progress, shard.marks.get(mark.writer, mark.progress))
