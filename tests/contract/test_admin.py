"""Streams are made, described, altered and deleted."""

from pathlib import Path

import pyarrow as pa
import pytest

from millstream.errors import ShardOutOfRange, StreamExists, UnknownStream
from millstream.log import Append, Cleanup, Commit, Log, Mark, Offset, Retention, Settings
from millstream.log.can import Can
from tests.contract.looking import refused, rows, values
from tests.contract.stores import Store
from tests.manual_clock import ManualClock


def test_a_new_stream_is_empty_and_has_the_settings_it_was_given(log: Log) -> None:
    retention = Retention(age_ms=1_000, bytes=2_000, records=3)
    log.create("orders", shards=3, codec="json", retention=retention, cleanup="compact", tombstones_ms=5)
    assert log.settings("orders") == Settings(3, None, "json", retention, Cleanup.COMPACT, 5)
    assert log.ends("orders") == [(0, 0)] * 3
    assert log.streams() == ["orders"]
    description = log.describe("orders")
    assert (description.records, description.bytes, description.groups, description.pins) == (0, 0, (), {})
    assert [(shard.oldest_ms, shard.newest_ms) for shard in description.shards] == [(None, None)] * 3


def test_a_stream_is_made_once(log: Log) -> None:
    log.create("orders", codec="json")
    log.append("orders", b"apple")
    with refused(log, StreamExists, "the stream 'orders' exists already", "exist_ok=True accepts it"):
        log.create("orders", codec="json")
    log.create("orders", codec="json", exist_ok=True)
    log.create("orders", codec="json", shards=5, exist_ok=True)
    assert (values(log, "orders"), log.settings("orders").shards) == ([b"apple"], 1)
    with refused(log, StreamExists, "exists with another type of values", "binary"):
        log.create("orders", codec="json", value=pa.int64(), exist_ok=True)
    with refused(log, StreamExists, "exists with another type of values"):
        log.create("orders", codec="xml", exist_ok=True)


def test_streams_are_listed_by_pattern_in_order(log: Log) -> None:
    for name in ("logs.web", "Logs.x", "orders", "logs.api", "logs"):
        log.create(name)
    assert log.streams() == ["Logs.x", "logs", "logs.api", "logs.web", "orders"]
    assert log.streams("logs.*") == ["logs.api", "logs.web"]
    assert log.streams("logs.?pi") == ["logs.api"]
    assert log.streams("orders") == ["orders"]
    assert log.streams("nothing*") == []


def test_a_name_of_every_allowed_sort_can_be_a_stream(log: Log) -> None:
    names = sorted(["a", "...", "-", "_", ".hidden", "CON", "a" * 249, "0", "A", "a.b-c_d"])
    for name in names:
        log.create(name)
        log.append(name, name.encode())
    assert log.streams() == names
    assert [values(log, name) for name in names] == [[name.encode()] for name in names]


def test_a_description_counts_what_there_is(log: Log) -> None:
    log.create("orders", shards=2)
    log.commit(Commit(records=(Append("orders", 1, [(5, None, b"x" * 100, None), (-7, None, b"", None)]),)))
    log.commit(Commit(records=(Append("orders", 1, rows(b"y", at=6)),)))
    empty, full = log.describe("orders").shards
    assert (empty.shard, empty.first, empty.end, empty.records, empty.batches) == (0, 0, 0, 0, 0)
    assert (full.shard, full.first, full.end, full.records) == (1, 0, 3, 3)
    assert (full.oldest_ms, full.newest_ms) == (-7, 6)
    assert full.bytes > 100
    assert 1 <= full.batches <= 2
    assert 0 <= full.synced_end <= 3
    assert log.describe("orders").records == 3


@pytest.mark.needs(Can.OFFSETS, Can.PINS)
def test_a_description_tells_who_reads_and_how_far_behind(log: Log) -> None:
    log.create("orders", shards=2)
    log.create("other")
    log.commit(Commit(records=(Append("orders", 0, rows(b"a", b"b", b"c")), Append("orders", 1, rows(b"d")))))
    log.commit(Commit(offsets=(Offset("g", "orders", 0, None, 1),)))
    log.pin("job", {("orders", 0): 2, ("other", 0): 0})
    (group,) = log.describe("orders").groups
    assert (group.group, group.offsets, group.lag, group.owners) == ("g", {0: 1}, 3, {})
    assert log.describe("orders").pins == {"job": {0: 2}}
    assert log.describe("other").groups == ()
    assert log.describe("other").pins == {"job": {0: 0}}


