"""Steps without state, merges, groups, own streams, cycles, and batches in Arrow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from millstream.errors import InvalidFlow, StepFailed
from millstream.flow import Branch, Flow, Grouped, Stream
from millstream.testing import In, explore, run


def out_of(build: Callable[[Stream[str, Any]], Stream[Any, Any]], records: list[Any]) -> dict[Any, list[Any]]:
    flow = Flow("f")
    build(flow.source("in", key=str, value=Any)).sink("out")
    return run(flow, {"in": records}).per_key("out")


RECORDS = [("a", 1), ("b", 2), ("a", 3)]


def test_with_key_pairs_each_value_with_its_key() -> None:
    assert out_of(lambda s: s.with_key(), RECORDS) == {"a": [("a", 1), ("a", 3)], "b": [("b", 2)]}


def test_collect_leaves_none_out_and_keeps_what_is_only_falsy() -> None:
    assert out_of(lambda s: s.collect(lambda v: None if v == 2 else v - 1), RECORDS) == {"a": [0, 2]}


def test_flatten_and_flat_map_keep_the_order() -> None:
    assert out_of(lambda s: s.flat_map(lambda v: [v] * v), RECORDS) == {"a": [1, 3, 3, 3], "b": [2, 2]}
    assert out_of(lambda s: s.flatten(), [("a", [1, None]), ("a", []), ("a", [2])]) == {"a": [1, None, 2]}


def test_none_goes_through_steps_as_any_other_value() -> None:
    records = [("a", None), ("a", 1)]
    assert out_of(lambda s: s.map(repr), records) == {"a": ["None", "1"]}
    assert out_of(lambda s: s.filter(lambda v: v is None), records) == {"a": [None]}
    assert out_of(lambda s: s.with_key(), records) == {"a": [("a", None), ("a", 1)]}
    assert out_of(lambda s: s.group_by(lambda v: v is None), records) == {True: [None], False: [1]}


def test_a_merge_with_names_says_by_which_branch_a_value_came() -> None:
    flow = Flow("names")
    left, right = flow.source("left", key=str, value=int), flow.source("right", key=str, value=str)
    flow.merge(left=left, right=right).sink("out")
    found = run(flow, {"left": [("k", 1)], "right": [("k", "x")]})
    assert found.values("out") == [Branch("left", 1), Branch("right", "x")]


def test_a_merge_of_what_is_grouped_is_grouped() -> None:
    flow = Flow("grouped")
    one, two = (flow.source(name, key=str, value=int).group_by_key() for name in ("one", "two"))
    flow.merge(one, two).sum().sink("out")
    assert run(flow, {"one": [("k", 1)], "two": [("k", 2)]}).table("out") == {"k": 3}


def test_keys_that_would_never_meet_are_refused_before_anything_runs() -> None:
    flow = Flow("keys")
    source = flow.source("in", key=str, value=str)
    flow.merge(source, source.group_by(lambda value: value)).sink("out")
    with pytest.raises(InvalidFlow, match=r"whose keys are str and anything: .* key= says their type"):
        flow.build()


def test_what_is_written_in_one_form_is_not_read_in_another() -> None:
    flow = Flow("forms")
    cycle = flow.cycle("again", key=str, value=str)
    merged = flow.merge(flow.source("in", key=str, value=str), cycle)
    merged.map(lambda value: value[1:]).filter(bool).sink("again", value_codec="json")
    with pytest.raises(InvalidFlow, match=r"values of the stream 'again' \(str\) are written as 'json' here"):
        flow.build()


def test_a_function_gives_the_key_and_its_type_may_be_said() -> None:
    assert out_of(lambda s: s.group_by(lambda v: v % 2, key=int), RECORDS) == {1: [1, 3], 0: [2]}
    assert out_of(lambda s: s.group_by(lambda v: (v, "x"), key=tuple[int, str]), RECORDS[:1]) == {
        (1, "x"): [1]
    }
    assert out_of(lambda s: s.group_by(lambda _: None), RECORDS) == {None: [1, 2, 3]}


def test_steps_see_keys_as_they_come_back_from_their_bytes() -> None:
    assert out_of(lambda s: s.group_by(lambda v: (v, "x")).with_key(), RECORDS[:1]) == {
        (1, "x"): [([1, "x"], 1)]
    }
    typed = out_of(lambda s: s.group_by(lambda v: (v, "x"), key=tuple[int, str]).with_key(), RECORDS[:1])
    assert typed == {(1, "x"): [((1, "x"), 1)]}


def test_a_stream_of_the_flows_own_is_written_and_read_again() -> None:
    flow = Flow("own")
    kept = flow.stream("kept", flow.source("in", key=str, value=int).map(abs))
    kept.map(str).sink("out")
    found = run(flow, {"in": [("k", -1), ("k", 2)]})
    assert (found.values("kept"), found.values("out")) == ([1, 2], ["1", "2"])


def test_a_value_that_an_own_stream_would_change_is_refused() -> None:
    flow = Flow("own")
    flow.stream("kept", flow.source("in", key=str, value=int).map(lambda v: (v, v))).sink("out")
    with pytest.raises(
        StepFailed, match=r"the step 'kept' .*\(1, 1\) would come back as \[1, 1\]: say its type"
    ):
        run(flow, {"in": [("k", 1)]})


def test_a_cycle_finds_the_shortest_ways() -> None:
    flow = Flow("ways")
    edges: Grouped[str, Any] = flow.source("edges", key=str, value=tuple[str, int]).group_by_key()
    found = flow.cycle("found", key=str, value=int)
    merged = flow.merge(
        edge=edges, way=flow.merge(flow.source("start", key=str, value=int), found).group_by_key()
    )
    further = merged.transform(
        ([], None), relax, state=tuple[list[tuple[str, int]], int | None], value=tuple[str, int]
    )
    flow.stream("found", further.group_by(lambda way: way[0], key=str).map(lambda way: way[1], value=int))
    graph = {
        "edges": [("a", ("b", 7)), ("a", ("c", 2)), ("c", ("b", 3)), ("b", ("a", 1))],
        "start": [("a", 0)],
    }
    ends = {repr(sorted(shortest(one.per_key("found")).items())) for one in explore(flow, graph, limit=300)}
    assert ends == {"[('b', 5), ('c', 2)]"}


def shortest(ways: dict[Any, list[Any]]) -> dict[Any, Any]:
    return {key: min(values) for key, values in ways.items() if key != "a"}


def relax(state: Any, branch: Branch) -> tuple[Any, list[tuple[str, int]]]:  # noqa: ANN401
    edges, best = state
    if branch.name == "edge":
        to, far = branch.value
        return ([*edges, (to, far)], best), [] if best is None else [(to, best + far)]
    if best is not None and branch.value >= best:
        return state, []
    return (edges, branch.value), [(to, branch.value + far) for to, far in edges]


# -- batches


class OnlyAStream:
    """Something that speaks nothing but Arrow's interchange."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


