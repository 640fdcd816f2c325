"""What order there is before anything puts records in one: shards, and streams read without their keys."""

from __future__ import annotations

from importlib import import_module

import pytest

from millstream.flow import Flow, dead_letter
from millstream.testing import In, Result, explore, replays, run, runs
from millstream.testing.machine import Machine
from tests.model.flows import appended, last, outputs_of, refusing


def folded(flow: Flow, *, bare: bool = False) -> Flow:
    source = flow.source("a", value=str) if bare else flow.source("a", key=str, value=str)
    source.group_by(len, key=int).fold("", appended).sink("out")
    return flow


def ends(flow: Flow, records: list[In]) -> list[str]:
    return sorted(result.values("out")[-1] for result in explore(flow, {"a": records}))


def test_a_shard_is_read_in_its_own_order_whatever_its_timestamps_are() -> None:
    flow = Flow("late")
    flow.source("a", key=str, value=str).group_by_key().fold("", appended).sink("out")
    records = [In("1", "k", timestamp=9), In("2", "k", timestamp=3), In("3", "k", timestamp=5)]
    assert run(flow, {"a": records}).values("out") == ["1", "12", "123"]
    assert [result.values("out")[-1] for result in explore(flow, {"a": records})] == ["123"]


def test_several_inputs_come_in_the_order_of_their_timestamps() -> None:
    flow = Flow("live")
    flow.merge(*(flow.source(name, key=str, value=str) for name in "ab")).group_by_key().fold(
        "", appended
    ).sink("out")
    inputs = {
        "a": [In("1", "k", timestamp=10), In("2", "k", timestamp=30)],
        "b": [In("x", "k", timestamp=20), In("y", "k", timestamp=5), In("z", "k", timestamp=40)],
    }
    assert run(flow, inputs).values("out")[-1] == "1xy2z"


def test_a_key_in_two_shards_has_any_order_that_keeps_each_shards() -> None:
    records = [In("1", "k"), In("2", "k"), In("a", "k", shard=1)]
    assert ends(folded(Flow("f")), records) == ["12a", "1a2", "a12"]
    assert ends(folded(Flow("f")), [record._replace(shard=0) for record in records]) == ["12a"]


def test_grouping_by_the_same_key_does_not_put_shards_in_order() -> None:
    flow = Flow("f")
    flow.source("a", key=str, value=str).group_by_key().fold("", appended).sink("out")
    assert ends(flow, [In("1", "k"), In("a", "k", shard=1)]) == ["1a", "a1"]


def test_what_is_written_without_grouping_has_any_order_of_its_shards() -> None:
    flow = Flow("f")
    flow.source("a", key=str, value=str).sink("out")
    found = [result.values("out") for result in explore(flow, {"a": [In("1", "k"), In("a", "k", shard=1)]})]
    assert sorted(found) == [["1", "a"], ["a", "1"]]


def test_keys_that_nobody_reads_do_not_tell_records_of_a_shard_apart() -> None:
    records = [In("1", "x"), In("2", "y"), In("3", "x")]
    assert ends(folded(Flow("f"), bare=True), records) == ["123"]


def test_shards_of_a_stream_without_keys_are_in_no_order() -> None:
    records = [In("1", "x"), In("a", "y", shard=1)]
    assert ends(folded(Flow("f"), bare=True), records) == ["1a", "a1"]


def read_again_bare() -> Flow:
    flow = Flow("again")
    flow.source("a", key=str, value=str).group_by(last).sink("kept", value=str)
    flow.source("kept", value=str).group_by(len, key=int).fold("", appended).sink("out")
    return flow


def test_an_own_stream_read_without_its_keys_has_any_order_between_them() -> None:
    records = [In("ax", "k"), In("by", "k"), In("cx", "k")]
    assert ends(read_again_bare(), records) == ["axbycx", "axcxby", "byaxcx"]
    for result in runs(read_again_bare(), {"a": records}, count=20):
        assert replays(read_again_bare(), {"a": records}, result.schedule, outputs_of(result))


def two_that_refuse() -> Flow:
    flow = Flow("refusing")
    source = flow.source("a", key=str, value=str)
    for name in ("one", "two"):
        source.group_by(last, key=str).map(refusing, on_error=dead_letter("dead")).sink(name)
    return flow


def letters(result: Result) -> list[str]:
    return [out.value.step + out.value.value for out in result.records("dead")]


def test_dead_letters_of_two_steps_come_together_in_any_order_that_keeps_each_steps() -> None:
    flow = two_that_refuse()
    inputs = {"a": [In("p1k", "x"), In("p2k", "x")]}
    found = list(explore(flow, inputs))
    assert len(found) == 6
    for result in found:
        assert letters(result).index("map refusingp1k") < letters(result).index("map refusingp2k")
        assert replays(flow, inputs, result.schedule, outputs_of(result))


def test_a_machine_that_takes_shards_for_one_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        import_module("millstream.testing.inputs"),
        "Machine",
        lambda graph, **settings: Machine(graph, **{**settings, "lanes": False}),
    )
    for check in (
        test_a_key_in_two_shards_has_any_order_that_keeps_each_shards,
        test_what_is_written_without_grouping_has_any_order_of_its_shards,
        test_an_own_stream_read_without_its_keys_has_any_order_between_them,
    ):
        with pytest.raises(AssertionError):
            check()
