"""What one part of the model says is legal, the others accept; what is not, they refuse."""

from __future__ import annotations

from itertools import islice, permutations
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millstream.errors import WrongType
from millstream.flow import Flow
from millstream.testing import Answer, Choice, In, can_produce, explore, replays, run, runs
from millstream.testing.produce import Outputs
from tests.model.flows import appended, every_run, flows, frozen, merged_and_folded, outputs_of, trace, under

Case = tuple[Flow, dict[str, list[In]]]
TRIED = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])  # flows take a while to draw
MERGED = {"a": under("k", "12"), "b": under("k", "ab")}


def possible(flow: Flow, inputs: dict[str, list[In]], outputs: Outputs, *, finish: bool) -> bool:
    """Whether it is not found to be impossible; a few flows are too large to tell."""
    verdict = can_produce(flow, inputs, outputs, states_max=5_000, finish=finish)
    return verdict.answer is not Answer.NO


@given(flows(), st.booleans())
@TRIED
def test_every_run_that_is_explored_is_accepted_with_its_own_schedule(case: Case, finish: bool) -> None:
    flow, inputs = case
    for result in islice(explore(flow, inputs, finish=finish), 6):
        outputs = outputs_of(result)
        assert replays(flow, inputs, result.schedule, outputs, finish=finish)
        assert possible(flow, inputs, outputs, finish=finish)


@given(flows(), st.booleans(), st.integers(0, 99))
@TRIED
def test_every_random_walk_is_accepted_with_its_own_schedule(case: Case, finish: bool, seed: int) -> None:
    flow, inputs = case
    for result in runs(flow, inputs, seed=seed, count=2, finish=finish):
        outputs = outputs_of(result)
        assert replays(flow, inputs, result.schedule, outputs, finish=finish)
        assert possible(flow, inputs, outputs, finish=finish)


@given(flows(), st.booleans())
@TRIED
def test_the_one_ordering_of_run_can_be_produced(case: Case, finish: bool) -> None:
    flow, inputs = case
    assert possible(flow, inputs, outputs_of(run(flow, inputs, finish=finish)), finish=finish)


@given(flows(), st.booleans(), st.data())
@TRIED
def test_a_schedule_with_two_choices_swapped_gives_another_run_or_is_refused(
    case: Case, finish: bool, data: st.DataObject
) -> None:
    flow, inputs = case
    result = next(runs(flow, inputs, count=1, finish=finish))
    schedule = result.schedule
    places = [
        (first, second)
        for first, one in enumerate(schedule)
        for second, other in enumerate(schedule[first + 1 :], first + 1)
        if (one.node, one.key) == (other.node, other.key) and one.took != other.took
    ]
    if not places:
        return
    first, second = data.draw(st.sampled_from(places))
    swapped = list(schedule)
    swapped[first], swapped[second] = swapped[second], swapped[first]
    if replays(
        flow, inputs, swapped, outputs_of(result), finish=finish
    ):  # another order, and the same came out
        every = {trace(one): frozen(one) for one in islice(every_run(flow, inputs, finish=finish), 3_000)}
        result.schedule = swapped
        assert every.get(trace(result), frozen(result)) == frozen(result)


def test_swapping_any_two_choices_at_a_place_is_refused_where_order_shows() -> None:
    for result in explore(merged_and_folded(), MERGED):
        for first, second in ((0, 1), (1, 2), (2, 3), (0, 3)):
            swapped = list(result.schedule)
            swapped[first], swapped[second] = swapped[second], swapped[first]
            wanted = swapped == result.schedule
            assert bool(replays(merged_and_folded(), MERGED, swapped, outputs_of(result))) == wanted


@given(flows(), st.data())
@TRIED
def test_changed_outputs_are_refused(case: Case, data: st.DataObject) -> None:
    flow, inputs = case
    result = next(runs(flow, inputs, count=1))
    outputs = outputs_of(result)
    stream = data.draw(st.sampled_from(sorted(outputs)))
    place = data.draw(st.integers(0, len(outputs[stream])))
    if place < len(outputs[stream]):
        del outputs[stream][place]
    else:
        outputs[stream].append(("k", "invented"))
    changed = {stream: outputs[stream]}
    assert not replays(flow, inputs, result.schedule, changed)


def test_what_no_order_gives_cannot_be_produced() -> None:
    flow = merged_and_folded()
    possible = {result.values("out")[-1] for result in explore(flow, MERGED)}
    for letters in permutations("12ab"):
        text = "".join(letters)
        outputs = [("k", text[: size + 1]) for size in range(4)]
        assert bool(can_produce(flow, MERGED, {"out": outputs})) == (text in possible)


def test_too_few_and_too_many_outputs_cannot_be_produced() -> None:
    flow, good = merged_and_folded(), [("k", "1"), ("k", "12"), ("k", "12a"), ("k", "12ab")]
    assert can_produce(flow, MERGED, {"out": good})
    assert not can_produce(flow, MERGED, {"out": good[:-1]})
    assert not can_produce(flow, MERGED, {"out": [*good, ("k", "12ab")]})
    assert not can_produce(flow, MERGED, {"out": [*good, ("other", "x")]})
    assert not can_produce(flow, MERGED, {"out": []})


