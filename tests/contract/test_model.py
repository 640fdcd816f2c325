"""Any sequence of calls leaves a store as it leaves plain lists; run by Hypothesis, the same each time."""

import gc
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from millstream.errors import (
    Conflict,
    Pinned,
    SeqPastEnd,
    SeqTrimmed,
    StreamExists,
    Unsupported,
)
from millstream.log import Append, Commit, Expect, Fence, Limits, Log, Mark, Offset, Retention
from millstream.log.can import Can
from millstream.log.group import Place
from millstream.record import VALUE_BYTES, Row, rows_to_batch
from tests.contract.looking import records
from tests.contract.model import Model, Shard, Stream, rows_of, seen, state_of
from tests.contract.stores import Store
from tests.manual_clock import ManualClock

NAMES = st.sampled_from(["a", "b"])
GROUPS = st.sampled_from(["g", "h"])
KEYS = st.sampled_from([None, b"", b"k", b"l"])
TOMBSTONES_MS = 3_000
limits = st.builds(Limits, st.integers(1, 20), st.sampled_from([1, 100, 1_000, 1 << 20]))
retentions = st.builds(
    Retention, age_ms=st.none() | st.integers(1, 9_000), records=st.none() | st.integers(1, 20)
)


class Calls(RuleBasedStateMachine):
    """Every rule does the same to the log and to the model; the invariants compare them."""

    store: ClassVar[Store]

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.clock = ManualClock()
        self.directory = tempfile.TemporaryDirectory()
        self.log: Log = self.store.open(Path(self.directory.name), self.clock)
        self.sent: list[Commit] = []  # under fences
        self.counter = 0

    def teardown(self) -> None:
        self.log.close()
        self.directory.cleanup()

    def place(self, data: st.DataObject) -> Place:
        return data.draw(st.sampled_from(self.model.places()))

    def has_streams(self) -> bool:
        return bool(self.model.streams)

    # -- streams

    @initialize(value=st.sampled_from([None, pa.int64()]), retention=retentions)
    def begin(self, value: pa.DataType | None, retention: Retention) -> None:
        self.create("a", 2, value, retention)

    @rule(
        name=NAMES, shards=st.integers(1, 3), value=st.sampled_from([None, pa.int64()]), retention=retentions
    )
    def create(self, name: str, shards: int, value: pa.DataType | None, retention: Retention) -> None:
        def make() -> None:
            self.log.create(
                name, shards=shards, value=value, retention=retention, tombstones_ms=TOMBSTONES_MS
            )

        if name in self.model.streams:
            with pytest.raises(StreamExists):
                make()
        else:
            make()
            self.model.streams[name] = Stream(value, retention, [Shard() for _ in range(shards)])

    @precondition(lambda self: len(self.model.streams) > 1)
    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        self.log.delete(name)
        self.model.delete(name)

    @precondition(has_streams)
    @rule(data=st.data())
    def add_a_shard(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.streams)))
        shards = self.model.streams[name].shards
        if len(shards) < 4:
            shards.append(Shard())
            self.log.alter(name, shards=len(shards))

    # -- commits

    def part(self, data: st.DataObject) -> Append:
        """Rows or Arrow for some shard; every value is another one."""
        place = self.place(data)
        kind = self.model.streams[place[0]].value
        rows: list[Row] = []
        for key, tombstone, age in data.draw(
            st.lists(st.tuples(KEYS, st.booleans(), st.integers(0, 9_000)), max_size=4)
        ):
            self.counter += 1
            value: Any = self.counter if kind is not None else b"%d" % self.counter
            rows.append((self.clock.now_ms() - age, key, None if tombstone else value, None))
        if data.draw(st.booleans()):
            return Append(*place, rows_to_batch(rows, kind or VALUE_BYTES))
        return Append(*place, rows)

    @precondition(has_streams)
    @rule(data=st.data(), count=st.integers(0, 3))
    def append(self, data: st.DataObject, count: int) -> None:
        self.commit(Commit(records=tuple(self.part(data) for _ in range(count))))

    @precondition(has_streams)
    @rule(
        data=st.data(), run=st.integers(0, 2), number=st.integers(0, 3), digest=st.sampled_from([b"", b"d"])
    )
    def append_fenced(self, data: st.DataObject, run: int, number: int, digest: bytes) -> None:
        known = self.model.fences.get("sink")
        if known is not None and data.draw(st.booleans()):
            run, number = known.run, known.number + 1
        position = b"%d" % self.counter if data.draw(st.booleans()) else None
        commit = Commit((self.part(data),), fence=Fence("sink", run, number, digest, position))
        if self.commit(commit):
            self.sent.append(commit)

    @precondition(lambda self: self.sent)
    @rule(back=st.integers(0, 3))
    def send_again(self, back: int) -> None:
        commit = self.sent[-1 - back % len(self.sent)]
        places = set(self.model.places())
        there = all((part.stream, part.shard) in places for part in commit.records)
        if there and all(fits(part, self.model.streams[part.stream].value) for part in commit.records):
            self.commit(commit)

    @rule()
    def take_over(self) -> None:
        assert self.log.take_over("sink") == self.model.take_over("sink")

    @precondition(has_streams)
    @rule(data=st.data(), group=GROUPS, right=st.booleans())
    def transact(self, data: st.DataObject, group: str, right: bool) -> None:
        """Consume, process, produce: outputs and the offset in one commit."""
        place, out = self.place(data), self.part(data)
        current = self.model.offsets[group].get(place)
        following = data.draw(st.integers(0, self.model.shard(place).end + 1))
        expected = current if right else data.draw(st.none() | st.integers(0, 5))
        self.commit(Commit((out,), offsets=(Offset(group, *place, expected, following),)))

    @precondition(has_streams)
    @rule(data=st.data(), right=st.booleans())
    def append_if_nothing_came_between(self, data: st.DataObject, right: bool) -> None:
        place = self.place(data)
        seq = self.model.shard(place).end if right else data.draw(st.integers(0, 5))
        self.commit(Commit((self.part(data),), expect=(Expect(*place, seq),)))

    @precondition(has_streams)
    @rule(data=st.data(), writer=st.sampled_from("vw"), progress=st.none() | st.integers(-5, 5))
    def mark(self, data: st.DataObject, writer: str, progress: int | None) -> None:
        parts = (self.part(data),) if data.draw(st.booleans()) else ()
        self.commit(Commit(parts, marks=(Mark(*self.place(data), writer, progress),)))

    @precondition(has_streams)
    @rule(data=st.data())
    def stage(self, data: st.DataObject) -> None:
        part = self.part(data)
        rows = rows_of(part)
        kind = self.model.streams[part.stream].value or VALUE_BYTES
        half = len(rows) // 2
        batches = [rows_to_batch(some, kind) for some in (rows[:half], rows[half:])]
        staged = self.log.stage(part.stream, part.shard, batches)
        self.model.staged[staged.token] = staged, rows

    @precondition(lambda self: self.model.staged)
    @rule(data=st.data())
    def publish(self, data: st.DataObject) -> None:
        tokens = data.draw(st.lists(st.sampled_from(sorted(self.model.staged)), min_size=1, max_size=3))
        self.commit(Commit((self.part(data),), tuple(self.model.staged[token][0] for token in tokens)))

    def commit(self, commit: Commit) -> bool:
        """Whether it was applied, as the model says."""
        errors, done_before = self.model.judge(commit)
        if errors:
            with pytest.raises(tuple(errors)):
                self.log.commit(commit)
            return False
        receipt = self.log.commit(commit)
        assert receipt.applied != done_before
        if done_before:
            assert commit.fence is not None
            assert receipt.placed == self.model.fences[commit.fence.name].placed
        else:
            assert receipt.placed == self.model.apply(commit)
        return receipt.applied

    # -- reading

    @precondition(has_streams)
    @rule(data=st.data(), some=limits)
    def read(self, data: st.DataObject, some: Limits) -> None:
        place = self.place(data)
        shard = self.model.shard(place)
        from_seq = data.draw(st.integers(0, shard.end + 1))
        wrong = SeqTrimmed if from_seq < shard.first else SeqPastEnd if from_seq > shard.end else None
        if wrong is not None:
            with pytest.raises(wrong):
                self.log.read(*place, from_seq, some)
            return
        batch = self.log.read(*place, from_seq, some)
        found = seen(list(batch.records()))
        assert found == shard.between(from_seq, batch.next_seq)
        assert len(found) <= some.records
        assert batch.end == shard.end
        assert found or batch.next_seq > from_seq or from_seq == shard.end
        legal = [known for seq, known in shard.marks if seq <= batch.next_seq]
        assert {mark.writer: mark.progress for mark in batch.marks} in legal

    @precondition(has_streams)
    @rule(data=st.data(), age=st.integers(-1, 9_001))
    def seek(self, data: st.DataObject, age: int) -> None:
        place = self.place(data)
        shard, when = self.model.shard(place), self.clock.now_ms() - age
        assert self.log.seek(*place, when) == next(
            (seq for seq, row in shard.records if row[0] >= when), shard.end
        )

    # -- what goes, and what holds it

    @precondition(has_streams)
    @rule(data=st.data(), force=st.booleans())
    def trim(self, data: st.DataObject, force: bool) -> None:
        place = self.place(data)
        shard = self.model.shard(place)
        to_seq = data.draw(st.integers(0, shard.end))
        held = to_seq > shard.first and any(seq < to_seq for seq in self.model.holds(place))
        if held and not force:
            with pytest.raises(Pinned):
                self.log.trim(*place, to_seq)
        else:
            assert self.log.trim(*place, to_seq, force=force) == max(to_seq, shard.first)
            shard.cut(to_seq)

    @precondition(has_streams)
    @rule()
    def retain(self) -> None:
        self.log.retain()
        for place in self.model.places():
            self.model.shard(place).cut(self.model.retained_from(place, self.clock.now_ms()))

    @precondition(has_streams)
    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.streams)))
        cutoff = self.clock.now_ms() - TOMBSTONES_MS
        gone = 0
        reported = self.log.compact(name)
        for place in [place for place in self.model.places() if place[0] == name]:
            shard = self.model.shard(place)
            left = seen(records(self.log, *place))
            if not self.model.holds(place):
                assert left == self.model.compacted(place, cutoff)
            went = [record for record in shard.records if record not in left]
            assert [record for record in shard.records if record in left] == left
            assert all(self.model.may_go(place, record, cutoff) for record in went)
            shard.records = left
            gone += len(went)
        assert reported == gone

    @precondition(has_streams)
    @rule(data=st.data(), name=st.sampled_from(["job", "other"]))
    def pin(self, data: st.DataObject, name: str) -> None:
        places = data.draw(st.sets(st.sampled_from(self.model.places()), max_size=2))
        seqs = {place: data.draw(st.integers(0, self.model.shard(place).end)) for place in sorted(places)}
        self.log.pin(name, seqs)
        self.model.pins[name] = seqs

    @rule(name=st.sampled_from(["job", "other"]))
    def unpin(self, name: str) -> None:
        self.log.unpin(name)
        self.model.pins.pop(name, None)

    @rule(group=GROUPS)
    def delete_group(self, group: str) -> None:
        self.log.delete_group(group)
        self.model.offsets[group] = {}

    @rule()
    def merge(self) -> None:
        if Can.UPKEEP in self.log.can:
            assert self.log.merge() >= 0
            assert self.log.verify() == []
        else:
            with pytest.raises(Unsupported):
                self.log.merge()

    # -- time, and the end of processes

    @rule(seconds=st.sampled_from([0.001, 1, 4, -2]))
    def let_time_pass(self, seconds: float) -> None:
        self.clock.forward(seconds)

    @precondition(lambda self: self.store.survives)
    @rule()
    def open_again(self) -> None:
        self.log.close()
        self.log = self.store.open(Path(self.directory.name), self.clock)

    @precondition(lambda self: self.store.survives)
    @rule()
    def crash(self) -> None:
        """The log is dropped as it is, never closed, and opened again."""
        del self.log
        gc.collect()
        self.log = self.store.open(Path(self.directory.name), self.clock)

    # -- what holds after every call

    @invariant()
    def everything_is_as_in_the_model(self) -> None:
        assert self.log.streams() == sorted(self.model.streams)
        for name, stream in self.model.streams.items():
            assert self.log.ends(name) == [(shard.first, shard.end) for shard in stream.shards]
            for number, shard in enumerate(stream.shards):
                assert seen(records(self.log, name, number)) == shard.records
                newest = {mark.writer: mark.progress for mark in self.log.read(name, number, shard.end).marks}
                assert newest == shard.marks[-1][1]
        assert all(self.log.offsets(group) == known for group, known in self.model.offsets.items())

    @invariant()
    def fences_and_pins_are_as_in_the_model(self) -> None:
        known, state = self.model.fences.get("sink"), self.log.fence("sink")
        assert (state is None) == (known is None)
        if state is not None and known is not None:
            assert (state.run, state.number, state.digest, state.position, state.placed) == state_of(known)
        for name in self.model.streams:
            pinned = {
                pin: {shard: seq for (stream, shard), seq in seqs.items() if stream == name}
                for pin, seqs in self.model.pins.items()
            }
            assert self.log.describe(name).pins == {pin: seqs for pin, seqs in pinned.items() if seqs}


