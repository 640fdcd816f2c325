"""Consumers in groups: shared work, offsets, and taking over."""

import gc
import os
import threading
import weakref
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import millstream
from millstream import Commit, Limits, Log, Offset
from millstream.clock import ManualClock
from millstream.errors import Conflict, Fenced, UnknownStream, UsageError
from millstream.log.member import Pulse
from tests.consumer.streams import (
    BEAT,
    LEASE,
    PATIENCE,
    Oops,
    drain,
    fill_shards,
    member,
    settle,
    shards,
    take,
    values,
)

# -- sharing


def test_groups_do_not_take_records_from_each_other(orders: Log) -> None:
    written = fill_shards(orders, 3)
    for group in ("bills", "mails"):
        with orders.consumer("orders", group=group, until="end") as consumer:
            assert sorted(values(consumer)) == written
        with orders.consumer("orders", group=group, until="end") as consumer:
            assert values(consumer) == []


def test_members_share_the_shards_as_they_come(orders: Log, clock: ManualClock) -> None:
    ann = member(orders, "ann")
    assert shards(ann) == {0, 1, 2, 3}
    bob = member(orders, "bob")
    assert shards(bob) == set()
    settle(clock, ann, bob)
    assert (shards(ann), shards(bob)) == ({0, 1}, {2, 3})
    cem = member(orders, "cem")
    settle(clock, ann, bob, cem)
    assert sorted(len(shards(each)) for each in (ann, bob, cem)) == [1, 1, 2]
    assert shards(ann) | shards(bob) | shards(cem) == {0, 1, 2, 3}
    assert ann.statistics()["rebalances"] > 1


def test_what_was_released_goes_on_where_it_was_left_and_nothing_comes_twice(
    orders: Log, clock: ManualClock
) -> None:
    written = fill_shards(orders, 50)
    ann = member(orders, "ann", limits=Limits(records=7))
    seen = take(ann, 60)
    bob = member(orders, "bob", limits=Limits(records=7))
    for _ in range(4):
        clock.advance(BEAT)
        seen += take(ann, 5)
        seen += drain(bob)
    seen += drain(ann)
    assert Counter(seen) == Counter(written)
    assert shards(bob) == {2, 3}


def test_a_member_in_the_middle_of_a_long_batch_hears_that_a_shard_is_wanted(
    orders: Log, clock: ManualClock
) -> None:
    fill_shards(orders, 900)
    ann = member(orders, "ann")
    seen = 0
    for seen, _ in enumerate(ann, 1):
        if seen == 2:
            bob = member(orders, "bob")
            clock.advance(BEAT)
            ann._attend()  # as its pulse does, after so many real seconds
        if seen == 3:
            break
    assert shards(ann) == {0, 1}
    batch = bob.poll(0)
    assert batch is not None
    assert batch.shard == 2
    assert orders.offsets("g")["orders", 0] == 2


def test_whoever_leaves_hands_over_at_once(orders: Log, clock: ManualClock) -> None:
    written = fill_shards(orders, 5)
    with member(orders, "ann", until="end") as ann:
        seen = take(ann, 7)
    clock.advance(0.1)
    bob = member(orders, "bob", until="end")
    seen += values(bob)
    # The record in hand when ann left was not done with.
    assert len(seen) == len(written) + 1
    assert set(seen) == set(written)


def test_a_member_that_crashed_is_taken_over_after_its_lease_and_then_fenced(
    orders: Log, clock: ManualClock
) -> None:
    written = fill_shards(orders, 5)
    zombie = member(orders, "ann", commit_every=None)
    take(zombie, 6)
    assert zombie.commit()
    take(zombie, 4)
    clock.advance(LEASE - 1)
    bob = member(orders, "bob")
    assert drain(bob) == []
    clock.advance(BEAT)
    assert len(drain(bob)) == len(written) - 6
    assert not zombie.commit()
    assert zombie.statistics()["fenced"] > 0
    assert drain(zombie) == []
    bob.close()
    orders.append("orders", b"new", shard=1)
    clock.advance(BEAT)
    assert drain(zombie) == ["new"]


def test_a_pulse_keeps_the_lease_while_a_record_takes_long(orders: Log, clock: ManualClock) -> None:
    fill_shards(orders, 1)
    ann = member(orders, "ann")
    take(ann, 1)
    for _ in range(10):
        clock.advance(BEAT)
        ann._attend()
    bob = member(orders, "bob")
    assert drain(bob) == []
    assert ann.commit()


def test_a_pulse_ends_with_the_object_it_is_for() -> None:
    class Patient:
        def __init__(self) -> None:
            self.beats = threading.Semaphore(0)

        def beat(self) -> None:
            self.beats.release()

    patient = Patient()
    before = set(threading.enumerate())
    Pulse(0.001, patient.beat)
    (thread,) = set(threading.enumerate()) - before
    assert all(patient.beats.acquire(timeout=PATIENCE) for _ in range(3))
    del patient
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_a_consumer_that_nobody_holds_is_gone(orders: Log) -> None:
    consumer = member(orders, "ann")
    weak = weakref.ref(consumer)
    del consumer
    gc.collect()
    assert weak() is None


