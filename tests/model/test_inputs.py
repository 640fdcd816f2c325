"""Inputs: plain lists, tables in text, records of every kind of source, and bytes that cannot be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from millstream.errors import StepFailed, WrongType
from millstream.flow import Flow, dead_letter
from millstream.testing import In, Poison, explore, run
from tests.model.flows import appended


@dataclass(frozen=True)
class Order:
    """What is ordered."""

    item: str
    cents: int
    tags: list[str] | None = None


def orders() -> Flow:
    flow = Flow("orders")
    flow.source("orders", key=str, value=Order).sink("out")
    return flow


def test_a_table_in_text_has_a_column_for_each_field() -> None:
    text = """
        | key | timestamp | item | cents | tags           |
        |-----|-----------|------|-------|----------------|
        | ann |        40 | figs |    30 | ["new", "hot"] |
        | bob |        50 | nuts |     5 |                |
    """
    found = run(orders(), {"orders": text}).records("out")
    assert [(out.key, out.value, out.timestamp) for out in found] == [
        ("ann", Order("figs", 30, ["new", "hot"]), 40),
        ("bob", Order("nuts", 5), 50),
    ]


def test_a_table_of_plain_values_has_a_column_value() -> None:
    flow = Flow("plain")
    flow.source("a", key=int, value=int).sink("out")
    assert run(flow, {"a": "key | value\n 1 | 20\n 2 | 30"}).per_key("out") == {1: [20], 2: [30]}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("key | prise\nann | 3", "the column 'prise' is no field of Order: it has item, cents, tags"),
        ("key | item | cents\nann | figs", "expected 3 columns, key | item | cents"),
        ("key | item | cents\nann | figs | many", "is no Order"),
        ("item | cents\nfigs | 3", "this source has keys; expected a column 'key'"),
    ],
)
def test_a_table_that_is_wrong_says_where(text: str, what: str) -> None:
    with pytest.raises(WrongType) as caught:
        run(orders(), {"orders": text})
    assert what in str(caught.value)


def test_cells_at_the_edges_of_a_table_may_be_empty() -> None:
    texts = [
        "tags | key | cents | item\n | ann | 3 | figs",
        "key | cents | item | tags\nann | 3 | figs | ",
        "| tags | key | cents | item |\n|------|-----|-------|------|\n|| ann | 3 | figs |",
    ]
    assert [run(orders(), {"orders": text}).values("out") for text in texts] == [[Order("figs", 3)]] * 3


def test_rows_of_signs_are_no_rules() -> None:
    flow = Flow("signs")
    flow.source("a", value=str).sink("out")
    assert run(flow, {"a": "value\n-----\n+\n-\n--"}).values("out") == ["+", "-", "--"]


def test_inputs_without_the_names_of_sources_are_refused() -> None:
    inputs: Any = [("ann", Order("figs", 3))]
    with pytest.raises(WrongType, match="expected a dict"):
        run(orders(), inputs)


@pytest.mark.parametrize("times", ["35s", [(0, 10_000)]])
def test_times_of_a_clock_that_are_none_are_refused(times: object) -> None:
    flow = Flow("clock")
    flow.clock(every="10s").sink("out")
    with pytest.raises(WrongType, match="expected how many ticks, or their times in ms"):
        run(flow, {"clock": times})


def test_an_input_that_the_flow_does_not_read_is_refused_by_name() -> None:
    with pytest.raises(WrongType, match="does not read 'order' from outside: it reads 'orders'"):
        run(orders(), {"order": []})


@pytest.mark.parametrize("wrong", [[1], ["ann"], 7, [("ann", 1, 2)]])
def test_an_input_of_another_form_is_refused(wrong: object) -> None:
    with pytest.raises(WrongType, match=r"expected"):
        run(orders(), {"orders": wrong})


def test_a_value_that_cannot_be_written_names_the_input_and_its_place() -> None:
    flow = Flow("text")
    flow.source("a", key=str, value=str).sink("out")
    with pytest.raises(WrongType, match=r"the input 'a', shard 0, seq 1: 5 is int; expected str"):
        run(flow, {"a": [("k", "fine"), ("k", 5)]})


def test_bytes_that_cannot_be_read_fail_at_the_source_and_say_which_record() -> None:
    with pytest.raises(StepFailed) as caught:
        run(orders(), {"orders": [("ann", Order("figs", 1)), ("ann", Poison(b"{"))]})
    assert "the step 'orders' (" in str(caught.value)
    assert "stream 'orders', shard 0, seq 1, key 'ann'" in str(caught.value)


def test_bytes_that_cannot_be_read_are_skipped_or_go_to_the_dead_letters() -> None:
    flow = Flow("careful")
    flow.source("orders", key=str, value=Order, on_error="skip").sink("out")
    inputs = {"orders": [("ann", Poison(b"{")), ("ann", Order("figs", 1))]}
    found = run(flow, inputs)
    assert (found.values("out"), found.skipped) == ([Order("figs", 1)], {"orders": 1})
    flow = Flow("careful")
    flow.source("orders", key=str, value=Order, on_error=dead_letter("dead")).sink("out")
    (letter,) = run(flow, inputs).records("dead")
    assert (letter.key, letter.value.stream, letter.value.seq) == ("ann", "orders", 0)


def test_a_key_that_cannot_be_read_is_told_in_the_same_way() -> None:
    flow = Flow("keys")
    flow.source("a", key=int, value=int, on_error=dead_letter("dead")).sink("out")
    found = run(flow, {"a": [In(1, Poison(b"one")), In(2, 2)]})
    assert found.per_key("out") == {2: [2]}
    assert "is no int in 'json'" in found.values("dead")[0].error
    assert found.records("dead")[0].key == b"one"


def test_keys_come_as_their_codec_has_them() -> None:
    flow = Flow("keys")
    flow.source("a", key=tuple[str, int], value=int, key_codec="msgpack").with_key().group_by_key().grouped(
        2, flush=True
    ).sink("out")
    found = run(flow, {"a": [(("x", 1), 5)]}, finish=True)
    assert found.per_key("out") == {("x", 1): [[(("x", 1), 5)]]}


def test_keys_written_by_different_codecs_meet() -> None:
    flow = Flow("meet")
    left = flow.source("a", key=int, value=str, key_codec="msgpack")
    flow.merge(left, flow.source("b", key=int, value=str)).group_by_key().fold("", appended).sink("out")
    assert run(flow, {"a": [(1, "x")], "b": [(1, "y")]}).per_key("out") == {1: ["x", "xy"]}


def test_generated_values_are_a_function_of_their_index() -> None:
    flow = Flow("squares")
    flow.generate("squares", lambda index: index * index, value=int).sink("out")
    assert run(flow, {"squares": 4}).values("out") == [0, 1, 4, 9]
    with pytest.raises(WrongType, match=r"generates values for ever: say how many, as in \{'squares': 100\}"):
        run(flow, {})


def test_a_generator_with_an_end_needs_no_input() -> None:
    flow = Flow("squares")
    flow.generate("squares", lambda index: index * index, count=3, value=int).sink("out")
    assert run(flow, {}).values("out") == [0, 1, 4]


def test_a_clock_ticks_as_often_as_it_is_told_on_each_of_its_shards() -> None:
    flow = Flow("clock")
    flow.clock(every="10s", shards=2).sink("out")
    assert run(flow, {"clock": 2}).per_key("out") == {0: [10_000, 20_000], 1: [10_000, 20_000]}
    assert run(flow, {"clock": [10_000, 40_000]}).per_key("out") == {0: [10_000, 40_000], 1: [10_000, 40_000]}


def test_a_file_gives_its_lines() -> None:
    flow = Flow("lines")
    flow.from_file("*.log", value=str).filter(lambda line: "E" in line).sink("out")
    assert run(flow, {"*.log": ["ok", "E1", "E2"]}).values("out") == ["E1", "E2"]


def test_lines_that_are_not_text_are_json() -> None:
    flow = Flow("lines")
    flow.from_file("*.jsonl", value=Order).map(msgspec.to_builtins, value=dict[str, object]).sink("out")
    found = run(flow, {"*.jsonl": [Order("figs", 3), Poison(b'{"item": "nuts", "cents": 4}')]})
    assert [value["cents"] for value in found.values("out")] == [3, 4]


def test_lists_and_text_and_records_say_the_same() -> None:
    flow = Flow("same")
    flow.source("a", key=str, value=int).sink("out")
    ways = [
        "key | value\nk | 1\nk | 2",
        [("k", 1), ("k", 2)],
        [In(1, "k"), In(2, "k")],
        iter([("k", 1), ("k", 2)]),
    ]
    assert [run(flow, {"a": way}).values("out") for way in ways] == [[1, 2]] * 4
    assert len(list(explore(flow, {"a": ways[0]}))) == 1
