"""Staged records: durable and invisible, until one commit publishes them."""

from pathlib import Path

import pyarrow as pa
import pytest

from millstream.errors import Conflict, ShardOutOfRange, TooLarge, WrongType
from millstream.log import Append, Commit, Fence, Log, Offset, Placed, Staged, check
from millstream.log.can import Can
from tests.contract.looking import arrow, records, refused, rows, values
from tests.contract.stores import Store
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.needs(Can.STAGE)


def test_staged_records_are_invisible_until_they_are_committed(log: Log) -> None:
    log.create("orders", shards=2)
    log.append("orders", b"before", shard=1)
    staged = log.stage("orders", 1, [arrow(b"a", b"b"), arrow(), arrow(b"c")])
    assert (staged.stream, staged.shard, staged.count) == ("orders", 1, 3)
    assert values(log, "orders", 1) == [b"before"]
    log.append("orders", b"meanwhile", shard=1)
    receipt = log.commit(Commit(staged=(staged,)))
    assert receipt.placed == (Placed("orders", 1, 2, 5),)
    found = records(log, "orders", 1)
    assert [record.value for record in found] == [b"before", b"meanwhile", b"a", b"b", b"c"]
    assert [record.seq for record in found] == [0, 1, 2, 3, 4]


def test_staged_records_come_after_the_records_of_their_commit(log: Log) -> None:
    log.create("orders", shards=2)
    first, second = log.stage("orders", 0, [arrow(b"c")]), log.stage("orders", 0, [arrow(b"d", b"e")])
    part = Append("orders", 0, rows(b"a", b"b"))
    receipt = log.commit(Commit(records=(part,), staged=(second, first)))
    assert receipt.placed == (Placed("orders", 0, 0, 2), Placed("orders", 0, 2, 4), Placed("orders", 0, 4, 5))
    assert values(log, "orders") == [b"a", b"b", b"d", b"e", b"c"]


def test_staged_records_are_committed_once(log: Log) -> None:
    log.create("orders")
    staged = log.stage("orders", 0, [arrow(b"a")])
    log.commit(Commit(staged=(staged,)))
    with refused(log, Conflict, "committed before, or swept a day after they were staged; stage them again"):
        log.commit(Commit(records=(Append("orders", 0, rows(b"b")),), staged=(staged,)))


def test_staged_records_named_twice_in_one_commit_stay_for_another(log: Log) -> None:
    log.create("orders")
    staged = log.stage("orders", 0, [arrow(b"a")])
    with refused(log, Conflict, "are not there"):
        log.commit(Commit(staged=(staged, staged)))
    log.commit(Commit(staged=(staged,)))
    assert values(log, "orders") == [b"a"]


def test_staged_records_of_a_refused_commit_stay_for_the_next(log: Log) -> None:
    log.create("orders")
    staged = log.stage("orders", 0, [arrow(b"a")])
    with refused(log, Conflict):
        log.commit(Commit(staged=(staged,), offsets=(Offset("g", "orders", 0, 5, 5),)))
    log.commit(Commit(staged=(staged,)))
    assert values(log, "orders") == [b"a"]


def test_staged_records_belong_to_their_shard(log: Log) -> None:
    log.create("orders", shards=2)
    log.create("other")
    staged = log.stage("orders", 0, [arrow(b"a")])
    for stream, shard in (("orders", 1), ("other", 0)):
        with refused(log, Conflict, repr(staged.token), f"stream '{stream}', shard {shard} are not there"):
            log.commit(Commit(staged=(Staged(staged.token, stream, shard, 1),)))
    for token in ("", "staged-99", "../staged"):
        with refused(log, Conflict, repr(token)):
            log.commit(Commit(staged=(Staged(token, "orders", 0, 1),)))


def test_a_replay_with_staged_records_finds_them_used(log: Log) -> None:
    log.create("orders")
    commit = Commit(staged=(log.stage("orders", 0, [arrow(b"a")]),), fence=Fence("sink", 1, 1))
    first = log.commit(commit)
    again = log.commit(commit)
    assert (again.applied, again.placed) == (False, first.placed)
    assert values(log, "orders") == [b"a"]


def test_staging_nothing_is_fine(log: Log) -> None:
    log.create("orders")
    for batches in ([], [arrow()]):
        staged = log.stage("orders", 0, batches)
        assert staged.count == 0
        assert log.commit(Commit(staged=(staged,))).placed == (Placed("orders", 0, 0, 0),)
    log.append("orders", b"a")
    assert [record.seq for record in records(log, "orders")] == [0]


def test_batches_may_come_one_by_one(log: Log) -> None:
    log.create("orders")
    staged = log.stage("orders", 0, (arrow(b"%d" % number) for number in range(5)))
    log.commit(Commit(staged=(staged,)))
    assert values(log, "orders") == [b"0", b"1", b"2", b"3", b"4"]


def test_what_is_staged_is_checked(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.create("orders")
    with refused(log, WrongType, "a batch for stream 'orders' must have the columns"):
        log.stage("orders", 0, [arrow(b"a"), arrow(5, kind=pa.int64())])
    with refused(log, ShardOutOfRange, "'orders' has no shard 1"):
        log.stage("orders", 1, [arrow(b"a")])
    with refused(log, WrongType, "expected a pyarrow.RecordBatch"):
        log.stage("orders", 0, [rows(b"a")])
    monkeypatch.setattr(check, "RECORD_BYTES_MAX", 100)
    with refused(log, TooLarge, "over the limit of 100"):
        log.stage("orders", 0, [arrow(b"x" * 300)])


def test_staged_records_of_a_deleted_stream_are_gone(log: Log) -> None:
    log.create("orders")
    staged = log.stage("orders", 0, [arrow(b"a")])
    log.delete("orders")
    log.create("orders")
    with refused(log, Conflict, "are not there"):
        log.commit(Commit(staged=(staged,)))


def test_staged_records_survive_with_the_log(store: Store, tmp_path: Path, clock: ManualClock) -> None:
    with store.open(tmp_path, clock) as log:
        log.create("orders")
        staged = log.stage("orders", 0, [arrow(b"a")])
    if store.survives:
        with store.open(tmp_path, clock) as log:
            log.commit(Commit(staged=(staged,)))
            assert values(log, "orders") == [b"a"]
