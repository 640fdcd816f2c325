"""Pins: trim, retention and compaction stop at what jobs and groups have not finished."""

import pytest

from millstream.errors import InvalidName, Pinned, ShardOutOfRange, WrongType
from millstream.log import Append, Commit, Log, Offset, Retention
from millstream.log.can import Can
from tests.contract.looking import keyed, records, refused, rows, values

pytestmark = pytest.mark.needs(Can.PINS, Can.TRIM, Can.OFFSETS)


def filled(log: Log, retention: Retention | None = None) -> None:
    """Ten commits of one record each."""
    log.create("orders", shards=2, retention=retention)
    for number in range(10):
        log.append("orders", b"%d" % number, shard=0)


def test_trim_stops_at_a_pin(log: Log) -> None:
    filled(log)
    log.pin("job", {("orders", 0): 4})
    assert log.trim("orders", 0, 4) == 4
    with refused(
        log, Pinned, "cannot be trimmed to 5", "pin 'job' (from seq 4 on)", "Trim less", "force=True"
    ):
        log.trim("orders", 0, 5)


def test_trim_stops_at_the_offset_of_a_group(log: Log) -> None:
    filled(log)
    log.commit(Commit(offsets=(Offset("g", "orders", 0, None, 6),)))
    log.pin("job", {("orders", 0): 3})
    with refused(log, Pinned, "group 'g' (from seq 6 on)", "pin 'job' (from seq 3 on)"):
        log.trim("orders", 0, 7)
    log.unpin("job")
    assert log.trim("orders", 0, 6) == 6


def test_trim_by_force_goes_past_pins_and_is_counted(log: Log) -> None:
    filled(log)
    log.pin("job", {("orders", 0): 4})
    assert log.trim("orders", 0, 2, force=True) == 2
    assert not log.statistics().get("trims_forced")
    assert log.trim("orders", 0, 8, force=True) == 8
    assert log.statistics()["trims_forced"] == 1
    assert values(log, "orders") == [b"8", b"9"]


def test_a_pin_holds_only_its_own_shard(log: Log) -> None:
    filled(log)
    log.pin("job", {("orders", 1): 0})
    assert log.trim("orders", 0, 10) == 10
    assert log.ends("orders") == [(10, 10), (0, 0)]


def test_a_pin_is_replaced_by_the_next_of_its_name_and_let_go_of(log: Log) -> None:
    filled(log)
    log.pin("job", {("orders", 0): 2, ("orders", 1): 0})
    log.pin("job", {("orders", 0): 5})
    assert log.describe("orders").pins == {"job": {0: 5}}
    assert log.trim("orders", 0, 5) == 5
    log.unpin("job")
    log.unpin("job")
    assert log.describe("orders").pins == {}
    assert log.trim("orders", 0, 10) == 10


def test_a_pin_of_nothing_lets_go(log: Log) -> None:
    filled(log)
    log.pin("job", {("orders", 0): 2})
    log.pin("job", {})
    assert log.describe("orders").pins == {}
    assert log.trim("orders", 0, 10) == 10


def test_a_wrong_pin_is_refused(log: Log) -> None:
    filled(log)
    log.pin("job", {("orders", 0): 2})
    with refused(log, WrongType, "seq=-1: a seq is a whole number from 0 on"):
        log.pin("job", {("orders", 0): -1})
    with refused(log, ShardOutOfRange, "'orders' has no shard 2"):
        log.pin("job", {("orders", 0): 5, ("orders", 2): 0})
    with refused(log, InvalidName, "cannot be the name of a pin"):
        log.pin("no/job", {})
    with refused(log, InvalidName, "cannot be the name of a pin"):
        log.unpin("no/job")


def test_retention_stops_at_the_lowest_pin(log: Log) -> None:
    filled(log, Retention(records=2))
    log.pin("job", {("orders", 0): 5})
    log.commit(Commit(offsets=(Offset("g", "orders", 0, None, 3),)))
    assert log.retain("orders") == 3
    assert log.ends("orders")[0] == (3, 10)
    assert log.retain("orders") == 0
    log.delete_group("g")
    assert log.retain("orders") == 2
    log.unpin("job")
    assert log.retain("orders") == 3
    assert values(log, "orders") == [b"8", b"9"]


def test_retention_by_force_goes_past_pins_and_is_counted(log: Log) -> None:
    filled(log, Retention(records=2, force=True))
    log.pin("job", {("orders", 0): 5})
    assert log.retain("orders") == 8
    assert log.statistics()["retentions_forced"] == 1
    assert values(log, "orders") == [b"8", b"9"]
    assert log.describe("orders").pins == {"job": {0: 5}}


@pytest.mark.needs(Can.COMPACT)
def test_compaction_leaves_what_is_pinned(log: Log) -> None:
    log.create("orders", cleanup="compact")
    for number in range(10):
        log.commit(Commit(records=(Append("orders", 0, keyed((b"k", b"%d" % number))),)))
    log.pin("job", {("orders", 0): 6})
    log.compact("orders")
    assert [record.seq for record in records(log, "orders") if record.seq >= 6] == [6, 7, 8, 9]
    log.unpin("job")
    log.compact("orders")
    assert values(log, "orders") == [b"9"]


def test_trimming_to_where_it_is_already_does_nothing(log: Log) -> None:
    filled(log)
    log.trim("orders", 0, 4)
    log.pin("job", {("orders", 0): 0})
    assert log.trim("orders", 0, 4) == 4
    assert log.trim("orders", 0, 0) == 4
    assert len(rows(*values(log, "orders"))) == 6
