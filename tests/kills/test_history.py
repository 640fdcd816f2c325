"""The checker finds every anomaly, each put into a history that is right without it."""

from __future__ import annotations

import msgspec
import pytest

from tests.kills.history import (
    Acked,
    Delivered,
    Event,
    Failed,
    History,
    Id,
    Kept,
    Moved,
    Output,
    Started,
    check,
    digest,
)
from tests.kills.report import decoded, encoded

ORDERS, TABLE, OUT = ("orders", 0), ("table", 0), ("out", 0)
IDS = [Id("ann", 1, 0), Id("ann", 1, 1, 0, 2), Id("ann", 1, 1, 1, 2), Id("ann", 2, 2), Id("bob", 1, 0)]
KEPT = [Kept(seq, name) for seq, name in enumerate(IDS)]


def good() -> History:
    """Two writers, two groups, a table: everything as it should be."""
    return History(
        reports={
            "ann.1": [
                Started(),
                Acked("ann", 1, "orders", 0, seq=0, number=0),
                Acked("ann", 1, "orders", 0, seq=1, number=1, count=2, parts=2),
            ],
            "bob.1": [
                Acked("bob", 1, "orders", 0, seq=4, number=0),
                *(Acked("tab", 1, "table", 0, seq=seq, number=seq) for seq in range(3)),
            ],
            "r.1": [delivered("r", "r.1", 1, 0, 3), moved("r", 2)],
            "r.2": [delivered("r", "r.2", 2, 2, 5), moved("r", 5)],
            "x.1": [delivered("x", "x.1", 1, 0, 5), moved("x", 5)],
        },
        kept={
            ORDERS: KEPT,
            TABLE: [Kept(1, Id("tab", 1, 1), b"k"), Kept(2, Id("tab", 1, 2), b"l")],
        },
        outputs={OUT: [Output("orders", 0, record.seq, record.id) for record in KEPT]},
        offsets={("r", *ORDERS): 5, ("x", *ORDERS): 5},
        exact=frozenset({"ann"}),
        once=frozenset({"x"}),
        repeat=frozenset({"r"}),
        compacted=frozenset({"table"}),
    )


def delivered(group: str, member: str, generation: int, first: int, after: int) -> Delivered:
    what = digest((record.seq, record.id) for record in KEPT[first:after])
    return Delivered(group, member, generation, *ORDERS, first, after, what)


def moved(group: str, after: int) -> Moved:
    return Moved(group, *ORDERS, after)


def told(*events: Event, process: str = "more.1") -> History:
    """The good history, and what another process has said."""
    return msgspec.structs.replace(good(), reports={**good().reports, process: events})


def with_kept(*kept: Kept) -> History:
    return msgspec.structs.replace(good(), kept={**good().kept, ORDERS: kept})


def with_outputs(*outputs: Output) -> History:
    return msgspec.structs.replace(good(), outputs={OUT: outputs})


def numbered(*names: Id) -> History:
    return with_kept(*(Kept(seq, name) for seq, name in enumerate(names)))


def made(*seqs: int) -> History:
    return with_outputs(*(Output(*ORDERS, seq, IDS[seq]) for seq in seqs))


def with_offset(group: str, seq: int) -> History:
    return msgspec.structs.replace(good(), offsets={**good().offsets, (group, *ORDERS): seq})


def test_a_history_that_is_right_has_no_anomaly() -> None:
    assert check(good()) == []


CANARIES = {
    "failed: a worker says so": told(Failed("a bug")),
    "disorder: a seq goes back": with_kept(KEPT[1], KEPT[0], *KEPT[2:]),
    "disorder: a seq is there twice": with_kept(*KEPT, KEPT[-1]),
    "hole: a seq is missing": with_kept(*KEPT[:3], KEPT[4]),
    "hole: the first seq is missing": with_kept(*KEPT[1:]),
    "lost: the last record is gone": with_kept(*KEPT[:-1]),
    "lost: all records are gone": with_kept(),
    "lost: another is in its place": numbered(*IDS[:-1], Id("bob", 1, 1)),
    "lost: the shard is gone": told(Acked("ann", 1, "gone", 0, seq=0, number=0)),
    "lost: compacted, and no later one is there": told(Acked("tab", 2, "table", 0, seq=3, number=3)),
    "lost: compacted, and another is in its place": told(Acked("tab", 2, "table", 0, seq=2, number=3)),
    "duplicated: a record": numbered(*IDS, IDS[0]),
    "duplicated: a number, by the next run": numbered(*IDS, Id("ann", 3, 2)),
    "duplicated: a record without a name": numbered(*IDS, Id("bob", 1, 0)),
    "reordered: two commits": numbered(IDS[0], IDS[3], IDS[1], IDS[2], IDS[4]),
    "reordered: two parts": numbered(IDS[0], IDS[2], IDS[1], IDS[3], IDS[4]),
    "reordered: a run after the next": numbered(*IDS, Id("bob", 2, 0), Id("bob", 1, 1)),
    "gap: a number is missing": numbered(*IDS, Id("ann", 2, 4)),
    "gap: a run does not begin at the beginning": numbered(*IDS, Id("bob", 2, 1)),
    "torn: a part is missing": numbered(*IDS, Id("ann", 2, 3, 1, 2)),
    "phantom: another record was read": told(Delivered("x", "x.1", 1, *ORDERS, 0, 1, digest([(0, IDS[1])]))),
    "phantom: more was read": told(
        Delivered("x", "x.1", 1, *ORDERS, 4, 5, digest(enumerate(IDS[4:], 4)) + 1)
    ),
    "phantom: past the end": told(Delivered("x", "x.1", 1, *ORDERS, 5, 6, digest([(5, IDS[1])]))),
    "unseen: the last record": numbered(*IDS, Id("bob", 1, 1)),
    "shared: two members in a generation": told(delivered("r", "r.3", 2, 4, 5)),
    "went back: in a generation": told(delivered("r", "r.9", 9, 0, 3), delivered("r", "r.9", 9, 2, 5)),
    "beyond: the offset in the end": with_offset("r", 6),
    "beyond: an offset that was acknowledged": told(moved("r", 6)),
    "beyond: of a group that was given nothing": told(moved("unknown", 1)),
    "forgotten: an offset that was acknowledged": with_offset("r", 4),
    "false output: of another record": with_outputs(Output(*ORDERS, 0, IDS[1])),
    "false output: of no record": with_outputs(Output(*ORDERS, 5, IDS[1])),
    "output twice: of one record": made(0, 1, 2, 3, 4, 4),
    "output reordered: two of them": made(0, 2, 1, 3, 4),
    "output and offset: an output is missing": made(0, 1, 2, 3),
    "output and offset: the offset is missing": with_offset("x", 4),
}


@pytest.mark.parametrize("canary", CANARIES)
def test_an_anomaly_is_found(canary: str) -> None:
    kind, _, _ = canary.partition(":")
    assert kind in {anomaly.kind for anomaly in check(CANARIES[canary])}


def test_a_record_of_a_compacted_stream_may_give_way_to_a_later_one_only() -> None:
    assert check(told(Acked("tab", 1, "table", 0, seq=0, number=0))) == []


def test_what_is_delivered_again_to_a_new_owner_is_no_anomaly() -> None:
    assert check(told(delivered("r", "r.3", 3, 0, 5))) == []


def test_reports_come_back_as_they_were_but_for_a_torn_end() -> None:
    events = [event for some in good().reports.values() for event in some]
    assert decoded(encoded(*events)) == events
    assert decoded(encoded(*events)[:-1]) == events[:-1]
