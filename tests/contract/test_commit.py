"""A commit: all of it becomes visible together, or nothing."""

import pytest

from millstream.errors import (
    Conflict,
    Fenced,
    MillstreamError,
    SeqPastEnd,
    ShardOutOfRange,
    TooLarge,
    WrongType,
)
from millstream.log import Append, Commit, Durability, Expect, Fence, Log, Mark, Offset, Placed, Staged, check
from millstream.log.can import Can
from tests.contract.looking import arrow, records, refused, rows, values

ALL = (Can.COMMIT, Can.EXPECT, Can.FENCE, Can.OFFSETS, Can.MARKS, Can.STAGE)


def test_a_receipt_tells_where_each_part_went(log: Log) -> None:
    log.create("orders")
    receipt = log.append("orders", b"a")
    assert (receipt.applied, receipt.placed) == (True, (Placed("orders", 0, 0, 1),))
    receipt = log.commit(Commit(records=(Append("orders", 0, rows(b"b", b"c")),)))
    assert receipt.placed == (Placed("orders", 0, 1, 3),)
    assert receipt.history == log.read("orders", 0, 0).history


@pytest.mark.needs(Can.COMMIT)
def test_a_commit_writes_to_many_shards_and_streams_in_the_order_of_its_parts(log: Log) -> None:
    log.create("orders", shards=2)
    log.create("other")
    receipt = log.commit(
        Commit(
            records=(
                Append("orders", 1, rows(b"a", b"b")),
                Append("other", 0, arrow(b"c")),
                Append("orders", 1, arrow(b"d", b"e")),
                Append("orders", 0, []),
                Append("orders", 1, rows(b"f")),
            )
        )
    )
    assert receipt.placed == (
        Placed("orders", 1, 0, 2),
        Placed("other", 0, 0, 1),
        Placed("orders", 1, 2, 4),
        Placed("orders", 0, 0, 0),
        Placed("orders", 1, 4, 5),
    )
    assert (values(log, "orders", 1), values(log, "other")) == ([b"a", b"b", b"d", b"e", b"f"], [b"c"])


def test_a_commit_of_nothing_is_a_commit(log: Log) -> None:
    log.create("orders")
    assert log.commit(Commit()).placed == ()
    for empty in (Append("orders", 0, []), Append("orders", 0, ()), Append("orders", 0, arrow())):
        receipt = log.commit(Commit(records=(empty,)))
        assert (receipt.applied, receipt.placed) == (True, (Placed("orders", 0, 0, 0),))
    assert log.ends("orders") == [(0, 0)]
    log.append("orders", b"a")
    assert [record.seq for record in records(log, "orders")] == [0]


def test_rows_may_be_lists_and_arrow_may_be_a_slice(log: Log) -> None:
    log.create("orders")
    log.commit(Commit(records=(Append("orders", 0, [[0, b"k", b"a", [["h", b"x"]]]]),)))
    log.commit(Commit(records=(Append("orders", 0, arrow(b"b", b"c", b"d", b"e").slice(1, 2)),)))
    assert values(log, "orders") == [b"a", b"c", b"d"]
    assert records(log, "orders")[0].headers == (("h", b"x"),)


def test_what_was_sent_may_be_changed_afterwards(log: Log) -> None:
    log.create("orders")
    part = rows(b"a", b"b")
    log.commit(Commit(records=(Append("orders", 0, part),)))
    part[0] = (0, None, b"changed", None)
    assert values(log, "orders") == [b"a", b"b"]


def setting(log: Log) -> Staged:
    """Two streams with a little of everything in them."""
    log.create("orders", shards=2)
    log.create("other")
    log.commit(Commit(records=(Append("orders", 0, rows(b"a")),), fence=Fence("sink", 3, 7, b"d")))
    log.commit(Commit(offsets=(Offset("g", "orders", 0, None, 1),), marks=(Mark("orders", 0, "w", 5),)))
    return log.stage("other", 0, [arrow(b"staged")])


GOOD = Append("orders", 1, rows(b"x")), Append("other", 0, arrow(b"y"))
REFUSED: list[tuple[str, Commit, type[MillstreamError]]] = [
    ("a shard that is not there", Commit(records=(*GOOD, Append("orders", 2, rows(b"z")))), ShardOutOfRange),
    ("a value that is no bytes", Commit(records=(*GOOD, Append("orders", 0, rows("z")))), WrongType),
    ("an older fence", Commit(records=GOOD, fence=Fence("sink", 3, 6, b"d")), Fenced),
    ("another digest", Commit(records=GOOD, fence=Fence("sink", 3, 7, b"e")), Fenced),
    ("an end that has moved", Commit(records=GOOD, expect=(Expect("orders", 0, 0),)), Conflict),
    ("an end not reached", Commit(records=GOOD, expect=(Expect("other", 0, 1),)), Conflict),
    (
        "the second of two ends",
        Commit((*GOOD,), expect=(Expect("orders", 0, 1), Expect("other", 0, 1))),
        Conflict,
    ),
    (
        "an offset that has moved",
        Commit(records=GOOD, offsets=(Offset("g", "orders", 0, None, 1),)),
        Conflict,
    ),
    (
        "an offset past the end",
        Commit(records=GOOD, offsets=(Offset("h", "orders", 0, None, 2),)),
        SeqPastEnd,
    ),
    ("a generation", Commit(records=GOOD, offsets=(Offset("g", "orders", 0, 1, 1, generation=1),)), Fenced),
    ("an expected shard", Commit(records=GOOD, expect=(Expect("orders", 2, 0),)), ShardOutOfRange),
    ("a marked shard", Commit(records=GOOD, marks=(Mark("orders", 2, "w", 0),)), ShardOutOfRange),
    (
        "an offset's shard",
        Commit(records=GOOD, offsets=(Offset("g", "orders", 2, None, 0),)),
        ShardOutOfRange,
    ),
    ("a token that is not there", Commit(records=GOOD, staged=(Staged("no", "other", 0, 1),)), Conflict),
]


