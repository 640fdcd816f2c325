"""Consumers: what they read, from where, in which order, and how they end."""

import os
import signal
import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream import Consumer, Limits, Log, Position, Retention
from millstream.clock import ManualClock
from millstream.errors import (
    Closed,
    SeqPastEnd,
    UsageError,
    WrongType,
)
from millstream.log.batch import Batch
from millstream.log.cursor import Cursor
from millstream.log.slice import Slice
from millstream.record import VALUE_BYTES, rows_to_batch, with_seqs
from tests.consumer.streams import PATIENCE, fill, in_thread, take, tell_when_waiting, values

# -- what is read


def test_a_consumer_hands_out_records_in_the_order_of_their_seqs(log: Log) -> None:
    log.create("orders")
    log.append("orders", b"a", key=b"ann", timestamp=7, headers={"from": b"web"})
    fill(log, "orders", ["b", "c"])
    with log.consumer("orders", until="end") as consumer:
        records = list(consumer)
    assert [(r.seq, r.key, r.value) for r in records] == [(0, b"ann", b"a"), (1, b"k", b"b"), (2, b"k", b"c")]
    assert (records[0].timestamp, records[0].headers) == (7, (("from", b"web"),))
    assert (records[0].stream, records[0].shard) == ("orders", 0)


def test_several_streams_and_patterns_are_read_together(log: Log) -> None:
    for stream in ("logs.web", "logs.mail", "orders", "clicks"):
        log.create(stream)
        fill(log, stream, [stream])
    assert sorted(values(log.consumer(["orders", "logs.*"], until="end"))) == [
        "logs.mail",
        "logs.web",
        "orders",
    ]
    assert values(log.consumer(["orders", "ord*"], until="end")) == ["orders"]


def test_a_pattern_may_match_nothing_yet(log: Log) -> None:
    assert values(log.consumer("logs.*", until="end")) == []


def test_streams_that_come_to_match_a_pattern_are_picked_up(log: Log) -> None:
    log.create("logs.web")
    consumer = log.consumer("logs.*", start="end")
    assert consumer.poll(0) is None
    log.create("logs.mail")
    fill(log, "logs.mail", ["before it was noticed"])
    batch = consumer.poll(0)
    assert batch is not None
    assert [record.value for record in batch.records()] == [b"before it was noticed"]


def test_a_busy_consumer_finds_new_streams_after_a_second(log: Log, clock: ManualClock) -> None:
    log.create("logs.web")
    fill(log, "logs.web", range(10))
    consumer = log.consumer("logs.*", limits=Limits(records=1))
    assert take(consumer, 2) == ["0", "1"]
    log.create("logs.mail")
    fill(log, "logs.mail", ["new"])
    clock.advance(1)
    assert "new" in take(consumer, 3)


def test_shards_that_were_added_are_read_from_their_beginning(log: Log) -> None:
    log.create("orders")
    consumer = log.consumer("orders", start="end")
    log.alter("orders", shards=2)
    fill(log, "orders", ["a"], shard=1)
    assert take(consumer, 1) == ["a"]


def test_shards_take_turns_a_batch_each(log: Log) -> None:
    log.create("orders", shards=3)
    for shard in range(3):
        fill(log, "orders", [f"{shard}{number}" for number in range(2 + shard)], shard)
    consumer = log.consumer("orders", until="end", limits=Limits(records=1))
    assert values(consumer) == ["00", "10", "20", "01", "11", "21", "12", "22", "23"]


def test_a_shard_that_is_written_to_without_end_does_not_starve_the_others(log: Log) -> None:
    log.create("orders", shards=2)
    fill(log, "orders", range(100))
    consumer = log.consumer("orders", limits=Limits(records=2))
    assert take(consumer, 2) == ["0", "1"]
    fill(log, "orders", ["late"], shard=1)
    assert "late" in take(consumer, 5)