def test_threads_of_a_group_read_everything_between_them(live: Log) -> None:
    live.create("orders", shards=4)
    written = fill_shards(live, 500)
    seen: Counter[str] = Counter()
    lock, done = threading.Lock(), threading.Event()

    def work() -> None:
        with live.consumer("orders", group="g", limits=Limits(records=50)) as consumer:
            while not done.is_set():
                batch = consumer.poll(0.01)
                with lock:
                    seen.update(record.value.decode() for record in (batch.records() if batch else ()))
                    if len(seen) == len(written):
                        done.set()
            consumer.commit()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert seen.keys() == set(written)
    assert live.describe("orders").groups[0].lag == 0
    assert live.describe("orders").groups[0].owners == {}


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_processes_of_a_group_take_over_from_one_that_was_killed(tmp_path: Path) -> None:
    url = f"file:{tmp_path}"
    with millstream.open(url) as log:
        log.create("orders", shards=4)
        written = fill_shards(log, 5)
    child = os.fork()
    if child == 0:
        with millstream.open(url) as theirs:
            take(theirs.consumer("orders", group="g", member="ann", lease=0.5, commit_records=1), 8)
            os._exit(0)  # as a crash does: it neither commits nor leaves
    os.waitpid(child, 0)
    with millstream.open(url) as log:
        assert sum(log.offsets("g").values()) == 7
        consumer = log.consumer("orders", group="g", member="bob", lease=0.5)
        seen: list[str] = []
        while len(seen) < len(written) - 7:
            batch = consumer.poll(PATIENCE)
            assert batch is not None
            seen += [record.value.decode() for record in batch.records()]
        assert consumer.commit()
        consumer.close()
        assert sum(log.offsets("g").values()) == len(written)


# -- offsets


def test_a_record_counts_as_done_with_when_the_next_is_asked_for(orders: Log) -> None:
    fill_shards(orders, 10)
    with orders.consumer("orders", group="g") as consumer:
        for record in consumer:
            if (record.shard, record.seq) == (1, 3):
                break
    assert orders.offsets("g") == {("orders", 0): 10, ("orders", 1): 3}


def test_an_error_while_processing_leaves_the_record_for_the_next_time(orders: Log) -> None:
    written = fill_shards(orders, 10)
    seen: list[str] = []

    def fail_at_the_fifteenth() -> None:
        with orders.consumer("orders", group="g") as consumer:
            for record in consumer:
                if len(seen) == 14:
                    raise Oops
                seen.append(record.value.decode())

    with pytest.raises(Oops):
        fail_at_the_fifteenth()
    with orders.consumer("orders", group="g", until="end") as consumer:
        assert Counter(seen + values(consumer)) == Counter(written)


def test_a_batch_counts_as_done_with_when_the_next_is_asked_for(orders: Log) -> None:
    fill_shards(orders, 10)
    with orders.consumer("orders", group="g", limits=Limits(records=6)) as consumer:
        consumer.poll()
        consumer.poll()
    assert orders.offsets("g") == {("orders", 0): 6}


@given(count=st.integers(1, 60), read=st.integers(0, 60), every=st.integers(1, 20), size=st.integers(1, 9))
def test_no_offset_is_ever_past_what_was_handed_out(count: int, read: int, every: int, size: int) -> None:
    with millstream.open("memory:") as log:
        log.create("orders")
        fill_shards(log, count)
        limits = Limits(records=size)
        with log.consumer("orders", group="g", until="end", commit_records=every, limits=limits) as consumer:
            for number, record in enumerate(consumer):
                done = log.offsets("g").get(("orders", 0), 0)
                assert number - every < done <= record.seq
                if number == read:
                    break
        assert log.offsets("g").get(("orders", 0), 0) == min(count, read)


def test_offsets_are_committed_after_so_many_seconds(orders: Log, clock: ManualClock) -> None:
    fill_shards(orders, 10)
    consumer = orders.consumer("orders", group="g", commit_every=2.0, lease=600.0)
    seen = 0
    for seen, _ in enumerate(consumer, 1):
        if seen == 5:
            clock.advance(2.0)
            assert orders.offsets("g") == {}
            consumer._attend()  # as its pulse does, after so many real seconds
        if seen == 6:
            break
    assert orders.offsets("g") == {("orders", 0): 5}