def fits(part: Append, value: pa.DataType | None) -> bool:
    """Whether a stream takes these records, which were made for one that may have had another type."""
    if isinstance(part.records, pa.RecordBatch):
        return bool(part.records.schema.field("value").type == (value or VALUE_BYTES))
    return all(row[2] is None or isinstance(row[2], bytes) == (value is None) for row in rows_of(part))


def play(kind: Store, examples: int, steps: int, *, derandomize: bool) -> None:
    class CallsOfStore(Calls):
        store = kind

    run_state_machine_as_test(
        CallsOfStore,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=derandomize,
            report_multiple_bugs=False,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.needs(*set(Can) - {Can.PROCESSES, Can.WRITTEN, Can.SYNCED, Can.UPKEEP})
def test_any_calls_leave_a_log_as_they_leave_plain_lists(store: Store) -> None:
    play(store, 30 if store.survives else 100, 30, derandomize=True)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.needs(*set(Can) - {Can.PROCESSES, Can.WRITTEN, Can.SYNCED, Can.UPKEEP})
def test_many_other_calls_leave_a_log_as_they_leave_plain_lists(store: Store) -> None:
    play(store, 1_000, 60, derandomize=False)


def test_a_model_that_forgets_is_found_out() -> None:
    """A canary: the lists would not agree with a log that refused nothing."""
    model = Model()
    model.streams["a"] = Stream(None, Retention(), [Shard()])
    model.apply(Commit((Append("a", 0, [(0, None, b"x", None)]),), fence=Fence("sink", 1, 1)))
    assert model.judge(Commit(expect=(Expect("a", 0, 0),))) == ({Conflict}, False)
    assert model.judge(Commit(fence=Fence("sink", 1, 1))) == (set(), True)
