"""Fences: a commit happens once, and those who were replaced are told so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.errors import Fenced, TooLarge
from millstream.log import Append, Commit, Expect, Fence, FenceState, Log, Offset, Placed
from millstream.log.can import Can
from tests.contract.looking import refused, rows, values
from tests.contract.stores import Store

pytestmark = pytest.mark.needs(Can.FENCE)


def fenced(fence: Fence, *sent: bytes) -> Commit:
    return Commit(records=(Append("orders", 0, rows(*sent)),), fence=fence)


def test_the_first_commit_of_a_name_may_have_any_run_and_number(log: Log) -> None:
    log.create("orders")
    assert log.fence("sink") is None
    assert log.commit(fenced(Fence("sink", 5, 9, b"d", b"p"), b"a")).applied
    assert log.fence("sink") == FenceState("sink", 5, 9, b"d", b"p", (Placed("orders", 0, 0, 1),))


def test_a_newer_number_of_the_same_run_is_applied(log: Log) -> None:
    log.create("orders")
    for number in (0, 1, 5, 1_000):
        assert log.commit(fenced(Fence("sink", 1, number), b"%d" % number)).applied
    assert values(log, "orders") == [b"0", b"1", b"5", b"1000"]


def test_a_replay_is_answered_with_where_it_went_the_first_time(log: Log) -> None:
    log.create("orders", shards=2)
    commit = Commit(
        records=(
            Append("orders", 1, rows(b"a", b"b")),
            Append("orders", 0, []),
            Append("orders", 1, rows(b"c")),
        ),
        fence=Fence("sink", 1, 1, b"plan"),
    )
    first = log.commit(commit)
    log.append("orders", b"between", shard=1)
    for _ in range(2):
        again = log.commit(commit)
        assert (again.applied, again.placed) == (False, first.placed)
    assert values(log, "orders", 1) == [b"a", b"b", b"c", b"between"]


@pytest.mark.needs(Can.EXPECT, Can.OFFSETS)
def test_a_replay_is_known_before_its_offsets_and_ends_are_compared(log: Log) -> None:
    log.create("orders")
    commit = Commit(
        records=(Append("orders", 0, rows(b"a")),),
        offsets=(Offset("g", "orders", 0, None, 1),),
        expect=(Expect("orders", 0, 0),),
        fence=Fence("sink", 1, 1),
    )
    assert log.commit(commit).applied
    assert not log.commit(commit).applied
    assert log.offsets("g") == {("orders", 0): 1}


@pytest.mark.parametrize(
    ("fence", "why"),
    [
        (Fence("sink", 2, 5, b"other"), "number 5 was committed before with another digest"),
        (Fence("sink", 2, 5, b""), "another digest"),
        (Fence("sink", 2, 4, b"d"), "number 4 comes after 5 was committed"),
        (Fence("sink", 1, 5, b"d"), "run 1 was replaced by run 2"),
        (Fence("sink", 1, 6, b"d"), "run 1 was replaced by run 2"),
        (Fence("sink", 3, 5, b"d"), "run 3 was replaced by run 2"),
        (Fence("sink", 3, 6, b"d"), "run 3 was replaced by run 2"),
    ],
    ids=repr,
)
def test_everything_else_is_fenced(log: Log, fence: Fence, why: str) -> None:
    log.create("orders")
    log.commit(fenced(Fence("sink", 2, 5, b"d", b"p"), b"a"))
    with refused(
        log, Fenced, "the commit under the name 'sink' is refused", why, "Stop; do not send it again"
    ):
        log.commit(fenced(fence, b"b"))


def test_taking_a_name_over_fences_the_runs_before(log: Log) -> None:
    log.create("orders")
    assert log.take_over("sink") == 1
    assert log.commit(fenced(Fence("sink", 1, 0, b"", b"position 1"), b"a")).applied
    assert log.take_over("sink") == 2
    with refused(log, Fenced, "run 1 was replaced by run 2"):
        log.commit(fenced(Fence("sink", 1, 1), b"zombie"))
    with refused(log, Fenced, "run 1 was replaced by run 2"):
        log.commit(fenced(Fence("sink", 1, 0, b"", b"position 1"), b"a"))
    assert log.commit(fenced(Fence("sink", 2, 0), b"b")).applied
    assert values(log, "orders") == [b"a", b"b"]


def test_who_takes_a_name_over_learns_the_position_it_had(log: Log) -> None:
    log.create("orders")
    log.commit(fenced(Fence("sink", 1, 7, b"d", b"line 3"), b"a"))
    assert log.take_over("sink") == 2
    known = log.fence("sink")
    assert known is not None
    assert (known.run, known.position, known.placed) == (2, b"line 3", (Placed("orders", 0, 0, 1),))
    assert log.commit(fenced(Fence("sink", 2, 0), b"b")).applied
    known = log.fence("sink")
    assert known is not None
    assert (known.number, known.position) == (0, None)


def test_a_name_never_used_before_is_taken_over_too(log: Log) -> None:
    log.create("orders")
    assert [log.take_over("sink") for _ in range(3)] == [1, 2, 3]
    known = log.fence("sink")
    assert known is not None
    assert (known.run, known.position, known.placed) == (3, None, ())
    with refused(log, Fenced, "run 2"):
        log.commit(fenced(Fence("sink", 2, 0), b"a"))


def test_a_name_at_the_last_run_there_is_cannot_be_taken_over(log: Log) -> None:
    log.commit(Commit(fence=Fence("sink", 2**62, 2**62)))
    with pytest.raises(TooLarge, match="fence 'sink' is at run 4611686018427387904, the last one"):
        log.take_over("sink")
    assert log.fence("sink") == FenceState("sink", 2**62, 2**62, b"", None, ())


def test_names_do_not_fence_each_other(log: Log) -> None:
    log.create("orders")
    log.commit(fenced(Fence("sink", 2, 5), b"a"))
    assert log.commit(fenced(Fence("other", 1, 0), b"b")).applied
    log.take_over("other")
    assert log.commit(fenced(Fence("sink", 2, 6), b"c")).applied
    assert log.append("orders", b"d").applied


def test_a_commit_without_records_moves_its_fence(log: Log) -> None:
    log.create("orders")
    assert log.commit(Commit(fence=Fence("sink", 1, 1, b"", b"p"))).applied
    again = log.commit(Commit(fence=Fence("sink", 1, 1, b"", b"other position")))
    assert (again.applied, again.placed) == (False, ())
    known = log.fence("sink")
    assert known is not None
    assert known.position == b"p"


fences = st.builds(Fence, st.just("sink"), st.integers(0, 2), st.integers(0, 3), st.sampled_from([b"", b"d"]))


@given(st.lists(fences | st.none(), max_size=12))
def test_whatever_is_sent_again_nothing_is_written_twice(store: Store, sent: list[Fence | None]) -> None:
    """None takes the name over. Each fence writes itself, and is written at most once a run."""
    with store.new() as log:
        log.create("orders")
        applied: list[Fence] = []
        run, number = None, -1
        for fence in sent:
            if fence is None:
                run, number = log.take_over("sink"), -1
                applied.append(Fence("sink", run, -1))
                continue
            try:
                receipt = log.commit(fenced(fence, repr(fence).encode()))
            except Fenced:
                assert run is not None
                assert (fence.run != run) or fence.number <= number
                continue
            assert receipt.applied == (run is None or fence.number > number)
            if receipt.applied:
                run, number = fence.run, fence.number
                applied.append(fence)
            else:
                assert fence == applied[-1]
        written = [repr(fence).encode() for fence in applied if fence.number >= 0]
        assert values(log, "orders") == written
