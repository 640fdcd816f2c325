"""The rules: which commit is applied, which was done before, and which is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.errors import Conflict, Fenced, HistoryChanged, SeqPastEnd, SeqTrimmed
from millstream.log.commit import Expect, Fence, FenceState, Offset
from millstream.log.rules import (
    NOTHING_YET,
    judge_expect,
    judge_fence,
    judge_history,
    judge_offset,
    judge_position,
)


def known(run: int, number: int, digest: bytes = b"d") -> FenceState:
    return FenceState("sink", run, number, digest, None, ())


@pytest.mark.parametrize("run", [0, 1, 7])
def test_the_first_commit_of_a_name_is_applied(run: int) -> None:
    assert judge_fence(Fence("sink", run, 5, b"d"), None)


@pytest.mark.parametrize("number", [6, 7, 1_000])
def test_a_newer_number_is_applied_whatever_its_digest(number: int) -> None:
    assert judge_fence(Fence("sink", 2, number, b"other"), known(2, 5))


def test_the_same_commit_was_done_before() -> None:
    assert not judge_fence(Fence("sink", 2, 5, b"d"), known(2, 5))


@pytest.mark.parametrize(
    ("fence", "why"),
    [
        (Fence("sink", 2, 5, b"other"), "another digest"),
        (Fence("sink", 2, 4, b"d"), "number 4 comes after 5"),
        (Fence("sink", 2, 0, b"d"), "number 0 comes after 5"),
        (Fence("sink", 1, 5, b"d"), "run 1 was replaced by run 2"),
        (Fence("sink", 1, 6, b"d"), "run 1 was replaced by run 2"),
        (Fence("sink", 3, 5, b"d"), "run 3 was replaced by run 2"),
        (Fence("sink", 3, 6, b"d"), "run 3 was replaced by run 2"),
    ],
)
def test_everything_else_is_fenced_and_told_why(fence: Fence, why: str) -> None:
    with pytest.raises(Fenced, match=why) as refused:
        judge_fence(fence, known(2, 5))
    assert "'sink'" in str(refused.value)
    assert "Stop" in str(refused.value)


def test_after_a_name_was_taken_over_any_number_of_its_run_is_applied() -> None:
    assert judge_fence(Fence("sink", 2, 0, b""), known(2, NOTHING_YET, b""))


@given(
    st.integers(0, 3), st.integers(0, 3), st.sampled_from([b"", b"d"]), st.integers(0, 3), st.integers(-1, 3)
)
def test_a_fence_is_applied_once(
    run: int, number: int, digest: bytes, known_run: int, known_number: int
) -> None:
    fence = Fence("sink", run, number, digest)
    try:
        applied = judge_fence(fence, known(known_run, known_number))
    except Fenced:
        return
    assert not judge_fence(fence, known(run, number, digest))
    assert applied == (number > known_number)


@pytest.mark.parametrize("current", [None, 0, 7])
def test_an_offset_moves_on_from_what_it_is(current: int | None) -> None:
    judge_offset(Offset("g", "orders", 0, current, 9, generation=3), current, 3)


@pytest.mark.parametrize(("expected", "current"), [(None, 0), (0, None), (5, 6), (6, 5)])
def test_an_offset_based_on_another_one_is_a_conflict(expected: int | None, current: int | None) -> None:
    with pytest.raises(Conflict, match=f"is {current}, and the commit expected {expected}"):
        judge_offset(Offset("g", "orders", 0, expected, 9), current, 0)


@pytest.mark.parametrize(("generation", "owner"), [(1, 2), (0, 1), (3, 2)])
def test_an_offset_of_another_generation_is_fenced_before_it_is_compared(generation: int, owner: int) -> None:
    with pytest.raises(Fenced, match=f"generation {generation} does not own"):
        judge_offset(Offset("g", "orders", 0, 4, 9, generation), 5, owner)


def test_a_conditional_append_needs_the_end_it_expects() -> None:
    judge_expect(Expect("orders", 0, 4), 4)
    for seq in (3, 5):
        with pytest.raises(Conflict, match=f"ends at 4, and the commit expected {seq}"):
            judge_expect(Expect("orders", 0, seq), 4)


def test_a_position_lies_between_the_first_record_and_the_end() -> None:
    for seq in (3, 5, 7):
        judge_position("orders", 0, seq, 3, 7)
    with pytest.raises(SeqTrimmed, match="seq 1 is gone, with 2 seqs before 3") as trimmed:
        judge_position("orders", 0, 1, 3, 7)
    assert (trimmed.value.first, trimmed.value.missing) == (3, 2)
    with pytest.raises(SeqPastEnd, match="seq 8 lies past the end, 7") as past:
        judge_position("orders", 0, 8, 3, 7)
    assert past.value.end == 7


def test_a_position_past_a_cut_is_of_another_history() -> None:
    judge_history("orders", 0, 5, 5)
    with pytest.raises(HistoryChanged, match="go back to 5") as changed:
        judge_history("orders", 0, 6, 5)
    assert changed.value.end == 5
