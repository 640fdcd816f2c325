"""The state of a log: the same entries give the same state, whichever way they came."""

from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.errors import Conflict, Fenced, MillstreamError, SeqPastEnd, ShardOutOfRange, UnknownStream
from millstream.log.commit import Commit, Expect, Fence, Mark, Offset, Placed, Staged
from millstream.log.entry import Changed, Committed, Entry, Extent, decode_entries, encode_entries
from millstream.log.state import (
    CutRow,
    FactRow,
    FenceRow,
    GroupRow,
    Member,
    Owner,
    Pending,
    ShardRow,
    StagedRow,
    State,
    StreamRow,
    marked,
)
from millstream.log.stream import Cleanup, Retention, Settings

COLUMNS = pa.struct([("item", pa.large_utf8()), ("when", pa.timestamp("us", "Europe/Berlin"))])
STREAMS = {
    "a": StreamRow(0, Settings(shards=2, retention=Retention(age_ms=5, force=True)), 0),
    "b": StreamRow(1, Settings(value=COLUMNS, cleanup=Cleanup.COMPACT, codec="json"), 7),
}
PLACES = [("a", 0), ("a", 1), ("b", 0)]


def started() -> State:
    """A state with two streams, three shards."""
    state = State()
    state.apply(Changed(1, tuple(state.streams.change(name, row) for name, row in STREAMS.items())))
    return state


def tables(state: State) -> dict[str, Any]:
    """All that a state holds, to compare."""
    return {
        "id": state.id,
        "names": state.names.copy(),
        **{name: table.copy() for name, table in state.tables.items()},
    }


def pending(stream: str, shard: int, count: int) -> Pending:
    return Pending(stream, shard, (), count, 0, 0)


extent = Extent("s/1", 0, 10, 1, base=0, first=0, next=4, count=4, oldest=-5, newest=5)
names = st.sampled_from(["x", "y"])
small = st.integers(0, 3)
places = st.sampled_from(PLACES)
keys = st.sampled_from([(0, 0), (0, 1), (1, 0)])
commits = st.builds(
    lambda parts, fence, offsets, expect, marks, staged: (
        Commit((), staged, tuple(offsets), fence, tuple(expect), tuple(marks)),
        [pending(place[0], place[1], count) for place, count in parts],
    ),
    st.lists(st.tuples(places, small), max_size=3),
    st.none()
    | st.builds(Fence, names, small, small, st.binary(max_size=1), st.none() | st.binary(max_size=2)),
    st.lists(
        st.builds(
            lambda g, p, e, n, o: Offset(g, p[0], p[1], e, n, o),
            names,
            places,
            st.none() | small,
            small,
            small,
        )
    ),
    st.lists(st.builds(lambda p, s: Expect(p[0], p[1], s), places, small), max_size=1),
    st.lists(
        st.builds(lambda p, w, m: Mark(p[0], p[1], w, m), places, names, st.none() | st.integers(-2, 2)),
        max_size=2,
    ),
    st.sampled_from([(), (Staged("t", "a", 1, 4),)]),
)


def numbered(step: tuple[str, str, StreamRow | None]) -> tuple[str, str, StreamRow | None]:
    """No two streams have one number."""
    table, name, row = step
    if row is None:
        return step
    number = STREAMS[name].id if name in STREAMS else len(STREAMS) + int.from_bytes(name.encode())
    return table, name, msgspec.structs.replace(row, id=number)


