"""A log whose truth is a `State`: all of the contract but where entries and records are kept.

A store says how it holds the log for itself, how it writes an entry, and how it finds records; what
is allowed, what is refused and what follows from it is said here, once for all stores.
"""

from __future__ import annotations

import fnmatch
import os
import threading
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

import msgspec
import pyarrow as pa

from millstream.clock import Clock
from millstream.errors import Closed, Pinned, SeqPastEnd, ShardOutOfRange, StreamExists, WrongType, shown
from millstream.log.batch import DEFAULT_LIMITS, Batch, Limits
from millstream.log.check import (
    check_cleanup,
    check_commit,
    check_durability,
    check_ends,
    check_limits,
    check_places,
    check_positive,
    check_records,
    check_retention,
    check_seq,
    check_settings,
    check_shards,
    check_timestamp,
)
from millstream.log.commit import Append, Commit, Durability, FenceState, Mark, Receipt
from millstream.log.entry import Changed, Committed, Entry
from millstream.log.group import Assignment, Place
from millstream.log.log import Log
from millstream.log.membership import assignment, beat, gone, group_info, group_now, groups_of, shards_of
from millstream.log.rules import judge_history, judge_position, next_run
from millstream.log.state import Change, FenceRow, Pending, ShardKey, ShardRow, State, StreamRow
from millstream.log.stream import Cleanup, Description, Retention, Settings, ShardInfo
from millstream.names import check_name
from millstream.record import warm_up


class Found(msgspec.Struct, frozen=True):
    """Records that a store found, where to read on, and the marks that hold there."""

    batches: tuple[pa.RecordBatch, ...]
    next_seq: int
    marks: dict[str, int]