@pytest.mark.needs(*ALL)
@pytest.mark.parametrize(
    ("commit", "error"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_one_wrong_part_refuses_the_whole_commit(
    log: Log, commit: Commit, error: type[MillstreamError]
) -> None:
    staged = setting(log)
    fence = commit.fence or Fence("other", 0, 0, b"", b"position")
    with refused(log, error):
        log.commit(
            Commit(
                commit.records,
                (staged, *commit.staged),
                (*commit.offsets, Offset("h", "other", 0, None, 0)),
                fence,
                commit.expect,
                (Mark("other", 0, "w", 7), *commit.marks),
            )
        )
    # All that was good in it goes through on its own, the staged records among it.
    receipt = log.commit(
        Commit(
            GOOD,
            (staged,),
            (Offset("h", "other", 0, None, 0),),
            Fence("other", 0, 0, b"", b"position"),
            (Expect("orders", 1, 0),),
            (Mark("other", 0, "w", 7),),
        )
    )
    assert [placed.first for placed in receipt.placed] == [0, 0, 1]
    assert values(log, "other") == [b"y", b"staged"]


@pytest.mark.needs(Can.EXPECT)
def test_a_conditional_append_is_done_once(log: Log) -> None:
    log.create("orders")
    commit = Commit(records=(Append("orders", 0, rows(b"a")),), expect=(Expect("orders", 0, 0),))
    assert log.commit(commit).applied
    with refused(log, Conflict, "ends at 1, and the commit expected 0", "read what is new, and decide again"):
        log.commit(commit)


def test_a_commit_over_its_limit_is_refused_before_its_records_are_looked_at(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.create("orders", shards=2)
    monkeypatch.setattr(check, "COMMIT_BYTES_MAX", 1_000)
    monkeypatch.setattr(check, "RECORD_BYTES_MAX", 600)
    half = b"x" * 501
    log.append("orders", half, shard=0)
    with refused(log, TooLarge, "a commit of 1,002 bytes is over the limit of 1,000", "split it, or stage"):
        log.commit(Commit(records=(Append("orders", 0, rows(half)), Append("orders", 1, rows(half)))))
    with refused(
        log, TooLarge, "a record of 601 bytes is over the limit of 600", "keep large objects elsewhere"
    ):
        log.append("orders", b"x" * 601, shard=0)
    with refused(log, TooLarge, "over the limit of 1,000"):
        log.commit(Commit(records=(Append("orders", 0, arrow(half, half)),)))
    with refused(log, TooLarge, "over the limit of 600"):
        log.commit(Commit(records=(Append("orders", 0, arrow(b"x" * 700)),)))


@pytest.mark.needs(Can.SYNCED)
def test_a_synced_commit_makes_all_before_it_durable(log: Log) -> None:
    log.create("orders", shards=2)
    log.append("orders", b"a", shard=0)
    log.append("orders", b"b", shard=1, durability=Durability.SYNCED)
    assert [(shard.synced_end, shard.end) for shard in log.describe("orders").shards] == [(1, 1), (1, 1)]


@pytest.mark.parametrize("durability", ["fire", "written", Durability.FIRE, Durability.WRITTEN], ids=repr)
def test_a_commit_is_visible_when_it_is_acknowledged(log: Log, durability: Durability | str) -> None:
    log.create("orders")
    log.append("orders", b"a", durability=durability)
    log.append("orders", b"b")
    assert values(log, "orders") == [b"a", b"b"]


def test_a_record_appended_without_a_time_gets_that_of_the_clock(log: Log) -> None:
    log.create("orders")
    log.append("orders", b"now")
    log.append("orders", b"then", timestamp=-5)
    assert [record.timestamp for record in records(log, "orders")] == [log.clock.now_ms(), -5]


def test_a_key_decides_the_shard_unless_the_shard_is_said(log: Log) -> None:
    log.create("orders", shards=8)
    assert log.append("orders", b"x", key=b"ann").placed[0].shard == 2
    assert log.append("orders", b"x", key=b"ann", shard=5).placed[0].shard == 5
    assert log.append("orders", b"x").placed[0].shard == 0
