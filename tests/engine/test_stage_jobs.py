"""A flow is cut into jobs at its own streams, and a job into levels at its regroupings."""

from __future__ import annotations

from millstream.engine.stage.job import Job, closings, jobs_of
from millstream.flow import Flow, dead_letter
from tests.engine.flows import counted, refusing
from tests.model.flows import appended, last


def levels(job: Job) -> dict[str, int]:
    """The level of each step, by label."""
    return {node.label: level for node, level in job.levels.items()}


def test_a_flow_without_groups_is_one_level() -> None:
    flow = Flow("plain")
    flow.source("a", value=str).map(last).sink("b")
    (job,) = jobs_of(flow.build())
    assert (job.name, job.depth, job.edges) == ("plain.b", 0, {})


def test_each_regrouping_is_a_level_and_a_group_by_the_same_key_is_none() -> None:
    flow = Flow("deep")
    folded = flow.source("a", key=str, value=str).group_by_key().fold("", appended)
    folded.group_by_key().count(name="same").sink("same")
    folded.group_by(last, key=str).count(name="other").sink("other")
    (job,) = jobs_of(flow.build())
    assert (job.depth, job.streams_at(1), job.streams_at(2)) == (2, ["same"], ["other"])
    assert sorted(edge.level for edge in job.edges.values()) == [1, 2]


def test_streams_of_its_own_cut_a_flow_and_shared_sources_join_it() -> None:
    flow = Flow("jobs")
    source = flow.source("a", key=str, value=str)
    source.map(last).sink("one")
    source.filter(last).sink("two")
    flow.stream("three", flow.source("b", value=str)).map(len).sink("four")
    assert [job.name for job in jobs_of(flow.build())] == ["jobs.one", "jobs.three", "jobs.four"]


def test_a_part_that_writes_nothing_is_no_job() -> None:
    flow = Flow("idle")
    flow.source("a", value=str).map(last)
    flow.source("b", value=str).sink("c")
    assert [job.name for job in jobs_of(flow.build())] == ["idle.c"]


def test_a_sink_after_a_merge_that_goes_two_ways_is_where_the_others_are() -> None:
    flow = Flow("ways")
    left, right = (flow.source(name, key=str, value=str) for name in "ab")
    both = flow.merge(left, right)
    both.sink("copy")
    left.sink("left")
    both.group_by_key().fold("", appended).sink("folded")
    (job,) = jobs_of(flow.build())
    assert (job.streams_at(0), job.streams_at(1)) == (["left"], ["copy", "folded"])


def test_a_sink_after_a_merge_that_goes_one_way_stays_where_it_is() -> None:
    flow = Flow("way")
    flow.merge(*(flow.source(name, key=str, value=str) for name in "ab")).sink("copy")
    (job,) = jobs_of(flow.build())
    assert (job.depth, job.streams_at(0)) == (0, ["copy"])


def test_no_two_levels_commit_under_one_name() -> None:
    flow = Flow("fences", on_error=dead_letter("dead"))
    folded = flow.source("a", key=str, value=str).map(refusing).group_by_key().fold("", appended)
    again = folded.group_by(last, key=str).transform(0, counted, name="two").group_by(last, key=str)
    again.transform(0, counted, name="three").sink("out")
    (job,) = jobs_of(flow.build())
    assert [job.streams_at(level) for level in range(4)] == [["dead"], ["dead"], ["dead"], ["dead", "out"]]
    assert len({job.fence(level, "0") for level in range(4)}) == 4


def test_a_level_that_may_read_values_late_writes_the_letters_of_their_source() -> None:
    flow = Flow("late")
    flow.source("a", key=str, value=str, on_error=dead_letter("dead")).group_by_key().fold("", appended).sink(
        "b"
    )
    (job,) = jobs_of(flow.build())
    assert "dead" in job.streams_at(1)


def test_an_aggregate_is_combined_before_it_travels_where_nothing_else_is_read() -> None:
    flow = Flow("combined")
    source = flow.source("a", key=str, value=str)
    source.group_by(last, key=str).count(name="alone").sink("alone")
    shared = source.group_by(len, key=int)
    shared.count(name="shared").sink("shared")
    shared.fold("", appended, name="folded").sink("folded")
    (job,) = jobs_of(flow.build())
    found = [job.combined(edge) for edge in job.edges.values()]
    assert [node.name for node in found if node is not None] == ["alone"]


def test_steps_are_closed_one_after_the_other_where_they_may_meet() -> None:
    flow = Flow("closing")
    source = flow.source("a", key=str, value=str)
    one = source.group_by_key().grouped(2, flush=True, name="one").map(str)
    one.group_by(last, key=str).grouped(2, flush=True, name="two").map(str).sink("b")
    kept = flow.stream("kept", one).group_by_key().grouped(2, flush=True, name="three").map(str)
    flow.merge(source, flow.stream("back", kept)).group_by_key().grouped(2, flush=True, name="four").sink("c")
    found = [(job.name, steps) for job, steps in closings(jobs_of(flow.build()))]
    assert found == [
        ("closing.b", ("one", "two")),
        ("closing.back", ("three",)),
        ("closing.b", ("four",)),
    ]