class StateLog(Log):
    """A log that is a state and the records it speaks of."""

    def __init__(self, url: str, clock: Clock) -> None:
        """Start with nothing known."""
        self.url = url
        self.clock = clock
        self.counts: Counter[str] = Counter()
        self._state = State()
        self._lock = threading.RLock()  # around the state
        self._process = os.getpid()
        self._closed = False

    # -- what a store brings

    @abstractmethod
    def _now(self) -> State:
        """The state of an open log as it is now, others' entries included; call it with the lock held."""

    @abstractmethod
    def _alone(self) -> AbstractContextManager[State]:
        """Nobody else, in any process, changes the log in here; refuses if it is not open."""

    @abstractmethod
    def _write(self, entry: Entry, *, synced: bool = False) -> None:
        """Keep an entry and apply it; call it alone."""

    @abstractmethod
    def _submit(self, commit: Commit, pending: Sequence[Pending], durability: Durability) -> Receipt:
        """Judge a commit whose parts are checked, keep it and apply it."""

    @abstractmethod
    def _find(self, key: ShardKey, row: ShardRow, from_seq: int, limits: Limits, settings: Settings) -> Found:
        """Records of a shard, from a position that was checked; called without the lock."""

    @abstractmethod
    def _find_time(self, key: ShardKey, row: ShardRow, timestamp: int, settings: Settings) -> int:
        """The seq of the first record that is not older; the end if there is none."""

    @abstractmethod
    def _find_bytes(self, key: ShardKey, row: ShardRow, size: int) -> int:
        """The first seq from which on a shard takes at most so many bytes."""

    @abstractmethod
    def _shard_info(self, key: ShardKey, row: ShardRow) -> ShardInfo:
        """What there is to say of a shard."""

    @abstractmethod
    def _discard(self) -> None:
        """Give back the room of records that the state has let go of; call it alone."""

    # -- administration

    def create(
        self,
        stream: str,
        *,
        shards: int = 1,
        value: pa.DataType | pa.Schema | None = None,
        codec: str | None = None,
        retention: Retention | None = None,
        cleanup: Cleanup | str = Cleanup.DELETE,
        tombstones_ms: int = 86_400_000,
        exist_ok: bool = False,
    ) -> None:
        """See `Log.create`."""
        check_name("stream", stream)
        settings = check_settings(
            shards=shards,
            value=value,
            codec=codec,
            retention=retention,
            cleanup=cleanup,
            tombstones_ms=tombstones_ms,
        )
        with self._alone() as state:
            if stream in state.streams:
                known = state.streams[stream].settings
                if exist_ok and (known.value_type, known.codec) == (settings.value_type, settings.codec):
                    return
                why = "with another type of values" if exist_ok else "already; exist_ok=True accepts it"
                raise StreamExists(f"the stream '{stream}' exists {why}: its values are {known.value_type}")
            fact = state.fact
            row = StreamRow(fact.next_stream, settings, self.clock.now_ms())
            fact = msgspec.structs.replace(fact, next_stream=fact.next_stream + 1)
            self._change(state.streams.change(stream, row), state.facts.change("log", fact), synced=True)

    def settings(self, stream: str) -> Settings:
        """See `Log.settings`."""
        with self._open():
            self._check_open()
            known = self._state.streams.get(stream) if isinstance(stream, str) else None
            return (known or self._now().stream(stream)).settings

    def streams(self, pattern: str = "*") -> list[str]:
        """See `Log.streams`."""
        if not isinstance(pattern, str):
            raise WrongType(f"pattern={shown(pattern)}: expected a text, as in 'logs.*'")
        with self._open():
            return sorted(name for name in self._now().streams if fnmatch.fnmatchcase(name, pattern))

    def describe(self, stream: str) -> Description:
        """See `Log.describe`."""
        with self._open():
            state = self._now()
            row = state.stream(stream)
            keys = [(row.id, shard) for shard in range(row.settings.shards)]
            ends = {key: state.shards.get(key, ShardRow()) for key in keys}
            shards = tuple(self._shard_info(key, ends[key]) for key in keys)
            groups = tuple(group_info(state, name, keys) for name in groups_of(state, keys))
            pins = {
                name: {shard: seq for (number, shard), seq in seqs.items() if number == row.id}
                for name, seqs in state.pins.items()
            }
            return Description(
                stream, row.settings, shards, groups, {name: seqs for name, seqs in pins.items() if seqs}
            )

    def alter(
        self,
        stream: str,
        *,
        shards: int | None = None,
        retention: Retention | None = None,
        cleanup: Cleanup | str | None = None,
        tombstones_ms: int | None = None,
    ) -> None:
        """See `Log.alter`."""
        with self._alone() as state:
            row = state.stream(stream)
            if shards is not None and check_shards(shards) < row.settings.shards:
                raise ShardOutOfRange(
                    f"stream '{stream}' has {row.settings.shards} shards, and {shards} are fewer: shards "
                    "can only be added; make a new stream and relay into it"
                )
            settings = msgspec.structs.replace(
                row.settings,
                shards=shards or row.settings.shards,
                retention=row.settings.retention if retention is None else check_retention(retention),
                cleanup=row.settings.cleanup if cleanup is None else check_cleanup(cleanup),
                tombstones_ms=row.settings.tombstones_ms
                if tombstones_ms is None
                else check_positive("tombstones_ms", tombstones_ms),
            )
            changed = StreamRow(row.id, settings, row.created_ms)
            self._change(state.streams.change(stream, changed), synced=True)

    def delete(self, stream: str) -> None:
        """See `Log.delete`."""
        with self._alone() as state:
            self._change(*state.rows_without(stream), synced=True)
            self._discard()

    def trim(self, stream: str, shard: int, to_seq: int, *, force: bool = False) -> int:
        """See `Log.trim`."""
        check_seq("to_seq", to_seq)
        with self._alone() as state:
            key, row = state.shard(stream, shard)
            if to_seq > row.end:
                raise SeqPastEnd(
                    f"stream '{stream}', shard {shard} ends at {row.end}: it cannot be trimmed to {to_seq}",
                    end=row.end,
                )
            if to_seq <= row.first:
                return row.first
            held = [(who, seq) for who, seq in state.holds(key) if seq < to_seq]
            if held and not force:
                who = ", ".join(f"{who} (from seq {seq} on)" for who, seq in held)
                raise Pinned(
                    f"stream '{stream}', shard {shard} cannot be trimmed to {to_seq}: still needed by {who}. "
                    "Trim less, let them finish, or use force=True"
                )
            self.counts["trims_forced"] += bool(held)
            self._change(state.shards.change(key, ShardRow(to_seq, row.end, row.marks)))
            self._discard()
            return to_seq

    # -- records

    def read(
        self,
        stream: str,
        shard: int,
        from_seq: int,
        limits: Limits = DEFAULT_LIMITS,
        *,
        history: int | None = None,
    ) -> Batch:
        """See `Log.read`."""
        check_seq("from_seq", from_seq)
        check_limits(limits)
        with self._open():
            state = self._now()
            key, row = state.shard(stream, shard)
            settings = state.streams[stream].settings
            shared = None if history is None else state.shared_end(key, history)
            if shared is not None:
                judge_history(stream, shard, from_seq, shared)
            judge_position(stream, shard, from_seq, row.first, row.end)
            now = state.fact.history
        found = self._find(key, row, from_seq, limits, settings)
        self.counts["reads"] += 1
        start = found.batches[0].column(0)[0].as_py() if found.batches else found.next_seq
        if start > from_seq:  # compacted, or trimmed by others meanwhile: only one of them is an error
            with self._open():
                _, row = self._now().shard(stream, shard)
                judge_position(stream, shard, from_seq, row.first, max(row.end, from_seq))
        return Batch(
            stream=stream,
            shard=shard,
            from_seq=from_seq,
            next_seq=found.next_seq,
            end=max(row.end, found.next_seq),  # it may have grown since
            history=now,
            batches=found.batches,
            schema=settings.schema,
            marks=tuple(Mark(stream, shard, writer, seen) for writer, seen in sorted(found.marks.items())),
        )

    def ends(self, stream: str) -> list[tuple[int, int]]:
        """See `Log.ends`."""
        with self._open():
            state = self._now()
            row = state.stream(stream)
            found = [state.shards.get((row.id, shard), _EMPTY) for shard in range(row.settings.shards)]
            return [(shard.first, shard.end) for shard in found]

    def seek(self, stream: str, shard: int, timestamp: int) -> int:
        """See `Log.seek`."""
        check_timestamp(timestamp)
        with self._open():
            state = self._now()
            key, row = state.shard(stream, shard)
            return self._find_time(key, row, timestamp, state.streams[stream].settings)

    def commit(self, commit: Commit, durability: Durability | str = Durability.WRITTEN) -> Receipt:
        """See `Log.commit`."""
        durability = check_durability(durability)
        self._check_open()
        check_commit(commit)
        return self._submit(commit, [self._pending(append) for append in commit.records], durability)

    def _pending(self, append: Append) -> Pending:
        """Records to be committed, checked against the stream they are for."""
        warm_up()
        records = check_records(append, self.settings(append.stream).value_type)
        if isinstance(records, pa.RecordBatch):
            count = records.num_rows
            times = records.column(0).to_numpy()
            oldest, newest = (int(times.min()), int(times.max())) if count else (0, 0)
        else:
            count = len(records)
            if count == 1:
                oldest = newest = records[0][0]
            else:
                times = [row[0] for row in records] or [0]
                oldest, newest = min(times), max(times)
        return Pending(append.stream, append.shard, records, count, oldest, newest)

    def _receipt(self, entry: Committed | None, commit: Commit, state: State) -> Receipt:
        """What to answer to a commit: `entry` None if it was done before."""
        history = state.fact.history
        if entry is not None:
            return Receipt(True, entry.placed, history)
        known = state.fences[commit.fence.name].placed if commit.fence else ()
        return Receipt(False, known, history)

    # -- names that commit once

    def take_over(self, name: str) -> int:
        """See `Log.take_over`."""
        check_name("fence", name)
        with self._alone() as state:
            known = state.fences.get(name)
            now = self.clock.now_ms()
            if known is None:
                row = FenceRow(run=1, used_ms=now)
            else:
                row = FenceRow(next_run(name, known.run), now, position=known.position, placed=known.placed)
            self._change(state.fences.change(name, row), synced=True)
            return row.run

    def fence(self, name: str) -> FenceState | None:
        """See `Log.fence`."""
        check_name("fence", name)
        with self._open():
            return self._now().fence(name)

    # -- groups and pins

    def offsets(self, group: str) -> dict[Place, int]:
        """See `Log.offsets`."""
        check_name("group", group)
        with self._open():
            state = self._now()
            return {
                (state.names[stream], shard): seq
                for (name, stream, shard), seq in state.offsets.items()
                if name == group
            }

    def heartbeat(
        self,
        group: str,
        member: str,
        streams: Sequence[str],
        *,
        lease: float,
        released: Sequence[Place] = (),
    ) -> Assignment:
        """See `Log.heartbeat`."""
        check_name("group", group)
        check_name("member", member)
        if type(lease) not in {int, float} or not lease > 0:
            raise WrongType(f"lease={shown(lease)}: expected a positive number of seconds")
        check_places(released)
        with self._alone() as state:
            for stream in streams:
                state.stream(stream)
            now = self.clock.uptime()
            after = beat(
                group_now(state, group),
                member,
                sorted(set(streams)),
                until=now + lease,
                now=now,
                shards=shards_of(state),
                released=[state.shard(*place)[0] for place in released],
            )
            self._change(state.groups.change(group, after))
            return assignment(state, after, member)

    def leave(self, group: str, member: str) -> None:
        """See `Log.leave`."""
        check_name("group", group)
        with self._alone() as state:
            if group in state.groups:
                row = gone(group_now(state, group), member, shards_of(state))
                self._change(state.groups.change(group, row))

    def delete_group(self, group: str) -> None:
        """See `Log.delete_group`."""
        check_name("group", group)
        with self._alone() as state:
            rows = [state.offsets.change(key, None) for key in state.offsets if key[0] == group]
            if group in state.groups:
                rows.append(state.groups.change(group, None))
            if rows:
                self._change(*rows)

    def pin(self, name: str, seqs: Mapping[Place, int]) -> None:
        """See `Log.pin`."""
        check_name("pin", name)
        check_ends(seqs)
        with self._alone() as state:
            rows = {state.shard(*place)[0]: seq for place, seq in seqs.items()}
            self._change(state.pins.change(name, rows or None))

    def unpin(self, name: str) -> None:
        """See `Log.unpin`."""
        check_name("pin", name)
        with self._alone() as state:
            if name in state.pins:
                self._change(state.pins.change(name, None))

    # -- upkeep

    def retain(self, stream: str | None = None) -> int:
        """See `Log.retain`."""
        gone_seqs = 0
        with self._alone() as state:
            rows = []
            for name in [stream] if stream is not None else sorted(state.streams):
                known = state.stream(name)
                if known.settings.cleanup is Cleanup.DELETE:
                    for shard in range(known.settings.shards):
                        key = known.id, shard
                        row = state.shards.get(key, _EMPTY)
                        first = self._keep_from(state, key, row, known.settings)
                        if first > row.first:
                            rows.append(state.shards.change(key, ShardRow(first, row.end, row.marks)))
                            gone_seqs += first - row.first
            if rows:
                self._change(*rows)
                self._discard()
        self.counts["records_retired"] += gone_seqs
        return gone_seqs

    def _keep_from(self, state: State, key: ShardKey, row: ShardRow, settings: Settings) -> int:
        """The first seq that retention lets stay."""
        retention = settings.retention
        first = row.first
        if retention.age_ms is not None:
            cutoff = self.clock.now_ms() - retention.age_ms
            first = max(first, self._find_time(key, row, cutoff, settings))
        if retention.records is not None:
            first = max(first, row.end - retention.records)
        if retention.bytes is not None:
            first = max(first, self._find_bytes(key, row, retention.bytes))
        held = min((seq for _, seq in state.holds(key)), default=first)
        if held < first:
            if not retention.force:
                return max(row.first, held)
            self.counts["retentions_forced"] += 1
        return first

    def statistics(self) -> dict[str, int | float]:
        """See `Log.statistics`."""
        return dict(self.counts)

    # -- the ground of all that

    def _change(self, *rows: Change, synced: bool = False) -> None:
        """Write new rows of the state as one entry; call it alone."""
        self._write(Changed(self._state.id + 1, rows), synced=synced)

    def _open(self) -> threading.RLock:
        """The lock, once it is known that the log is open; check again with it held, as `_now` does.

        In a fork nobody may be there to let go of it. And where a signal handler raises, only the
        lock itself as a context manager is surely let go of.
        """
        self._check_open()
        return self._lock

    def _check_open(self) -> None:
        if self._closed or os.getpid() != self._process:
            self._refuse()

    def _refuse(self) -> None:
        if self._closed:
            raise Closed(f"{self!r} was closed; open it again with millstream.open({self.url!r})")
        raise Closed(
            f"{self!r} was opened by process {self._process}, and this is its fork {os.getpid()}: "
            f"open it again with millstream.open({self.url!r}) after the fork"
        )


_EMPTY = ShardRow()