def test_batches_are_arrow_and_of_one_shard_each(log: Log) -> None:
    log.create("orders", shards=2)
    fill(log, "orders", range(5), shard=0)
    fill(log, "orders", range(3), shard=1)
    batches = list(log.consumer("orders", until="end").batches())
    assert [(batch.shard, batch.table().num_rows) for batch in batches] == [(0, 5), (1, 3)]


def test_until_the_end_means_the_ends_when_the_consumer_was_made(log: Log) -> None:
    log.create("logs.web", shards=2)
    fill(log, "logs.web", range(5))
    consumer = log.consumer("logs.*", until="end")
    fill(log, "logs.web", ["late"])
    fill(log, "logs.web", ["late"], shard=1)
    log.create("logs.late")
    fill(log, "logs.late", ["late"])
    assert not consumer.finished
    assert values(consumer) == list("01234")
    assert consumer.finished
    assert values(consumer) == []


def test_gaps_that_compaction_left_are_passed(log: Log) -> None:
    log.create("prices", cleanup="compact")
    for number in range(10):
        log.append("prices", str(number).encode(), key=b"ann" if number % 4 else b"bob")
    log.compact("prices")
    consumer = log.consumer("prices", until="end")
    assert consumer.lag() == {("prices", 0): 10}  # at most
    fill(log, "prices", ["late"])
    assert values(consumer) == ["8", "9"]
    assert consumer.positions()["prices", 0].seq == 10
    assert consumer.lag() == {("prices", 0): 1}


def test_records_of_a_long_batch_come_whole_and_once(log: Log) -> None:
    log.create("orders")
    fill(log, "orders", range(3_500))
    assert values(log.consumer("orders", until="end")) == [str(number) for number in range(3_500)]


# -- waiting and stopping


