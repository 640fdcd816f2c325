"""Marks of progress: ordered with the batches, kept for each writer, never newer than what was read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.log import Append, Commit, Limits, Log, Mark
from millstream.log.can import Can
from tests.contract.looking import rows
from tests.contract.stores import Store

pytestmark = pytest.mark.needs(Can.MARKS)


def mark(writer: str, progress: int | None, shard: int = 0) -> Mark:
    return Mark("orders", shard, writer, progress)


def marks_at(log: Log, from_seq: int, limits: Limits | None = None) -> dict[str, int | None]:
    return {seen.writer: seen.progress for seen in log.read("orders", 0, from_seq, limits or Limits()).marks}


def test_a_shard_that_nobody_marked_has_no_progress(log: Log) -> None:
    log.create("orders")
    log.append("orders", b"a")
    batch = log.read("orders", 0, 0)
    assert (batch.marks, batch.progress) == ((), None)


def test_marks_come_with_the_records_of_their_commit(log: Log) -> None:
    log.create("orders")
    log.commit(Commit(records=(Append("orders", 0, rows(b"a", b"b")),), marks=(mark("w", 5),)))
    batch = log.read("orders", 0, 0)
    assert (batch.marks, batch.progress) == ((mark("w", 5),), 5)


def test_marks_need_no_records(log: Log) -> None:
    log.create("orders", shards=2)
    log.commit(Commit(marks=(mark("w", -5), mark("w", 9, shard=1))))
    assert log.ends("orders") == [(0, 0), (0, 0)]
    assert log.read("orders", 0, 0).progress == -5
    assert log.read("orders", 1, 0).progress == 9


def test_progress_is_that_of_the_slowest_writer(log: Log) -> None:
    log.create("orders")
    log.commit(Commit(marks=(mark("v", 7), mark("w", 5))))
    assert log.read("orders", 0, 0).progress == 5
    log.commit(Commit(marks=(mark("w", 9),)))
    batch = log.read("orders", 0, 0)
    assert (batch.marks, batch.progress) == ((mark("v", 7), mark("w", 9)), 7)


def test_a_writer_that_has_left_holds_nobody_up(log: Log) -> None:
    log.create("orders")
    log.commit(Commit(marks=(mark("v", 7), mark("w", 5))))
    log.commit(Commit(marks=(mark("w", None),)))
    batch = log.read("orders", 0, 0)
    assert (batch.marks, batch.progress) == ((mark("v", 7),), 7)
    log.commit(Commit(marks=(mark("v", None), mark("nobody", None))))
    assert log.read("orders", 0, 0).progress is None
    log.commit(Commit(marks=(mark("w", 3),)))
    assert log.read("orders", 0, 0).progress == 3


def test_progress_does_not_go_back(log: Log) -> None:
    log.create("orders")
    log.commit(Commit(marks=(mark("w", 5),)))
    log.commit(Commit(marks=(mark("w", 3),)))
    assert log.read("orders", 0, 0).progress == 5


def test_a_reader_that_has_not_come_to_a_mark_does_not_see_it(log: Log) -> None:
    log.create("orders")
    log.commit(Commit(records=(Append("orders", 0, rows(b"a", b"b")),), marks=(mark("w", 1),)))
    log.commit(Commit(records=(Append("orders", 0, rows(b"c", b"d")),), marks=(mark("w", 2), mark("v", 9))))
    for from_seq, count, newest in [(0, 1, None), (0, 2, 1), (1, 2, 1), (2, 1, 1), (2, 2, 2), (3, 1, 2)]:
        batch = log.read("orders", 0, from_seq, Limits(records=count))
        seen = {known.writer: known.progress for known in batch.marks}
        assert batch.num_records == count
        assert seen.get("w", -1) <= (-1 if newest is None else newest)  # type: ignore[operator]
        assert ("v" in seen) <= (batch.next_seq == 4)
    assert marks_at(log, 0) == marks_at(log, 4) == {"v": 9, "w": 2}


steps = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from("vw"), st.integers(-3, 3) | st.none()),
    min_size=1,
    max_size=10,
)


@given(steps, st.integers(1, 5))
def test_a_mark_that_is_read_was_true_where_it_was_read(
    store: Store, written: list[tuple[int, str, int | None]], limit: int
) -> None:
    """Older marks are allowed, newer ones never; at the end the newest of all are known."""
    with store.new() as log:
        log.create("orders")
        known: dict[str, int] = {}
        states: list[tuple[int, dict[str, int]]] = [(0, {})]  # the marks from each end on
        end = 0
        for count, writer, progress in written:
            part = rows(*[b"x"] * count)
            log.commit(Commit(records=(Append("orders", 0, part),), marks=(mark(writer, progress),)))
            known = {name: seen for name, seen in known.items() if name != writer or progress is not None}
            if progress is not None:
                known[writer] = max(progress, known.get(writer, progress))
            end += count
            states.append((end, known))
        for from_seq in range(end + 1):
            batch = log.read("orders", 0, from_seq, Limits(records=limit))
            legal = [state for seq, state in states if seq <= batch.next_seq]
            assert {seen.writer: seen.progress for seen in batch.marks} in legal
        assert marks_at(log, end) == known