def test_offsets_that_are_yours_to_commit_are_committed_by_you_alone(orders: Log, clock: ManualClock) -> None:
    fill_shards(orders, 10)
    with orders.consumer("orders", group="g", commit_every=None) as consumer:
        take(consumer, 4)
        assert consumer.commit()
        assert orders.offsets("g") == {("orders", 0): 4}
        take(consumer, 3)
        clock.advance(60)
        take(consumer, 1)
    assert orders.offsets("g") == {("orders", 0): 4}


def test_a_group_that_began_at_the_end_goes_on_from_there_whoever_reads(
    orders: Log, clock: ManualClock
) -> None:
    fill_shards(orders, 3)
    zombie = member(orders, "ann", start="end")
    orders.append("orders", b"while nobody read", shard=2)
    clock.advance(LEASE)
    bob = member(orders, "bob", start="end")
    assert drain(bob) == ["while nobody read"]
    assert drain(zombie) == []


def test_a_group_may_insist_on_committed_offsets(orders: Log) -> None:
    written = fill_shards(orders, 3)
    with pytest.raises(UsageError, match="group 'g' has no offset in stream 'orders', shard 0"):
        member(orders, "ann", start="committed")
    with member(orders, "ann", until="end") as ann:
        values(ann)
    fill_shards(orders, 1)
    assert len(drain(member(orders, "bob", start="committed"))) == 4 < len(written)


def test_a_replay_is_a_seek_and_its_offsets_go_back(orders: Log) -> None:
    written = fill_shards(orders, 3)
    with member(orders, "ann", until="end") as ann:
        values(ann)
        ann.seek_beginning()
        assert ann.commit()
    assert set(orders.offsets("g").values()) == {0}
    assert sorted(values(member(orders, "bob", until="end"))) == written


def test_a_member_follows_offsets_that_were_reset_by_hand(orders: Log, clock: ManualClock) -> None:
    fill_shards(orders, 5)
    ann = member(orders, "ann", limits=Limits(records=5), commit_every=1.0)
    assert len(drain(ann)) == 20
    clock.advance(1.0)
    ann.poll(0)
    (generation,) = {
        owned.generation for owned in orders.heartbeat("g", "ann", ["orders"], lease=LEASE).owned
    }
    orders.commit(Commit(offsets=(Offset("g", "orders", 2, 5, 3, generation),)))
    orders.append("orders", b"new", shard=2)
    assert drain(ann) == ["new"]
    assert not ann.commit()
    assert drain(ann) == ["2-3", "2-4", "new"]


def test_shards_assigned_by_hand_may_keep_a_groups_offsets(orders: Log) -> None:
    fill_shards(orders, 5)
    with orders.consumer(assign=[("orders", 1)], group="g", until="end") as consumer:
        assert len(values(consumer)) == 5
    assert orders.offsets("g") == {("orders", 1): 5}
    orders.append("orders", b"new", shard=1)
    one, two = (orders.consumer(assign=[("orders", 1)], group="g", commit_every=None) for _ in range(2))
    assert take(one, 1) == take(two, 1) == ["new"]
    assert one.commit()
    with pytest.raises(Conflict, match="the offset is 6, and the commit expected 5"):
        two.commit()


def test_a_shard_that_a_member_owns_is_not_for_hands(orders: Log) -> None:
    fill_shards(orders, 5)
    ann = member(orders, "ann")
    consumer = orders.consumer(assign=[("orders", 1)], group="g", commit_every=None)
    take(consumer, 1)
    with pytest.raises(Fenced, match="generation 0 does not own the shard"):
        consumer.commit()
    ann.close()


def test_the_latest_of_a_group_are_shared_and_leave_no_offset(orders: Log, clock: ManualClock) -> None:
    ann = member(orders, "ann", deliver="latest")
    bob = member(orders, "bob", deliver="latest")
    settle(clock, ann, bob)
    written = fill_shards(orders, 2)
    assert sorted(drain(ann) + drain(bob)) == written
    ann.close()
    assert orders.offsets("g") == {}
    with pytest.raises(UsageError, match="is for the latest"):
        bob.commit()


def test_a_named_stream_that_is_deleted_is_told_to_members_too(orders: Log, clock: ManualClock) -> None:
    orders.create("clicks")
    ann = orders.consumer(["orders", "clicks"], group="g")
    orders.delete("clicks")
    clock.advance(BEAT)
    with pytest.raises(UnknownStream, match="'clicks' was deleted"):
        ann.poll(0)


def test_new_streams_of_a_pattern_and_deleted_ones_change_the_share(orders: Log, clock: ManualClock) -> None:
    orders.create("logs.web")
    fill_shards(orders, 1, "logs.web")
    ann = orders.consumer("logs.*", group="g")
    assert drain(ann) == ["0-0"]
    orders.create("logs.mail")
    orders.append("logs.mail", b"mail")
    assert drain(ann) == ["mail"]
    orders.delete("logs.web")
    clock.advance(BEAT)
    assert drain(ann) == []
    assert list(ann.positions()) == [("logs.mail", 0)]
    ann.close()