def test_a_waiting_consumer_goes_on_when_a_record_comes(live: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    live.create("orders")
    waiting = tell_when_waiting(live, monkeypatch)
    consumer = live.consumer("orders")
    thread = in_thread(lambda: live.append("orders", b"a"), after=waiting)
    assert take(consumer, 1) == ["a"]
    thread.join(PATIENCE)
    assert consumer.statistics()["waits"] == 1


def test_a_poll_gives_up_after_its_time(live: Log) -> None:
    live.create("orders")
    consumer = live.consumer("orders")
    assert consumer.poll(0) is None
    assert consumer.poll(0.15) is None
    live.append("orders", b"a")
    batch = consumer.poll(PATIENCE)
    assert batch is not None
    assert batch.num_records == 1


@pytest.mark.parametrize("end", [Consumer.stop, Consumer.close])
def test_another_thread_may_end_a_consumer_that_waits(
    live: Log, monkeypatch: pytest.MonkeyPatch, end: Callable[[Consumer], None]
) -> None:
    live.create("orders")
    live.append("orders", b"a")
    waiting = tell_when_waiting(live, monkeypatch)
    consumer = live.consumer("orders")
    thread = in_thread(lambda: end(consumer), after=waiting)
    assert values(consumer) == ["a"]
    thread.join(PATIENCE)


@pytest.mark.parametrize("end", [Consumer.stop, Consumer.close])
def test_the_record_in_hand_is_the_last_when_a_consumer_is_ended(
    log: Log, end: Callable[[Consumer], None]
) -> None:
    log.create("orders")
    fill(log, "orders", range(5_000))
    consumer = log.consumer("orders")
    seen = []
    for record in consumer:
        seen.append(record.seq)
        if record.seq == 1_234:
            in_thread(lambda: end(consumer)).join(PATIENCE)
    assert seen == list(range(1_235))
    assert consumer.positions()["orders", 0].seq == 1_235


def test_a_stop_during_a_read_hands_nothing_of_it_out(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.create("orders")
    fill(log, "orders", range(10))
    consumer, read = log.consumer("orders"), log.read

    def read_and_stop(
        stream: str, shard: int, seq: int, limits: Limits, *, history: int | None = None
    ) -> Batch:
        consumer.stop()
        return read(stream, shard, seq, limits, history=history)

    monkeypatch.setattr(log, "read", read_and_stop)
    assert values(consumer) == []
    assert consumer.positions()["orders", 0].seq == 0


def test_ctrl_c_ends_the_wait_and_nothing_is_lost(live: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    live.create("orders")
    waiting = tell_when_waiting(live, monkeypatch)
    consumer = live.consumer("orders")
    main = threading.main_thread().ident
    assert main is not None
    thread = in_thread(lambda: signal.pthread_kill(main, signal.SIGINT), after=waiting)
    with pytest.raises(KeyboardInterrupt):
        take(consumer, 1)
    thread.join(PATIENCE)
    live.append("orders", b"a")
    assert take(consumer, 1) == ["a"]


def test_a_consumer_that_was_closed_says_so(log: Log) -> None:
    log.create("orders")
    with log.consumer("orders") as consumer:
        pass
    consumer.close()
    for call in (consumer.poll, consumer.__iter__, lambda: next(consumer.batches())):
        with pytest.raises(Closed, match=r"<Consumer \['orders'\] of .*> was closed: make a new one"):
            call()


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_fork_cannot_use_its_parents_consumer_nor_leave_its_group(log: Log) -> None:
    log.create("orders")
    fill(log, "orders", ["a"])
    consumer = log.consumer("orders", group="bills", commit_every=None)
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        with consumer._lock:
            held.set()
            over.wait(PATIENCE)

    thread = in_thread(hold)  # a lock that nobody will give back in the child
    assert held.wait(PATIENCE)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            consumer.poll(0)
        except Closed as error:
            status = 0 if "this is its fork" in str(error) else 2
        finally:
            consumer.close()
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    over.set()
    thread.join(PATIENCE)
    assert take(consumer, 1) == ["a"]
    assert consumer.commit()
    consumer.close()


# -- where to begin, and seeking


def test_a_consumer_may_begin_at_the_end(log: Log) -> None:
    log.create("orders", shards=2)
    fill(log, "orders", ["old"])
    consumer = log.consumer("orders", start="end")
    fill(log, "orders", ["new"])
    fill(log, "orders", ["new too"], shard=1)
    assert sorted(take(consumer, 2)) == ["new", "new too"]


def test_an_iteration_that_was_left_goes_on_with_the_next_record(log: Log) -> None:
    log.create("orders")
    fill(log, "orders", range(2_500))
    consumer = log.consumer("orders", until="end")
    seen = take(consumer, 10) + take(consumer, 1_200)
    assert consumer.positions()["orders", 0].seq == 1_210
    assert seen + values(consumer) == [str(number) for number in range(2_500)]
    assert consumer.statistics()["batches"] == 1


def test_seeking_goes_to_a_seq_a_time_the_beginning_and_the_end(log: Log) -> None:
    log.create("orders", shards=2)
    fill(log, "orders", [f"0{number}" for number in range(4)])
    fill(log, "orders", [f"1{number}" for number in range(2)], shard=1)
    consumer = log.consumer("orders", until="end")
    assert len(values(consumer)) == 6
    consumer.seek("orders", 0, 3)
    assert values(consumer) == ["03"]
    consumer.seek_time(11)
    assert values(consumer) == ["02", "03"]
    consumer.seek_time(10)
    assert values(consumer) == ["01", "02", "03", "11"]
    consumer.seek_beginning()
    assert len(values(consumer)) == 6
    consumer.seek_beginning()
    consumer.seek_end()
    assert values(consumer) == []


def test_positions_can_be_kept_and_gone_back_to(log: Log) -> None:
    log.create("orders")
    fill(log, "orders", range(10))
    consumer = log.consumer("orders", until="end")
    assert consumer.positions() == {("orders", 0): Position(0, None)}
    assert take(consumer, 4) == list("0123")
    kept = consumer.positions()
    assert kept == {("orders", 0): Position(4, 0)}
    assert values(consumer) == list("456789")
    other = log.consumer("orders", until="end")
    for place, position in kept.items():
        other.seek(*place, position)
    assert values(other) == list("456789")


def test_a_seek_in_the_middle_of_a_batch_takes_effect_with_the_next_record(log: Log) -> None:
    log.create("orders")
    fill(log, "orders", range(2_000))
    consumer = log.consumer("orders", until="end")
    seen = []
    for record in consumer:
        seen.append(record.seq)
        if len(seen) == 3:
            consumer.seek("orders", 0, 1_998)
    assert seen == [0, 1, 2, 1_998, 1_999]


def test_iterations_batches_and_polls_go_on_from_one_another(log: Log) -> None:
    log.create("orders")
    fill(log, "orders", range(10))
    consumer = log.consumer("orders", limits=Limits(records=4))
    first = iter(consumer)
    assert next(first).seq == 0
    assert take(consumer, 1) == ["1"]
    assert next(first).seq == 2
    batch = consumer.poll()
    assert batch is not None
    assert (batch.from_seq, batch.next_seq) == (3, 7)
    assert next(first).seq == 7
    assert next(consumer.batches()).from_seq == 8


def test_what_a_consumer_does_not_read_cannot_be_sought(log: Log) -> None:
    log.create("orders")
    consumer = log.consumer("orders")
    with pytest.raises(UsageError, match="does not read stream 'orders', shard 1: it reads orders/0"):
        consumer.seek("orders", 1, 0)
    with pytest.raises(WrongType):
        consumer.seek("orders", 0, -1)
    consumer.seek("orders", 0, 5)
    with pytest.raises(SeqPastEnd):
        consumer.poll(0)


def test_lag_is_what_lies_after_each_position(log: Log) -> None:
    log.create("orders", shards=2)
    fill(log, "orders", range(5))
    fill(log, "orders", range(2), shard=1)
    consumer = log.consumer("orders")
    assert consumer.lag() == {("orders", 0): 5, ("orders", 1): 2}
    take(consumer, 3)
    assert consumer.lag() == {("orders", 0): 2, ("orders", 1): 2}


def test_shards_may_be_named_by_hand(log: Log) -> None:
    log.create("orders", shards=3)
    for shard in range(3):
        fill(log, "orders", [shard], shard)
    assert values(log.consumer(assign=[("orders", 2), ("orders", 0)], until="end")) == ["2", "0"]


# -- how it is told how far records were handed out


@given(count=st.integers(1, 40), asked=st.integers(0, 45), gap=st.integers(1, 3))
def test_a_slice_that_is_cut_knows_what_it_handed_out(count: int, asked: int, gap: int) -> None:
    batch = with_seqs(rows_to_batch([(n, None, b"%d" % n, None) for n in range(count)], VALUE_BYTES), 0)
    batch = batch.take(list(range(0, count, gap)))
    seqs = batch.column(0).to_pylist()
    piece = Slice(batch, count, "orders", 0)
    cursor = Cursor(("orders", 0), seq=0)
    cursor.hand_out(count, piece)
    handed = [record.seq for _, record in zip(range(asked), piece.records, strict=False)]
    in_thread(piece.cut).join(PATIENCE)
    assert list(piece.records) == []
    assert handed == seqs[: piece.given]
    assert piece.rest.column(0).to_pylist() == seqs[piece.given :]
    assert cursor.done == (handed[-1] if handed else 0)
    cursor.settle()
    assert cursor.done == (count if len(handed) == len(seqs) else handed[-1] + 1 if handed else 0)


def test_statistics_count_what_was_handed_out_even_in_the_middle(log: Log) -> None:
    log.create("orders", retention=Retention(records=100))
    fill(log, "orders", range(10))
    consumer = log.consumer("orders", limits=Limits(records=6))
    take(consumer, 4)
    assert consumer.statistics()["records"] == 4
    take(consumer, 4)
    counts = consumer.statistics()
    assert (counts["records"], counts["batches"]) == (8, 2)
