"""Consumers that deliver exactly once, whatever crashes."""

import random
import threading
from collections import Counter
from contextlib import suppress
from typing import Unpack

import pytest

import millstream
from millstream import Consumer, Limits, Log, Transaction
from millstream.clock import ManualClock
from millstream.errors import Closed, StoreFull, UnknownStream, UsageError, WrongType
from millstream.log.options import ConsumerOptions
from tests.consumer.streams import BEAT, LEASE, PATIENCE, Oops, fill_shards, member, values

# -- exactly once


@pytest.fixture
def bills(orders: Log) -> Log:
    """The log, with a stream for what comes of orders."""
    orders.create("bills", shards=2)
    return orders


def billed(log: Log) -> list[str]:
    return sorted(values(log.consumer("bills", until="end")))


def bill(tx: Transaction) -> None:
    for record in tx:
        tx.send("bills", record.value, key=b"%d" % record.seq)


def bill_all(consumer: Consumer, fail_at: int | None = None) -> None:
    for number, tx in enumerate(consumer.transactions()):
        bill(tx)
        if number == fail_at:
            raise Oops


def once(log: Log, name: str, **options: Unpack[ConsumerOptions]) -> Consumer:
    given: ConsumerOptions = {"deliver": "once", "limits": Limits(records=3)}
    given.update(options)
    return member(log, name, **given)


def test_outputs_and_offsets_are_committed_together(bills: Log) -> None:
    written = fill_shards(bills, 10)
    with once(bills, "ann", until="end") as consumer:
        for tx in consumer.transactions():
            bill(tx)
            assert len(billed(bills)) == sum(bills.offsets("g").values())
    assert billed(bills) == written
    assert set(bills.offsets("g").values()) == {10}
    assert consumer.statistics()["transactions"] == 16


def test_an_error_in_a_transaction_leaves_no_trace_and_its_records_come_again(bills: Log) -> None:
    written = fill_shards(bills, 4)
    with once(bills, "ann", until="end") as consumer:
        with pytest.raises(Oops):
            bill_all(consumer, fail_at=2)
        assert len(billed(bills)) == 6 == sum(bills.offsets("g").values())
        bill_all(consumer)
        assert consumer.statistics()["aborted"] == 1
    assert billed(bills) == written


def test_a_transaction_is_a_block_that_is_committed_at_its_end(bills: Log) -> None:
    fill_shards(bills, 2)
    with once(bills, "ann", until="end") as consumer:
        with consumer.transaction() as tx:
            bill(tx)
            assert billed(bills) == []
        assert tx.committed
        assert billed(bills) == ["0-0", "0-1"]
        with pytest.raises(Oops), consumer.transaction() as tx:
            raise Oops
        assert tx.committed is None
        again = consumer.transaction()
        assert again.batch is not None
        assert (again.batch.shard, again.batch.from_seq) == (1, 0)


def test_a_break_commits_what_was_committed_and_no_more(bills: Log) -> None:
    fill_shards(bills, 2)
    with once(bills, "ann") as consumer:
        for tx in consumer.transactions():
            bill(tx)
            if tx.batch is not None and tx.batch.shard == 1:
                break
        assert billed(bills) == ["0-0", "0-1"]
        for tx in consumer.transactions():
            bill(tx)
            assert tx.commit()
            break
    assert billed(bills) == ["0-0", "0-1", "1-0", "1-1"]


def test_there_may_be_nothing_to_read(bills: Log) -> None:
    consumer = once(bills, "ann")
    with consumer.transaction(timeout=0) as tx:
        assert not tx
        assert list(tx) == []
        with pytest.raises(UsageError, match="has no records"):
            tx.send("bills", b"x")
    assert tx.committed is None


def test_what_was_taken_over_is_not_written_and_the_consumer_goes_on(bills: Log, clock: ManualClock) -> None:
    written = fill_shards(bills, 2)
    zombie = once(bills, "ann")
    tx = zombie.transaction()
    bill(tx)
    clock.advance(LEASE)
    with once(bills, "bob", until="end") as bob:
        for theirs in bob.transactions():
            bill(theirs)
    assert billed(bills) == written
    assert tx.commit() is tx.committed is False
    assert billed(bills) == written
    assert zombie.statistics()["fenced"] == 1
    bills.append("orders", b"new", shard=3)
    with zombie.transaction(timeout=0) as tx:
        bill(tx)
    assert tx.committed
    assert billed(bills) == sorted([*written, "new"])


