"""Group offsets: they move inside of commits, and only from what they are."""

import pytest

from millstream.errors import Conflict, SeqPastEnd
from millstream.log import Append, Commit, Log, Offset
from millstream.log.can import Can
from tests.contract.looking import refused, rows, values

pytestmark = pytest.mark.needs(Can.OFFSETS)


def filled(log: Log) -> None:
    log.create("orders", shards=2)
    log.commit(Commit(records=(Append("orders", 0, rows(b"a", b"b", b"c")),)))


def move(*offsets: Offset) -> Commit:
    return Commit(offsets=offsets)


def test_a_group_that_never_committed_has_no_offsets(log: Log) -> None:
    assert log.offsets("g") == {}


def test_an_offset_moves_from_what_it_is_to_what_comes_next(log: Log) -> None:
    filled(log)
    log.commit(move(Offset("g", "orders", 0, None, 1)))
    log.commit(move(Offset("g", "orders", 0, 1, 3), Offset("g", "orders", 1, None, 0)))
    assert log.offsets("g") == {("orders", 0): 3, ("orders", 1): 0}


def test_an_offset_may_go_back(log: Log) -> None:
    filled(log)
    log.commit(move(Offset("g", "orders", 0, None, 3)))
    log.commit(move(Offset("g", "orders", 0, 3, 0)))
    assert log.offsets("g") == {("orders", 0): 0}


@pytest.mark.parametrize("expected", [None, 0, 1, 3])
def test_an_offset_that_is_not_as_expected_refuses_the_whole_commit(log: Log, expected: int | None) -> None:
    filled(log)
    log.commit(move(Offset("g", "orders", 0, None, 2)))
    commit = Commit(
        records=(Append("orders", 1, rows(b"x")),),
        offsets=(Offset("g", "orders", 1, None, 0), Offset("g", "orders", 0, expected, 3)),
    )
    words = f"the offset is 2, and the commit expected {expected}", "group 'g', stream 'orders', shard 0"
    with refused(log, Conflict, *words, "read the group's offsets and go on from there"):
        log.commit(commit)


def test_an_offset_that_is_expected_and_not_there_is_a_conflict(log: Log) -> None:
    filled(log)
    with refused(log, Conflict, "the offset is None, and the commit expected 0"):
        log.commit(move(Offset("g", "orders", 0, 0, 1)))


def test_an_offset_past_the_end_is_refused(log: Log) -> None:
    filled(log)
    log.commit(move(Offset("g", "orders", 0, None, 3)))
    with refused(log, SeqPastEnd, "offset 4 lies past the end", "'orders', shard 0, which is 3") as caught:
        log.commit(move(Offset("g", "orders", 0, 3, 4)))
    assert isinstance(caught.value, SeqPastEnd)
    assert caught.value.end == 3


def test_groups_do_not_see_each_other(log: Log) -> None:
    filled(log)
    log.commit(move(Offset("g", "orders", 0, None, 1), Offset("h", "orders", 0, None, 2)))
    assert (log.offsets("g"), log.offsets("h")) == ({("orders", 0): 1}, {("orders", 0): 2})
    log.delete_group("g")
    assert (log.offsets("g"), log.offsets("h")) == ({}, {("orders", 0): 2})
    log.delete_group("g")
    log.commit(move(Offset("g", "orders", 0, None, 3)))


def test_outputs_and_offsets_are_one_commit(log: Log) -> None:
    filled(log)
    log.create("doubled")
    log.commit(
        Commit(
            records=(Append("doubled", 0, [(0, None, value * 2, None) for value in values(log, "orders")]),),
            offsets=(Offset("g", "orders", 0, None, 3),),
        )
    )
    with refused(log, Conflict, "the offset is 3, and the commit expected None"):
        log.commit(
            Commit(
                records=(Append("doubled", 0, rows(b"again")),), offsets=(Offset("g", "orders", 0, None, 3),)
            )
        )
    assert values(log, "doubled") == [b"aa", b"bb", b"cc"]


def test_lag_is_what_a_group_has_not_committed(log: Log) -> None:
    filled(log)
    log.append("orders", b"d", shard=1)
    log.commit(move(Offset("g", "orders", 0, None, 1)))
    (group,) = log.describe("orders").groups
    assert (group.offsets, group.lag) == ({0: 1}, 3)
    log.commit(move(Offset("g", "orders", 0, 1, 3), Offset("g", "orders", 1, None, 1)))
    assert log.describe("orders").groups[0].lag == 0