rows = st.one_of(
    st.tuples(st.just("fences"), names, st.none() | st.builds(FenceRow, small, small)),
    st.tuples(st.just("pins"), names, st.none() | st.dictionaries(keys, small)),
    st.tuples(st.just("groups"), names, st.none() | st.builds(GroupRow, names, owners=st.dictionaries(
        keys, st.builds(Owner, st.none() | names, small)), members=st.dictionaries(
        names, st.builds(Member, st.just(("a",)), st.floats(0, 9))))),
    st.tuples(st.just("staged"), st.just("t"), st.none() | st.just(StagedRow(0, 1, 4, 0, (extent,)))),
    st.tuples(st.just("shards"), keys, st.builds(ShardRow, small, st.integers(4, 9))),
    st.tuples(st.just("streams"), names, st.none() | st.sampled_from(list(STREAMS.values()))).map(numbered),
    st.tuples(st.just("cuts"), small, st.builds(CutRow, st.dictionaries(keys, small))),
    st.tuples(st.just("facts"), st.just("log"), st.builds(FactRow, small, names, small)),
)  # fmt: skip
Step = tuple[Commit, list[Pending]] | tuple[str, Any, Any]


def play(steps: list[Step]) -> tuple[State, list[Entry]]:
    """Judge and apply steps, the refused ones left out; judging must not change anything."""
    state = started()
    entries: list[Entry] = []
    for step in steps:
        entry: Entry | None = None
        if len(step) == 3:
            entry = Changed(state.id + 1, (state.tables[step[0]].change(step[1], step[2]),))
        else:
            before = tables(state)
            try:
                entry = state.judge(*step, at_ms=len(entries))
            except MillstreamError:
                entry = None
            assert tables(state) == before
        if entry is not None:
            entries.append(entry)
            state.apply(entry)
    return state, entries


steps_of_both = st.lists(commits | rows, max_size=15)


@given(steps_of_both)
def test_entries_that_were_written_and_read_again_give_the_same_state(steps: list[Step]) -> None:
    state, entries = play(steps)
    again = started()
    for entry in decode_entries(encode_entries(entries)):
        again.apply(entry)
    assert tables(again) == tables(state)
    assert play(steps)[1] == entries


@given(steps_of_both)
def test_saving_the_rows_that_were_touched_saves_the_whole_state(steps: list[Step]) -> None:
    saved = started()
    state, _ = play(steps)
    for name, table in state.tables.items():
        for key in table.dirty:
            _, encoded_key, encoded_row = table.change(key, table.get(key))
            saved.load(name, encoded_key, encoded_row)
    saved.id = state.id
    assert tables(saved) == tables(state)


@given(steps_of_both)
def test_seqs_never_go_back_and_parts_do_not_overlap(steps: list[Step]) -> None:
    _, entries = play([step for step in steps if len(step) == 2])
    ends: dict[tuple[int, int], int] = {}
    for entry in entries:
        assert isinstance(entry, Committed)
        for part, placed in zip(entry.parts, entry.placed, strict=True):
            assert part.first == ends.get((part.stream, part.shard), 0)
            assert (placed.first, placed.next) == (part.first, part.next)
            ends[part.stream, part.shard] = part.next


def test_a_commit_gives_its_parts_the_seqs_after_the_end_one_after_the_other() -> None:
    state = started()
    entry = state.judge(Commit(), [pending("a", 0, 2), pending("b", 0, 0), pending("a", 0, 3)], 5)
    assert entry is not None
    assert entry.placed == (Placed("a", 0, 0, 2), Placed("b", 0, 0, 0), Placed("a", 0, 2, 5))
    assert (entry.id, entry.at_ms) == (2, 5)
    state.apply(entry)
    assert state.shard("a", 0) == ((0, 0), ShardRow(0, 5))


def test_staged_records_get_their_seqs_when_they_are_published() -> None:
    state = started()
    state.staged.set("t", StagedRow(0, 1, 4, 0, (extent,)))
    commit = Commit(staged=(Staged("t", "a", 1, 4),))
    entry = state.judge(commit, [pending("a", 1, 2)], 5)
    assert entry is not None
    part = entry.parts[1]
    assert (part.first, part.next, part.oldest, part.newest) == (2, 6, -5, 5)
    assert (part.extents[0].first, part.extents[0].next, part.extents[0].base) == (2, 6, 0)
    state.apply(entry)
    assert "t" not in state.staged
    with pytest.raises(Conflict, match=r"'t' .* are not there: they were committed before, or swept"):
        state.judge(commit, [], 6)


