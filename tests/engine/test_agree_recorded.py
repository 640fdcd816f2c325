"""Larger runs: the order that the runtime recorded is replayed in the model, which judges every choice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millstream.flow import Flow
from millstream.testing import In, replays
from millstream.testing.cluster_search import simulate
from tests.engine.flows import letters
from tests.model.flows import appended, bracketed, last

RECORDS = 1_000


def merged(flow: Flow) -> None:
    """Two streams as one, folded by key, then by another key."""
    left, right = (flow.source(name, key=str, value=str) for name in "ab")
    both = flow.merge(left.map(bracketed), right)
    folded = both.group_by_key().fold("", tail, name="folded")
    folded.sink("folded")
    folded.group_by(last, key=str).fold("", tail, name="again").sink("again")


def aggregated(flow: Flow) -> None:
    """Updates of aggregates, coalesced, and counted under other keys."""
    left, right = (flow.source(name, key=str, value=str) for name in "ab")
    both = flow.merge(left=left, right=right).map(said)
    counts = both.group_by(last, key=str).count(name="counts")
    counts.sink("counts")
    counts.updates().map(str).group_by(last, key=str).count(name="counts of counts").sink("digits")


def regrouped(flow: Flow) -> None:
    """Three levels, and a merge of what comes from two of them."""
    source = flow.source("a", key=str, value=str)
    folded = source.group_by_key().fold("", tail, name="folded").group_by(last, key=str)
    direct = source.group_by(last, key=str).fold("", tail, name="direct")
    both = flow.merge(folded, direct).group_by_key().fold("", tail, name="both")
    both.sink("both")
    both.group_by(len, key=int).count(name="sizes").sink("sizes")
    flow.source("b", key=str, value=str).sink("copy")


def two_jobs(flow: Flow) -> None:
    """A stream of the flow's own between a grouping and a merge."""
    left, right = (flow.source(name, key=str, value=str) for name in "ab")
    kept = flow.stream("kept", left.group_by(last, key=str).fold("", tail, name="kept"))
    flow.merge(kept, right.group_by(last, key=str)).group_by_key().fold("", tail, name="all").sink("out")


def tail(state: str, value: str) -> str:
    """The last of all values, in their order."""
    return appended(state, value)[-6:]


def said(branch: object) -> str:
    """A branch as a text that ends with one of few letters."""
    return repr(branch).rstrip("')>")


def inputs_of(count: int) -> dict[str, list[In]]:
    """Two streams whose times go up and down."""
    left, right = letters(count), letters(count, 2)
    return {
        "a": [In(one.value, one.key, number * 3 % 50, one.shard) for number, one in enumerate(left)],
        "b": [In(one.value, one.key, number % 40, one.shard) for number, one in enumerate(right)],
    }


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("faults", [0.0, 0.03])
@pytest.mark.parametrize("made", [merged, aggregated, regrouped, two_jobs])
def test_the_order_that_was_recorded_is_legal(made: Callable[[Flow], None], faults: float, seed: int) -> None:
    flow = Flow("recorded")
    made(flow)
    inputs = inputs_of(RECORDS)
    found = simulate(flow, inputs, seed=seed, faults=faults, record=True)
    assert len(found.choices) > RECORDS
    verdict = replays(flow, inputs, found.choices, found.outputs)
    assert verdict, f"{verdict.why}\nseed={seed}, faults={found.schedule}"


def test_another_order_is_not_legal() -> None:
    flow = Flow("recorded")
    merged(flow)
    inputs = inputs_of(30)
    found = simulate(flow, inputs, record=True)
    assert replays(flow, inputs, found.choices, found.outputs)
    place = found.choices[0].node, found.choices[0].key
    mine = [choice for choice in found.choices if (choice.node, choice.key) == place]
    assert len({choice.took for choice in mine}) > 1
    others = [choice for choice in found.choices if (choice.node, choice.key) != place]
    assert not replays(flow, inputs, [*sorted(mine, key=lambda one: repr(one.took)), *others], found.outputs)
    assert not replays(flow, inputs, others, found.outputs)
