"""Protections taken away, one at a time: the simulated cluster must notice each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import pytest

from millstream.engine.stage import receiving, state, task, writing
from millstream.engine.stage.planlog import PlanLog
from millstream.engine.stage.turn import Turn
from millstream.errors import Damaged, Fenced
from millstream.log import state as log_state
from millstream.log.commit import Fence, FenceState
from millstream.log.log import Log
from millstream.testing.cluster_query import Query
from millstream.testing.cluster_search import search
from tests.engine.flows import CASES

SEEDS = 200  # enough for each; most are noticed by the first few
REFUSALS = (Damaged, Fenced)  # a run that ends in words is none that goes wrong
Patch = pytest.MonkeyPatch


def without_fences(patch: Patch) -> None:
    """Whatever comes is written."""

    def commit(log: Log, *given: Any) -> bool:
        return committed(cast(Log, Open(log)), *given)

    committed = writing.commit_once
    patch.setattr(task, "commit_once", commit)
    patch.setattr(log_state, "judge_fence", lambda *_: True)


class Open:
    """A log that knows of no fences."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - all that the log has
        return getattr(self._log, name)

    def fence(self, name: str) -> None:
        del name


def without_plans(patch: Patch) -> None:
    """Of epochs that Spark knows nothing of any more, the plans are lost too: they are planned anew."""

    def plan_with(self: Query, *given: Any, **named: Any) -> None:
        planned(self, *given, **named)
        plans, newest = self._plans._plans, max(self.kept.offsets, default=-1)
        for epoch in [one for one in plans if one > newest]:
            del plans[epoch]

    planned = Query.plan_with
    patch.setattr(Query, "plan_with", plan_with)


def without_digests(patch: Patch) -> None:
    """An epoch counts as done by its number alone, whatever its plan was."""

    def judge(fence: Fence, known: FenceState | None) -> bool:
        return known is None or fence.number > known.number

    without_plans(patch)
    patch.setattr(writing, "_judge_again", lambda *_: None)
    patch.setattr(log_state, "judge_fence", judge)


def without_order(patch: Patch) -> None:
    """Parcels stay as they came."""
    patch.setattr(receiving, "_order", lambda *_: 0)
    patch.setattr(receiving, "_places", lambda *_: None)


def with_a_clock_of_its_own(patch: Patch) -> None:
    """Each task looks at the clock itself."""

    def turn(*given: Any, now: int, **named: Any) -> Any:  # noqa: ANN401 - as above
        ticks.append(now)
        return made(*given, now=now + len(ticks), **named)

    ticks: list[int] = []
    made = Turn
    patch.setattr(task, "Turn", turn)


def with_any_version(patch: Patch) -> None:
    """What a worker remembers of a page is used, whatever became of the page since."""

    def take(self: state.Cache, page: Any, version: int) -> dict[int, bytes]:  # noqa: ANN401 - as above
        known = self._pages.get(page)
        return taken(self, page, version if known is None else known[0])

    taken = state.Cache.take
    patch.setattr(state.Cache, "take", take)


def without_pins(patch: Patch) -> None:
    """What an epoch in flight reads may be compacted."""

    def pin(self: PlanLog, seqs: Mapping[Any, int]) -> None:
        del self, seqs

    patch.setattr(PlanLog, "pin", pin)


CANARIES: dict[str, tuple[Callable[[Patch], None], Iterable[str]]] = {
    "no fence": (without_fences, ["regrouped"]),
    "no digest": (without_digests, ["regrouped"]),
    "unsorted parcels": (without_order, ["regrouped"]),
    "clock read twice": (with_a_clock_of_its_own, ["stamps"]),
    "cache not checked": (with_any_version, ["regrouped"]),
    "no pins": (without_pins, ["regrouped"]),
}


@pytest.mark.parametrize("name", CANARIES)
def test_a_protection_that_is_taken_away_is_missed(name: str, monkeypatch: Patch) -> None:
    take_away, cases = CANARIES[name]
    take_away(monkeypatch)
    for case in (CASES[each]() for each in cases):
        with pytest.raises(AssertionError, match="found = simulate"):
            search(case.flow, case.inputs, case.judge, seeds=range(SEEDS), faults=0.03, refusals=REFUSALS)


def test_a_plan_that_is_not_the_one_that_was_done_is_refused(monkeypatch: Patch) -> None:
    """With the plans lost and digests compared it is an error, and no loss."""
    without_plans(monkeypatch)
    case = CASES["regrouped"]()
    found = search(case.flow, case.inputs, case.judge, seeds=range(60), faults=0.03, refusals=REFUSALS)
    assert found["refused"] > 0


def test_the_faults_of_a_run_that_fails_are_made_few(monkeypatch: Patch) -> None:
    without_fences(monkeypatch)
    case = CASES["regrouped"]()
    with pytest.raises(AssertionError) as error:
        search(case.flow, case.inputs, case.judge, seeds=range(SEEDS), faults=0.05)
    faults = str(error.value).split("faults = {\n")[1].split("}")[0]
    assert 1 <= faults.count("\n") <= 2
