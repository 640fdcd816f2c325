"""Upkeep: what keeps a log small, all of it on command, and what is due by itself in small steps.

The steps come between a writer's commits, and take at most a twentieth of its time: after a step that
took one millisecond, nineteen pass before the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from millstream.clock import Clock
from millstream.log.file.books import Books
from millstream.log.file.reader import Reader
from millstream.log.file.rewrite import Rewriter
from millstream.log.file.segments import Segments
from millstream.log.file.sweep import segments_on, sweep, tend
from millstream.log.finding import Report, Step
from millstream.log.state import ShardKey, ShardRow, State
from millstream.log.stream import Cleanup, Retention, Settings

PAUSE_SECONDS = 0.2
WORK_PER_PAUSE = 19  # so long is the pause after a step, measured by the step
FENCES_IDLE_MS = 7 * 86_400_000
STAGED_IDLE_MS = 86_400_000
COMPACT_RECORDS_MIN = 100_000  # new ones in a shard, before it is compacted by itself
_SEGMENTS_A_STEP = 100


class Upkeep:
    """Keeps a log small."""

    def __init__(
        self,
        books: Books,
        segments: Segments,
        reader: Reader,
        clock: Clock,
        counts: Counter[str],
        *,
        turn: Callable[[], AbstractContextManager[State]],
        fold: Callable[[], None],
        retain: Callable[[], object],
    ) -> None:
        """Take what the log works with; nothing is due before the first pause is over."""
        self._books = books
        self._rewriter = Rewriter(books, segments, reader)
        self._clock = clock
        self._counts = counts
        self._turn = turn
        self._fold = fold
        self._retain = retain
        self._due = clock.uptime() + PAUSE_SECONDS
        self._next = 0
        self._merged: dict[ShardKey, int] = {}
        self._merged_last: ShardKey = (0, 0)
        self._compacted: dict[ShardKey, int] = {}
        self._tended: set[str] = set()
        self._steps = (
            self._retain_step,
            self._merge_step,
            self._forget_step,
            self._compact_step,
            self._tend_step,
        )

    def step(self) -> None:
        """Do one small piece of work, if enough time has gone by since the last."""
        began = self._clock.uptime()
        if began < self._due:
            return
        try:
            self._steps[self._next]()
        finally:
            self._next = (self._next + 1) % len(self._steps)
            ended = self._clock.uptime()
            self._due = ended + max(PAUSE_SECONDS, WORK_PER_PAUSE * (ended - began))
            self._counts["upkeep_steps"] += 1

    def merge(self, stream: str | None, report: Report | None) -> int:
        """Merge all runs of small batches; gives how many batches there are fewer."""
        with self._turn() as state:
            keys = list(_keys(state, stream))
        fewer = 0
        for done, key in enumerate(keys):
            _tell(report, "merge", done, len(keys))
            merged, seq = self._merge_run(key, 0)
            while merged:
                fewer += merged - 1
                merged, seq = self._merge_run(key, seq)
        _tell(report, "merge", len(keys), len(keys))
        return fewer

    def _merge_run(self, key: ShardKey, from_seq: int) -> tuple[int, int]:
        """Merge the next run of a shard; gives how many batches it had, and where to go on."""
        with self._turn() as state:
            self._fold()
            run = self._rewriter.small_run(key, from_seq) if key[0] in state.names else []
            if run:
                self._sweep(self._rewriter.merge(key, run))
            return len(run), run[0].extent.first if run else from_seq

    def compact(self, stream: str | None, report: Report | None) -> int:
        """Compact the stream, or all that ask for it; gives how many records went."""
        with self._turn() as state:
            keys = [
                key
                for key in _keys(state, stream)
                if stream is not None or _settings(state, key).cleanup is Cleanup.COMPACT
            ]
        gone = 0
        for done, key in enumerate(keys):
            _tell(report, "compact", done, len(keys))
            gone += self._compact_shard(key)
        _tell(report, "compact", len(keys), len(keys))
        return gone

    def _compact_shard(self, key: ShardKey) -> int:
        with self._turn() as state:
            self._fold()
            if key[0] not in state.names:
                return 0
            row = state.shards.get(key, ShardRow())
            end = min((seq for _, seq in state.holds(key)), default=row.end)
            before = self._clock.now_ms() - _settings(state, key).tombstones_ms
            latest = self._rewriter.latest(key, end)
            gone, touched = self._rewriter.compact(key, end, latest, before)
            self._sweep(touched)
            self._compacted[key] = row.end
            return gone

    def _sweep(self, segments: set[str]) -> None:
        self._counts["segments_removed"] += sweep(self._books.disk, self._books, segments)

    # -- steps

    def _retain_step(self) -> None:
        if any(row.settings.retention != Retention() for row in list(self._books.state.streams.values())):
            self._retain()

    def _merge_step(self) -> None:
        with self._turn() as state:
            grown = {key: row.end for key, row in state.shards.items() if row.end > self._merged.get(key, 0)}
        # From the one after the last, or a shard that always grows would keep the others waiting.
        for key in sorted(grown, key=lambda key: (key <= self._merged_last, key)):
            merged, _ = self._merge_run(key, 0)
            if merged:
                self._merged_last = key
                return
            self._merged[key] = grown[key]

    def _compact_step(self) -> None:
        with self._turn() as state:
            due = [
                key
                for key, row in state.shards.items()
                if key[0] in state.names
                and _settings(state, key).cleanup is Cleanup.COMPACT
                and row.end - self._compacted.setdefault(key, row.end) >= COMPACT_RECORDS_MIN
            ]
        if due:
            self._compact_shard(due[0])

    def _forget_step(self) -> None:
        """Names that have not committed for a week, and staged records that nobody named for a day, go."""
        now = self._clock.now_ms()
        with self._turn() as state:
            idle = [name for name, row in state.fences.items() if now - row.used_ms > FENCES_IDLE_MS]
            staged = [token for token, row in state.staged.items() if now - row.created_ms > STAGED_IDLE_MS]
            if idle or staged:
                segments = {extent.segment for token in staged for extent in state.staged[token].extents}
                self._books.change(
                    *(state.fences.change(name, None) for name in idle),
                    *(state.staged.change(token, None) for token in staged),
                )
                self._fold()
                self._sweep(segments)
        self._counts["names_forgotten"] += len(idle)
        self._counts["staged_forgotten"] += len(staged)

    def _tend_step(self) -> None:
        """Segments of processes that are gone are sealed, or removed if nothing names them."""
        new = [segment for segment in segments_on(self._books.disk) if segment not in self._tended]
        some = new[:_SEGMENTS_A_STEP]
        if some:
            with self._turn():
                sealed, removed = tend(self._books.disk, self._books, some, self._clock.now_ms())
            self._tended.update(some)
            self._counts["segments_sealed"] += sealed
            self._counts["segments_removed"] += removed


def _keys(state: State, stream: str | None) -> Iterator[ShardKey]:
    for name in [stream] if stream is not None else sorted(state.streams):
        row = state.stream(name)
        for shard in range(row.settings.shards):
            yield row.id, shard


def _settings(state: State, key: ShardKey) -> Settings:
    return state.streams[state.names[key[0]]].settings


def _tell(report: Report | None, step: str, done: int, total: int) -> None:
    if report is not None:
        report(Step(step, done, total))
