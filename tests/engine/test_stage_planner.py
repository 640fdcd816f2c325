"""What an epoch reads: shards advance together, an epoch is bounded, and a plan that was made stays so."""

from __future__ import annotations

from pathlib import Path

import pytest

import millstream
from millstream.engine.stage.inputs import input_of
from millstream.engine.stage.job import Job, jobs_of
from millstream.engine.stage.pace import FIRST_RECORDS, Pace
from millstream.engine.stage.plan import Plan, decode_plan, encode_plan
from millstream.engine.stage.planlog import PlanLog
from millstream.engine.stage.planner import Planner
from millstream.errors import Damaged, Fenced
from millstream.flow import Flow
from millstream.log import Append, Commit, Log
from millstream.testing import ManualClock


def copied() -> Job:
    """A job that reads one stream."""
    flow = Flow("copied")
    flow.source("a", value=str).sink("b")
    return jobs_of(flow.build())[0]


def planner_of(job: Job, log: Log, pace: Pace | None = None) -> Planner:
    """Its planner, without bounds."""
    inputs = {name: input_of(nodes[0], log, whole=True) for name, nodes in job.sources.items()}
    return Planner(inputs, PlanLog(log, job.name), log.clock, run=1, flow="", pace=pace)


def written(log: Log, times: dict[int, list[int]]) -> None:
    """Records with these times, in each shard."""
    log.create("a", shards=len(times), exist_ok=True)
    for shard, each in times.items():
        log.commit(Commit((Append("a", shard, [(time, None, b"x", None) for time in each]),)))


def ends_of(plan: Plan | None) -> dict[int, int]:
    """How far a plan reads each shard."""
    assert plan is not None
    return {one.shard: one.end for one in plan.ranges}


def test_shards_advance_together_in_time() -> None:
    with millstream.open("memory:") as log:
        written(log, {0: list(range(100)), 1: list(range(0, 1_000, 10))})
        planner = planner_of(copied(), log, Pace(records_max=55))
        assert ends_of(planner.after(-1)) == {0: 50, 1: 5}
        assert ends_of(planner.after(0)) == {0: 100, 1: 10}
        assert ends_of(planner.after(1)) == {1: 65}


def test_an_epoch_is_bounded_where_all_times_are_the_same() -> None:
    with millstream.open("memory:") as log:
        written(log, dict.fromkeys(range(8), [7] * 100))
        planner = planner_of(copied(), log, Pace(records_max=20))
        epoch, done = -1, 0
        while (plan := planner.after(epoch)) is not None:
            size = sum(one.end - one.start for one in plan.ranges)
            assert 0 < size <= 20
            epoch, done = epoch + 1, done + size
        assert done == 800


def test_a_shard_that_is_late_does_not_hold_up_the_others() -> None:
    with millstream.open("memory:") as log:
        written(log, {0: [1_000, 5, 6], 1: [1, 2, 3]})
        plan = planner_of(copied(), log).after(-1)
        assert ends_of(plan) == {0: 3, 1: 3}
        assert plan is not None
        assert {one.shard: one.high for one in plan.positions} == {0: 1_000, 1: 3}


def test_a_plan_that_was_stored_is_given_again() -> None:
    with millstream.open("memory:") as log:
        written(log, {0: [1, 2]})
        first = planner_of(copied(), log).after(-1)
        written(log, {0: [3, 4]})
        again = planner_of(copied(), log)
        assert again.after(-1) == first
        assert ends_of(again.after(0)) == {0: 4}
        assert again.after(1) is None


def test_of_two_planners_the_older_one_is_refused() -> None:
    with millstream.open("memory:") as log:
        written(log, {0: [1]})
        older, newer = planner_of(copied(), log), planner_of(copied(), log)
        with pytest.raises(Fenced):
            older.after(-1)
        assert newer.after(-1) is not None


def test_what_an_epoch_reads_is_not_compacted_before_it_is_done_with() -> None:
    with millstream.open("memory:") as log:
        log.create("a", cleanup="compact")
        for _ in range(3):
            log.append("a", b"x", key=b"k")
        planner = planner_of(copied(), log)
        planner.after(-1)
        assert log.compact() == 0
        log.unpin(copied().name)
        assert log.compact() == 2


def test_time_does_not_go_back_from_plan_to_plan() -> None:
    clock = ManualClock(now_ms=10_000)
    with millstream.open("memory:", clock=clock) as log:
        written(log, {0: [1]})
        planner = planner_of(copied(), log)
        first = planner.after(-1)
        clock.set_back(5)
        written(log, {0: [2]})
        second = planner.after(0)
        assert first is not None
        assert second is not None
        assert second.clock == first.clock == 10_000


def test_a_plan_is_the_same_after_it_was_written_and_what_is_none_is_damage() -> None:
    plan = Plan(run=1, epoch=2, clock=3, flow="f", closes=("step",), kind="finish")
    assert decode_plan(encode_plan(plan)) == plan
    assert decode_plan(encode_plan(plan)).digest == plan.digest
    with pytest.raises(Damaged):
        decode_plan(encode_plan(plan)[:-1])


def test_the_pace_grows_with_what_was_done_and_is_small_near_the_end() -> None:
    pace = Pace(latency_ms=500)
    assert pace.fitting(100) == FIRST_RECORDS
    pace.done(1_000_000, 1.0)
    pace.seen(10_000_000, more=True)
    assert pace.fitting(100) == 4_000_000
    pace.seen(1_000, more=False)
    assert pace.fitting(100) == 1_000_000
    assert pace.fitting(1 << 20) == 512


def test_many_files_are_read_in_bounded_epochs(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / f"{number}.txt").write_text("line\n" * 30)
    flow = Flow("files")
    flow.from_file(str(tmp_path / "*.txt"), value=str).sink("b")
    job = jobs_of(flow.build())[0]
    with millstream.open("memory:") as log:
        planner = planner_of(job, log, Pace(records_max=25))
        epoch, done = -1, 0
        while (plan := planner.after(epoch)) is not None:
            size = sum(one.end - one.start for one in plan.ranges)
            assert 0 < size <= 25
            epoch, done = epoch + 1, done + size
        assert done == 300