def test_staged_records_are_not_there_for_another_shard_nor_twice() -> None:
    state = started()
    state.staged.set("t", StagedRow(0, 1, 4, 0))
    for staged in ((Staged("t", "a", 0, 4),), (Staged("t", "b", 0, 4),), (Staged("t", "a", 1, 4),) * 2):
        with pytest.raises(Conflict, match="'t'"):
            state.judge(Commit(staged=staged), [], 0)


def test_a_replay_is_told_by_its_fence_before_anything_else_is_judged() -> None:
    state = started()
    commit = Commit(
        fence=Fence("x", 1, 1), expect=(Expect("a", 0, 0),), offsets=(Offset("g", "a", 0, None, 1),)
    )
    entry = state.judge(commit, [pending("a", 0, 1)], 5)
    assert entry is not None
    state.apply(entry)
    assert state.judge(commit, [pending("a", 0, 1)], 6) is None
    assert state.fences["x"].placed == (Placed("a", 0, 0, 1),)
    with pytest.raises(Fenced):
        state.judge(Commit(fence=Fence("x", 0, 9)), [], 7)


def test_an_offset_may_reach_to_the_end_that_its_own_commit_makes() -> None:
    state = started()
    offset = Offset("g", "a", 0, None, 2)
    assert state.judge(Commit(offsets=(offset,)), [pending("a", 0, 2)], 0)
    with pytest.raises(SeqPastEnd, match="offset 2 lies past the end of stream 'a', shard 0, which is 0"):
        state.judge(Commit(offsets=(offset,)), [pending("a", 0, 1), pending("a", 1, 9)], 0)


def test_a_name_that_is_not_there_is_answered_with_those_that_are_like_it() -> None:
    state = State()
    with pytest.raises(UnknownStream, match="there is no stream 'orders': the log's streams are none yet"):
        state.stream("orders")
    for name in ("orders", "clicks"):
        state.streams.set(name, StreamRow(0, Settings(), 0))
    with pytest.raises(UnknownStream, match="did you mean orders"):
        state.stream("order")
    with pytest.raises(UnknownStream, match="the log's streams are clicks, orders"):
        state.stream("xyz")
    with pytest.raises(ShardOutOfRange, match="'orders' has no shard 1"):
        state.shard("orders", 1)


def test_a_mark_never_goes_back_and_goes_with_its_writer() -> None:
    marks = marked({}, "w", 5)
    assert marks == {"w": 5}
    assert marked(marks, "w", 3) == {"w": 5}
    assert marked(marks, "v", -1) == {"w": 5, "v": -1}
    assert marked(marks, "w", None) == {}
    assert marked({}, "w", None) == {}


def test_histories_part_at_the_lowest_cut_since() -> None:
    state = State()
    state.cuts.set(1, CutRow({(0, 0): 10}))
    state.cuts.set(2, CutRow({(0, 0): 7}))
    state.cuts.set(3, CutRow({(0, 0): 9}))
    assert [state.shared_end((0, 0), history) for history in range(4)] == [7, 7, 9, None]
    assert state.shared_end((5, 0), 2) == 0


@given(st.binary(max_size=30))
def test_bytes_that_are_no_entries_are_refused(data: bytes) -> None:
    try:
        entries = decode_entries(data)
    except msgspec.DecodeError:
        return
    assert decode_entries(encode_entries(entries)) == entries


@given(st.sampled_from(sorted(State().tables)), st.binary(max_size=20), st.binary(max_size=20))
def test_bytes_that_are_no_row_are_refused(table: str, key: bytes, row: bytes) -> None:
    state = State()
    try:
        state.load(table, key, row)
    except msgspec.DecodeError:
        assert not any(state.tables.values())


def test_a_row_of_an_unknown_table_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError, match="no table 'secrets'"):
        State().apply(Changed(1, (("secrets", b"", None),)))