def test_a_yes_comes_with_the_choices_that_lead_there() -> None:
    flow, good = merged_and_folded(), [("k", "a"), ("k", "a1"), ("k", "a1b"), ("k", "a1b2")]
    verdict = can_produce(flow, MERGED, {"out": good})
    assert replays(flow, MERGED, verdict.schedule, {"out": good})


def test_giving_up_is_no_answer() -> None:
    verdict = can_produce(merged_and_folded(), MERGED, {"out": [("k", "a"), ("k", "ab")]}, states_max=1)
    assert (verdict.answer, verdict.states) == (Answer.GAVE_UP, 1)
    with pytest.raises(WrongType, match="gave up after 1 states"):
        bool(verdict)


def test_many_keys_are_searched_one_after_the_other() -> None:
    inputs = {name: [record for key in "uvwxyz" for record in under(key, name)] for name in ("a", "b")}
    outputs = [(key, value) for key in "uvwxyz" for value in ("b", "ba")]
    verdict = can_produce(merged_and_folded(), inputs, {"out": outputs})
    assert verdict
    assert verdict.states < 60


def test_values_that_only_look_alike_are_told_apart() -> None:
    flow = Flow("alike")
    sources = [flow.source(name, key=str, value=dict[str, str]) for name in ("a", "b")]
    hidden = flow.merge(*(one.map(Hidden, value=Hidden) for one in sources))
    later = flow.merge(hidden, flow.source("c", key=str, value=str).map(Hidden, value=Hidden))
    later.map(lambda one: str(one.secret), value=str).group_by_key().fold("", appended).sink("out")
    inputs = {"a": [("k", {"n": "1"})], "b": [("k", {"n": "2"})], "c": [("k", "c")]}
    for result in explore(flow, inputs):
        assert can_produce(flow, inputs, outputs_of(result))


class Hidden:
    """A value whose repr says nothing."""

    def __init__(self, secret: object) -> None:
        self.secret = secret

    def __repr__(self) -> str:
        return "Hidden()"


@pytest.mark.parametrize("missing", [0, 3])
def test_a_schedule_that_leaves_a_choice_out_is_refused(missing: int) -> None:
    result = next(iter(explore(merged_and_folded(), MERGED)))
    del result.schedule[missing]
    found = replays(merged_and_folded(), MERGED, result.schedule, outputs_of(result))
    assert not found
    assert "was there, and was not taken" in found.why


def test_a_schedule_that_takes_what_never_came_is_refused() -> None:
    result = next(iter(explore(merged_and_folded(), MERGED)))
    more = [*result.schedule, result.schedule[0]]
    found = replays(merged_and_folded(), MERGED, more, outputs_of(result))
    assert "was taken, and nothing came that way" in found.why
    stray = [*result.schedule, Choice(99, b"k", 0)]
    assert "a node 99, which there is not" in replays(merged_and_folded(), MERGED, stray, {}).why


def test_a_run_is_closed_only_when_nothing_waits() -> None:
    flow = Flow("closing")
    pairs = flow.source("a", key=str, value=str).group_by_key().grouped(2, flush=True)
    merged = flow.merge(pairs.map("".join, value=str), flow.source("b", key=str, value=str).group_by_key())
    merged.fold("", appended).sink("out")
    inputs = {"a": under("k", "1"), "b": under("k", "x")}
    (legal,) = explore(flow, inputs, finish=True)
    assert legal.values("out") == ["x", "x1"]
    early = legal.schedule[::-1]
    found = replays(flow, inputs, early, {"out": [("k", "1"), ("k", "1x")]}, finish=True)
    assert not found
    assert not can_produce(flow, inputs, {"out": [("k", "1"), ("k", "1x")]}, finish=True)


def test_the_records_of_a_run_are_outputs() -> None:
    flow, inputs = merged_and_folded(), {"a": [("k", "1")], "b": [("k", "2")]}
    for result in explore(flow, inputs):
        outputs = {"out": result.records("out")}
        assert can_produce(flow, inputs, outputs)
        assert replays(flow, inputs, result.schedule, outputs)


@pytest.mark.parametrize("wrong", [{"k": ["1"]}, "k", 5, [("k",)], [5], ["ab"]])
def test_outputs_of_another_form_are_refused(wrong: Any) -> None:  # noqa: ANN401 - it is the mistake
    with pytest.raises(WrongType, match="expected a"):
        can_produce(merged_and_folded(), {}, {"out": wrong})
    with pytest.raises(WrongType, match="expected a"):
        replays(merged_and_folded(), {}, [], {"out": wrong})


def test_a_stream_that_is_not_written_is_refused_by_name() -> None:
    with pytest.raises(WrongType, match=r"does not write 'typo': it writes 'out'"):
        can_produce(merged_and_folded(), MERGED, {"typo": []})


def test_a_long_recorded_run_is_replayed_in_a_moment() -> None:
    flow = merged_and_folded()
    inputs = {name: [(f"k{i % 500}", name) for i in range(2_000)] for name in ("a", "b")}
    (result,) = runs(flow, inputs, seed=3, count=1)
    assert replays(flow, inputs, result.schedule, outputs_of(result))
