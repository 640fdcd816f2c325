"""A simulated cluster: a thousand runs, in each of which much goes wrong, and nothing is lost or doubled."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from random import Random

import pytest

import millstream
from millstream.testing import ManualClock
from millstream.testing.cluster import Cluster
from millstream.testing.cluster_search import Simulated, loading, outputs_of, search, simulate
from tests.engine.flows import CASES

SEED = int(os.environ.get("CLUSTER_SEED", "0")) or Random().randrange(1 << 30)
RUNS = 1_000
RUNS_LONG = 100_000

HAPPENED = (
    "crash before plan stored",
    "crash after plan stored",
    "crash after offset logged",
    "crash before a task",
    "crash before sink committed",
    "crash after sink committed",
    "crash before state committed",
    "crash after state committed",
    "crash after a task",
    "crash before epoch committed",
    "crash after epoch committed",
    "task fails before sink committed",
    "task fails after sink committed",
    "task fails at its end",
    "task twice at once",
    "zombie commits late",
    "zombie changed nothing",
    "commits lost",
    "offsets and commits lost",
    "state from the cache",
    "state from the store",
    "page moved to another worker",
    "stream compacted",
    "records arrived meanwhile",
    "time passes",
)

FIRED: Counter[str] = Counter()


def tried(name: str, runs: int) -> None:
    case = CASES[name]()
    seeds = range(SEED, SEED + runs)
    print(f"{name}: CLUSTER_SEED={SEED}")
    for later in (False, True):
        FIRED.update(
            search(case.flow, case.inputs, case.judge, seeds=seeds[later::2], faults=0.03, later=later)
        )


@pytest.mark.parametrize("name", CASES)
def test_whatever_goes_wrong_every_record_counts_once(name: str) -> None:
    tried(name, RUNS // len(CASES))


def test_each_kind_of_fault_has_happened() -> None:
    if not FIRED:
        for name in CASES:
            tried(name, 40)
    assert [kind for kind in HAPPENED if not FIRED[kind]] == []


@pytest.mark.long
@pytest.mark.timeout(20_000)
@pytest.mark.parametrize("name", CASES)
def test_whatever_goes_wrong_a_hundred_thousand_times(name: str) -> None:
    tried(name, RUNS_LONG // len(CASES))


def test_one_seed_is_one_run() -> None:
    case = CASES["regrouped"]()
    first, again = (simulate(case.flow, case.inputs, seed=5, faults=0.1) for _ in range(2))
    assert first.schedule
    assert (first.schedule, first.faults, first.outputs) == (again.schedule, again.faults, again.outputs)


@pytest.mark.parametrize("seed", range(3))
def test_a_log_in_files_serves_as_well(seed: int, tmp_path: Path) -> None:
    case = CASES["regrouped"]()
    graph = case.flow.build()
    with millstream.open(f"file:{tmp_path / 'log'}", clock=ManualClock()) as log:
        for commit in loading(graph, log, case.inputs):
            log.commit(commit)
        cluster = Cluster(graph, log, 3, seed=seed, faults=0.05)
        cluster.run()
        found = Simulated(outputs_of(graph, log), cluster.faults, cluster.schedule)
    assert cluster.schedule
    assert case.judge(found) is None


def test_clusters_of_one_flow_on_one_log_go_on_one_after_the_other() -> None:
    case = CASES["regrouped"]()
    graph = case.flow.build()
    with millstream.open("memory:", clock=ManualClock()) as log:
        commits = loading(graph, log, case.inputs)
        for commit in commits[:5]:
            log.commit(commit)
        cluster = Cluster(graph, log, 3, seed=1, faults=0.05)
        cluster.run()
        for commit in commits[5:]:
            log.commit(commit)
        cluster.run()
        assert case.judge(Simulated(outputs_of(graph, log), cluster.faults, cluster.schedule)) is None


def test_a_schedule_repeats_a_run() -> None:
    case = CASES["regrouped"]()
    first = simulate(case.flow, case.inputs, seed=5, faults=0.1)
    again = simulate(case.flow, case.inputs, seed=5, faults=first.schedule)
    assert (again.schedule, again.outputs) == (first.schedule, first.outputs)
