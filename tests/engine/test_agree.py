"""Random flows on a simulated cluster, whole and failing: what comes of them, the model can produce."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import millstream
from millstream.errors import InvalidFlow
from millstream.flow import Flow, Grouped
from millstream.testing import Answer, In, ManualClock, can_produce
from millstream.testing.cluster import Cluster
from millstream.testing.cluster_search import outputs_of, simulate
from millstream.testing.inputs import Inputs
from tests.engine.random_flows import flows, text
from tests.model.flows import appended, last

STATES_MAX = 20_000
SIZED = settings(deadline=None, suppress_health_check=list(HealthCheck), database=None, print_blob=True)


def agrees(flow: Flow, inputs: Inputs, seed: int, faults: float) -> None:
    try:
        graph = flow.build()
    except InvalidFlow:
        assume(False)
    found = simulate(graph, inputs, pages=2, seed=seed, faults=faults, finish=True)
    verdict = can_produce(graph, inputs, found.outputs, finish=True, states_max=STATES_MAX)
    run = f"inputs={inputs}\nseed={seed}, faults={found.schedule}"
    assert verdict.answer is not Answer.NO, f"{flow.describe()}\n{run}\n{found.outputs}"


@settings(SIZED, max_examples=120)
@given(flows())
def test_what_a_cluster_makes_of_a_flow_is_legal(case: tuple[Flow, dict[str, list[In]]]) -> None:
    agrees(*case, seed=0, faults=0)


@settings(SIZED, max_examples=120)
@given(flows(), st.integers(0, 1 << 30))
def test_it_is_legal_whatever_goes_wrong(case: tuple[Flow, dict[str, list[In]]], seed: int) -> None:
    agrees(*case, seed=seed, faults=0.04)


@pytest.mark.long
@pytest.mark.timeout(7_200)
@settings(SIZED, max_examples=int(os.environ.get("AGREE_FLOWS", "10000")))
@given(flows(steps_max=5, rows_max=6), st.integers(0, 1 << 30), st.sampled_from([0.0, 0.04]))
def test_many_flows_are_legal(case: tuple[Flow, dict[str, list[In]]], seed: int, faults: float) -> None:
    agrees(*case, seed=seed, faults=faults)


def letter(number: int) -> str:
    """A text for a number."""
    return "pqr"[number % 3] * (1 + number % 2)


def joined_with_another(flow: Flow, given: Grouped[str, str]) -> None:
    """A flow's end: folded with the records of a stream."""
    other = flow.source("a", key=str, value=str)
    flow.merge(given, other.group_by_key()).group_by_key().fold("", appended, name="all").sink("out")


@pytest.mark.parametrize("seed", range(8))
def test_generated_values_are_merged_with_others(seed: int) -> None:
    flow = Flow("generated")
    joined_with_another(flow, flow.generate("numbers", letter, count=4).group_by(last, key=str))
    agrees(flow, {"a": [In("x", "p"), In("y", "q")], "numbers": 4}, seed, 0.05)


@pytest.mark.parametrize("seed", range(8))
def test_lines_of_files_are_merged_with_others(seed: int, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("pp\nq\n")
    (tmp_path / "two.txt").write_text("p\nrq")  # a last line without an end is one
    pattern = str(tmp_path / "*.txt")
    flow = Flow("files")
    joined_with_another(flow, flow.from_file(pattern, value=str).group_by(last, key=str))
    lines = [In("pp", shard=0), In("q", shard=0), In("p", shard=1), In("rq", shard=1)]
    agrees(flow, {"a": [In("x", "p"), In("y", "q")], pattern: lines}, seed, 0.05)


@pytest.mark.parametrize("seed", range(8))
def test_steps_are_closed_from_the_top_down_over_several_jobs(seed: int) -> None:
    flow = Flow("closing")
    source = flow.source("a", key=str, value=str)
    first = source.group_by_key().grouped(2, flush=True, name="first").map(text)
    second = flow.stream("one", first).group_by_key().grouped(2, flush=True, name="second").map(text)
    both = flow.merge(source, flow.stream("two", second))
    both.group_by_key().grouped(2, flush=True, name="third").map(text).sink("out")
    agrees(flow, {"a": [In(value, "k") for value in "pqr"]}, seed, 0.05)


@pytest.mark.parametrize("every_tick", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_ticks_come_once_each(seed: int, every_tick: bool) -> None:
    flow = Flow("ticks")
    ticks = flow.clock("clock", every="2s", shards=2, every_tick=every_tick)
    ticks.group_by_key().map(text).fold("", appended, name="all").sink("out")
    with millstream.open("memory:", clock=ManualClock(now_ms=1_000_000)) as log:
        cluster = Cluster(flow, log, 2, seed=seed, faults=0.04)
        cluster.run(seconds=20)
        found = outputs_of(flow.build(), log)["out"]
    newest = {out.key: out.value for out in found}
    times = {
        key: [int(value[at : at + 7]) for at in range(0, len(value), 7)] for key, value in newest.items()
    }
    assert set(times) == {0, 1}
    for each in times.values():
        assert each == sorted(set(each))
        assert each[-1] <= log.clock.now_ms()
        if every_tick:
            assert each == list(range(each[0], each[-1] + 1, 2_000))