def test_what_is_asked_of_a_stream_that_is_not_there_names_those_that_are(log: Log) -> None:
    log.create("orders")
    for call in (
        lambda: log.settings("order"),
        lambda: log.describe("order"),
        lambda: log.alter("order", shards=2),
        lambda: log.delete("order"),
        lambda: log.ends("order"),
        lambda: log.read("order", 0, 0),
        lambda: log.seek("order", 0, 0),
        lambda: log.wait({("order", 0): 0}, 0),
        lambda: log.append("order", b""),
        lambda: log.commit(Commit(records=(Append("orders", 0, rows(b"x")), Append("order", 0, [])))),
    ):
        with refused(log, UnknownStream, "there is no stream 'order'", "did you mean orders", "`create`"):
            call()


@pytest.mark.needs(Can.TRIM, Can.PINS, Can.COMPACT, Can.STAGE)
def test_what_else_is_asked_of_a_stream_that_is_not_there_is_refused_as_well(log: Log) -> None:
    log.create("orders")
    for call in (
        lambda: log.trim("order", 0, 0),
        lambda: log.pin("job", {("orders", 0): 0, ("order", 0): 0}),
        lambda: log.compact("order"),
        lambda: log.retain("order"),
        lambda: log.stage("order", 0, []),
        lambda: log.heartbeat("g", "m", ["order"], lease=1),
    ):
        with refused(log, UnknownStream, "there is no stream 'order'"):
            call()


def test_each_setting_is_altered_alone(log: Log) -> None:
    log.create("orders", retention=Retention(records=5), tombstones_ms=7, codec="json")
    log.alter("orders")
    assert log.settings("orders") == Settings(1, None, "json", Retention(records=5), Cleanup.DELETE, 7)
    log.alter("orders", cleanup="compact")
    log.alter("orders", tombstones_ms=9)
    log.alter("orders", shards=2)
    assert log.settings("orders") == Settings(2, None, "json", Retention(records=5), Cleanup.COMPACT, 9)
    log.alter("orders", retention=Retention())
    assert log.settings("orders").retention == Retention()


def test_shards_can_only_be_added_and_the_new_ones_are_empty(log: Log) -> None:
    log.create("orders", shards=2)
    log.append("orders", b"old", shard=1)
    log.alter("orders", shards=4)
    assert log.ends("orders") == [(0, 0), (0, 1), (0, 0), (0, 0)]
    log.append("orders", b"new", shard=3)
    assert [values(log, "orders", shard) for shard in range(4)] == [[], [b"old"], [], [b"new"]]
    log.alter("orders", shards=4)
    with refused(log, ShardOutOfRange, "'orders' has 4 shards, and 3 are fewer", "shards can only be added"):
        log.alter("orders", shards=3)


@pytest.mark.needs(Can.OFFSETS, Can.PINS, Can.MARKS)
def test_nothing_of_a_deleted_stream_is_left_to_one_of_the_same_name(log: Log) -> None:
    log.create("orders", shards=2)
    log.create("other")
    offsets = Offset("g", "orders", 1, None, 1), Offset("g", "other", 0, None, 1)
    appends = Append("orders", 1, rows(b"old")), Append("other", 0, rows(b"kept"))
    log.commit(Commit(records=appends))
    log.commit(Commit(offsets=offsets, marks=(Mark("orders", 1, "w", 5),)))
    log.pin("job", {("orders", 1): 0, ("other", 0): 0})
    log.pin("only", {("orders", 0): 0})
    log.delete("orders")
    assert log.streams() == ["other"]
    log.create("orders", shards=2, value=pa.int64())
    assert log.ends("orders") == [(0, 0), (0, 0)]
    assert log.read("orders", 1, 0).marks == ()
    assert log.describe("orders").groups == ()
    assert log.describe("orders").pins == {}
    assert log.offsets("g") == {("other", 0): 1}
    assert log.describe("other").pins == {"job": {0: 0}}
    log.append("orders", 5, shard=1)
    assert (values(log, "orders", 1), values(log, "other")) == ([5], [b"kept"])


def test_a_batch_in_hand_outlives_its_stream(log: Log) -> None:
    log.create("orders")
    log.commit(Commit(records=(Append("orders", 0, rows(*[b"%d" % n for n in range(1_000)])),)))
    batch = log.read("orders", 0, 0)
    log.delete("orders")
    log.create("orders")
    log.append("orders", b"another")
    assert [record.value for record in batch.records()] == [b"%d" % n for n in range(1_000)]


def test_settings_are_there_when_a_log_that_survives_is_opened_again(
    store: Store, tmp_path: Path, clock: ManualClock
) -> None:
    value = pa.struct([("item", pa.utf8()), ("when", pa.timestamp("us", "Europe/Berlin"))])
    with store.open(tmp_path, clock) as log:
        log.create("orders", shards=2, value=value, retention=Retention(records=5, force=True))
        known = log.settings("orders")
    with store.open(tmp_path, clock) as log:
        if store.survives:
            assert log.settings("orders") == known
        else:
            assert log.streams() == []