def test_a_commit_that_failed_may_be_tried_again(bills: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    written = fill_shards(bills, 1)
    with once(bills, "ann", until="end") as consumer:
        with monkeypatch.context() as patch:

            def full(*_: object) -> None:
                raise StoreFull("no room")

            patch.setattr(bills, "commit", full)
            with pytest.raises(StoreFull):
                bill_all(consumer)
        bill_all(consumer)
    assert billed(bills) == written


def test_a_consumer_closed_by_another_thread_commits_no_transaction_any_more(bills: Log) -> None:
    fill_shards(bills, 2)
    consumer = once(bills, "ann")
    for tx in consumer.transactions():
        bill(tx)
        thread = threading.Thread(target=consumer.close)
        thread.start()
        thread.join(PATIENCE)
    assert billed(bills) == []
    assert bills.offsets("g") == {}


def test_what_is_sent_is_checked_where_it_is_sent(bills: Log) -> None:
    fill_shards(bills, 1)
    tx = once(bills, "ann").transaction()
    with pytest.raises(UnknownStream, match="did you mean bills"):
        tx.send("bill", b"x")
    with pytest.raises(WrongType, match="a value must be bytes"):
        tx.send("bills", "x")
    with pytest.raises(millstream.errors.ShardOutOfRange):
        tx.send("bills", b"x", shard=2)
    tx.send("bills", b"x", shard=1, timestamp=5, headers={"a": b"b"})
    tx.send("bills", b"y")
    assert tx.commit()
    assert not tx.open
    with pytest.raises(UsageError, match="this transaction is over"):
        tx.send("bills", b"x")
    (record,) = bills.read("bills", 1, 0).records()
    assert (record.timestamp, record.headers) == (5, (("a", b"b"),))


def test_exactly_once_is_read_in_transactions_alone(bills: Log) -> None:
    consumer = once(bills, "ann")
    for call in (consumer.__iter__, consumer.poll, lambda: next(consumer.batches())):
        with pytest.raises(UsageError, match="reads in transactions"):
            call()
    with pytest.raises(UsageError, match=r"use `tx.commit\(\)`"):
        consumer.commit()


class Chaos:
    """Consumers that crash between reading and committing, and wake up when others have taken over."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock = ManualClock()
        self.log = millstream.open("memory:", clock=self.clock)
        self.log.create("orders", shards=4)
        self.log.create("bills", shards=2)
        self.written = Counter(fill_shards(self.log, 4))
        self.alive: list[Consumer] = []
        self.held: list[Transaction] = []  # read, and not committed yet: of the living and of the dead
        self.counts: Counter[str] = Counter()

    def join(self) -> None:
        if len(self.alive) < 3:
            self.alive.append(once(self.log, f"member-{self.counts['join']}"))

    def write(self) -> None:
        self.log.append("orders", b"new", shard=self.random.randrange(4))
        self.written["new"] += 1

    def wait(self) -> None:
        self.clock.advance(self.random.choice([0.5, BEAT, BEAT, LEASE]))

    def work(self) -> None:
        if tx := self.read():
            self.counts["committed" if tx.commit() else "refused"] += 1

    def read(self) -> Transaction | None:
        if not self.alive:
            return None
        tx = self.random.choice(self.alive).transaction(timeout=0)
        bill(tx)
        self.held.append(tx)
        return tx

    def commit_late(self) -> None:
        if self.held:
            tx = self.held.pop(self.random.randrange(len(self.held)))
            with suppress(Closed):
                done = tx.open
                self.counts["committed late" if tx.commit() else "refused late"] += done

    def crash(self) -> None:
        if self.alive:
            self.read()
            self.alive.pop(self.random.randrange(len(self.alive)))

    def close(self) -> None:
        if self.alive:
            self.alive.pop(self.random.randrange(len(self.alive))).close()

    def run(self) -> None:
        often = [self.work, self.read, self.commit_late, self.wait] * 3
        for _ in range(60):
            action = self.random.choice([*often, self.join, self.join, self.write, self.crash, self.close])
            self.counts[action.__name__] += 1
            action()
        self.clock.advance(LEASE)
        with once(self.log, "last", until="end") as last:
            for tx in last.transactions():
                bill(tx)
        while self.held:
            self.commit_late()


def test_outputs_are_there_once_whatever_crashes() -> None:
    counts: Counter[str] = Counter()
    for seed in range(150):
        chaos = Chaos(seed)
        chaos.run()
        assert Counter(billed(chaos.log)) == chaos.written, f"seed {seed}"
        counts += chaos.counts
    assert counts["crash"] > 100
    assert counts["committed"] > 100
    assert counts["committed late"] > 100
    assert counts["refused late"] > 100