class OnlyAnArray(OnlyAStream):
    """A batch that speaks nothing but Arrow's interchange."""

    __arrow_c_stream__ = None  # type: ignore[assignment]


def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.set_column(2, "value", pc.multiply(batch.column("value"), 2))


def batches(function: Callable[[Any], Any], value: type[Any] = int) -> dict[Any, list[Any]]:
    flow = Flow("batches")
    source = flow.source("in", key=str, value=int)
    source.map_batches(function, value=value).sink("out")
    return run(flow, {"in": [In(v, k, timestamp=10 * v) for k, v in RECORDS]}).per_key("out")


@pytest.mark.parametrize(
    "form",
    [
        lambda batch: batch,
        lambda batch: pa.Table.from_batches([batch]),
        lambda batch: OnlyAStream(pa.Table.from_batches([batch])),
        lambda batch: pa.RecordBatchReader.from_batches(batch.schema, [batch]),
        lambda batch: batch.select(["value"]),
        lambda batch: batch.select(["value", "key"]),
    ],
    ids=["batch", "table", "interchange", "reader", "only values", "values and keys"],
)
def test_a_function_of_batches_may_give_anything_that_speaks_arrow(form: Callable[[Any], Any]) -> None:
    assert batches(lambda batch: form(doubled(batch))) == {"a": [2, 6], "b": [4]}


def test_a_function_of_batches_is_given_keys_and_timestamps() -> None:
    seen: list[dict[str, Any]] = []

    def look(batch: pa.RecordBatch) -> pa.RecordBatch:
        seen.extend(batch.to_pylist())
        return batch

    flow = Flow("look")
    flow.source("in", key=str, value=int).map_batches(look, value=int).sink("out")
    run(flow, {"in": [In(5, "k", timestamp=70)]})
    assert seen == [{"key": "k", "timestamp": 70, "value": 5}]


def test_a_function_of_batches_may_give_other_rows_if_it_says_whose_they_are() -> None:
    assert batches(lambda batch: batch.filter(pc.greater(batch.column("value"), 1))) == {"b": [2], "a": [3]}
    assert batches(lambda batch: pa.concat_tables([pa.Table.from_batches([batch])] * 2)) == {
        "a": [1, 1, 3, 3],
        "b": [2, 2],
    }


@pytest.mark.parametrize("key", ["z", "", None])
def test_a_function_of_batches_may_not_invent_keys(key: str | None) -> None:
    def renamed(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.set_column(0, "key", pa.array([key] * batch.num_rows, pa.utf8()))

    with pytest.raises(StepFailed, match="which it was not given: use group_by to change keys"):
        batches(renamed)


def test_what_comes_of_batches_is_of_the_type_that_was_said() -> None:
    texts = lambda batch: batch.set_column(2, "value", batch.column("value").cast(pa.utf8()))  # noqa: E731
    assert batches(texts, str) == {"a": ["1", "3"], "b": ["2"]}
    with pytest.raises(StepFailed, match="a column of string holds no int"):
        batches(texts, int)


def test_none_goes_into_batches_and_comes_out() -> None:
    flow = Flow("none")
    flow.source("in", key=str, value=int).map_batches(lambda batch: batch, value=int).sink("out")
    assert run(flow, {"in": [("k", None), ("k", 1)]}).values("out") == [None, 1]
