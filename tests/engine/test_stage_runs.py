"""Small programs on the stage runtime: values that are changed in place, no keys, tombstones, errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import millstream
from millstream.engine.stage import sending
from millstream.flow import Flow, Stream, dead_letter
from millstream.flow.aggregate import Field
from millstream.log import Append, Commit, Log
from millstream.testing import In, ManualClock, Poison, run
from millstream.testing.cluster import Cluster
from millstream.testing.cluster_search import simulate
from tests.engine.flows import letters
from tests.model.flows import appended, last


def same(flow: Flow, inputs: dict[str, Any], **options: Any) -> dict[str, Any]:
    """What comes of a flow, which is what the model makes of it."""
    found = simulate(flow, inputs, faults=0.02, seed=3, **options)
    wanted = run(flow, inputs, finish=options.get("finish", False))
    assert {stream: found.per_key(stream) for stream in found.outputs} == wanted.outputs()
    return wanted.outputs()


def longer(state: list[str], value: str) -> list[str]:
    """A state that is changed in place, and given out as it is."""
    state.append(value)
    return state


def broken(state: list[str], value: str) -> list[str]:
    """The state is changed, and then there is an error."""
    state.append(value)
    if value == "bad":
        raise ValueError(value)
    return state


def spoilt(value: dict[str, int]) -> dict[str, int]:
    """The value is changed, and then there is an error for some."""
    value["n"] += 100
    if value["n"] > 101:
        raise ValueError(value)
    return value


def numbered(value: dict[str, int]) -> dict[str, int]:
    """The value is changed in place."""
    value["n"] += 1
    return value


def test_a_state_that_is_changed_in_place_does_not_change_what_came_out_before() -> None:
    flow = Flow("aliases")
    flow.source("a", key=str, value=str).group_by_key().fold([], longer, state=list[str]).sink("b")
    found = same(flow, {"a": [("k", value) for value in "pqr"]})
    assert found["b"] == {"k": [["p"], ["p", "q"], ["p", "q", "r"]]}


def test_a_value_that_one_way_changes_is_not_changed_on_the_other() -> None:
    flow = Flow("ways")
    source = flow.source("a", key=str, value=dict[str, int])
    source.map(numbered).sink("one")
    source.sink("two")
    source.group_by_key().map(numbered).map(numbered).sink("three")
    found = same(flow, {"a": [("k", {"n": 0})]})
    assert [found[name]["k"] for name in ("one", "two", "three")] == [[{"n": 1}], [{"n": 0}], [{"n": 2}]]


@pytest.mark.parametrize("policy", ["skip", dead_letter("dead")])
def test_a_record_that_a_step_fails_on_leaves_the_state_as_it_was(policy: Any) -> None:  # noqa: ANN401 - a policy
    flow = Flow("skips")
    source = flow.source("a", key=str, value=str).group_by_key()
    source.fold([], broken, state=list[str], on_error=policy).sink("b")
    found = same(flow, {"a": [("k", value) for value in ("p", "bad", "q", "bad", "r")]})
    assert found["b"]["k"][-1] == ["p", "q", "r"]


def first_vowel(word: str) -> str:
    """There may be none."""
    return next(letter for letter in word if letter in "aeiou")


@pytest.mark.parametrize("operation", ["map", "filter", "collect", "group_by"])
def test_a_function_that_runs_out_fails_on_its_record_and_on_no_other(operation: str) -> None:
    flow = Flow("vowels")
    words = flow.source("words", key=str, value=str)
    step = getattr(words, operation)(first_vowel, on_error="skip")
    step.sink("out")
    found = same(flow, {"words": [("k", word) for word in ("ab", "xyz", "ef", "qqq", "io")]})
    assert sum(map(len, found["out"].values())) == 3


def test_a_letter_has_the_value_as_it_was() -> None:
    flow = Flow("letters", on_error=dead_letter("dead"))
    flow.source("a", key=str, value=dict[str, int]).map(spoilt).sink("b")
    found = same(flow, {"a": [("k", {"n": 1}), ("k", {"n": 2})]})
    assert [letter.value for letter in found["dead"]["k"]] == [{"n": 2}]


def test_what_cannot_be_read_is_told_of_once_however_many_read_it() -> None:
    flow = Flow("unread", on_error=dead_letter("dead"))
    source = flow.source("a", key=str, value=str)
    source.group_by_key().fold("", appended).sink("b")
    source.map(last).sink("c")
    flow.merge(source, source).group_by(len, key=int).count().sink("d")
    found = same(flow, {"a": [In("p", "k"), In(Poison(b"\xff"), "k")]})
    assert len(found["dead"]["k"]) == 1


def test_what_cannot_be_read_where_there_is_no_sink_is_told_of() -> None:
    flow = Flow("unread", on_error=dead_letter("dead"))
    flow.source("a", key=str, value=str).group_by_key().fold("", appended)
    flow.source("b", key=str, value=str).sink("c")
    assert len(same(flow, {"a": [In(Poison(b"\xff"), "k")]})["dead"]["k"]) == 1


def test_records_without_a_key_are_one_group() -> None:
    flow = Flow("keyless")
    flow.source("a", key=str, value=str).group_by_key().fold("", appended).sink("b")
    found = same(flow, {"a": [In("p"), In("q", "k"), In("r")]})
    assert found["b"] == {None: ["p", "pr"], "k": ["q"]}


def test_a_tombstone_takes_a_key_out_of_a_table() -> None:
    flow = Flow("tombstones")
    names = flow.source("names", key=str, value=str).group_by_key().latest()
    names.map(str.upper).sink("upper")
    names.updated_pairs(name="pairs").map(str).sink("pairs")
    inputs = {"names": [In("ann", "a"), In(None, "a"), In("amy", "a"), In(None, "b")]}
    found = same(flow, inputs)
    assert found["upper"]["a"] == ["ANN", None, "AMY"]


def test_streams_without_records_give_nothing() -> None:
    flow = Flow("empty")
    left, right = (flow.source(name, key=str, value=str) for name in "ab")
    flow.merge(left, right).group_by_key().grouped(2, flush=True).map(str).sink("c")
    assert same(flow, {}, finish=True) == {"c": {}}


def test_two_sources_read_one_stream_each_in_its_way() -> None:
    flow = Flow("twice")
    keyed, bare = flow.source("a", key=str, value=str), flow.source("a", value=str)
    keyed.group_by_key().fold("", appended).sink("folded")
    both = flow.merge(keyed.group_by(last, key=str), bare.group_by(last, key=str))
    both.group_by_key().count(name="count").sink("counts")
    found = simulate(flow, {"a": letters(9)}, seed=2, faults=0.03)
    assert found.table("counts") == dict.fromkeys("pqrstuvwx", 2)
    assert found.per_key("folded") == run(flow, {"a": letters(9)}).per_key("folded")


def test_two_groups_of_one_stream_and_a_diamond() -> None:
    flow = Flow("diamond")
    source = flow.source("a", key=str, value=str)
    one = source.group_by(last, key=str).count(name="one")
    two = source.group_by(last, key=str).map(len).sum(name="two")
    one.join(two, "left", name="both").map(str).sink("b")
    inputs = {"a": letters(20)}
    found = simulate(flow, inputs, seed=4, faults=0.03)
    assert found.table("b") == run(flow, inputs).table("b")


AGGREGATES: dict[str, Callable[[Stream[str, str]], Any]] = {
    "count": lambda stream: stream.group_by(last, key=str).count(),
    "sum": lambda stream: stream.map(len).group_by(bool, key=bool).sum(),
    "min": lambda stream: stream.group_by(last, key=str).min(),
    "max": lambda stream: stream.group_by(last, key=str).max(),
    "mean": lambda stream: stream.map(len).group_by(bool, key=bool).mean(),
    "variance": lambda stream: stream.map(len).group_by(bool, key=bool).variance(),
    "top_k": lambda stream: stream.group_by(len, key=int).top_k(3),
    "distinct": lambda stream: stream.group_by(len, key=int).distinct(),
}


@pytest.mark.parametrize("name", AGGREGATES)
def test_what_is_combined_before_it_travels_adds_up_to_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = Flow("ahead")
    AGGREGATES[name](flow.source("a", key=str, value=str)).sink("b")
    inputs = {"a": [In(one.value * (1 + number % 4), one.key) for number, one in enumerate(letters(40))]}
    ahead = simulate(flow, inputs).table("b")
    monkeypatch.setattr(sending, "combined_ahead", lambda _, block, *__: block)
    after = simulate(flow, inputs).table("b")
    wanted = run(flow, inputs).table("b")
    for found in (ahead, after):
        assert found.keys() == wanted.keys()
        assert [found[key] for key in wanted] == [pytest.approx(wanted[key]) for key in wanted]


class Order(msgspec.Struct, frozen=True):
    """A value that has a form in Arrow."""

    name: str
    cents: int


def named(order: Order) -> str:
    """A field, as a key."""
    return order.name


def raised(order: Order) -> Order:
    """Another value of the same form."""
    return Order(order.name, order.cents + 1)


def is_even(order: Order) -> bool:
    """Some of them."""
    return order.cents % 2 == 0


def told(log: Log, stream: str) -> list[tuple[str, Any]]:
    """Keys and values of a stream, of which each may be columnar."""
    found = [
        (str(one.key, "utf-8") if one.key else "", one.value) for one in log.consumer(stream, until="end")
    ]
    return [(key, msgspec.json.decode(value) if isinstance(value, bytes) else value) for key, value in found]


@pytest.mark.parametrize("faults", [0.0, 0.05])
@pytest.mark.parametrize("columnar", [False, True])
def test_columnar_streams_are_read_and_written(columnar: bool, faults: float) -> None:
    flow = Flow("columns")
    source = flow.source("a", key=str, value=Order)
    source.group_by(named, key=str).sum(Field("cents"), name="sums").sink("sums")
    source.map(raised).filter(is_even).sink("copy")
    source.group_by_key().latest().sink("latest")
    kind = pa.struct([("name", pa.utf8()), ("cents", pa.int64())])
    rows = [(f"k{number % 3}", Order("xyz"[number % 2], number)) for number in range(20)]
    wanted = run(flow, {"a": [In(value, key) for key, value in rows]})
    with millstream.open("memory:", clock=ManualClock()) as log:
        for stream in ("a", "copy", "latest") if columnar else ("a",):
            log.create(stream, value=kind)
        for number, (key, value) in enumerate(rows):
            row = number, key.encode(), msgspec.to_builtins(value), None
            log.commit(Commit((Append("a", 0, [row]),)))
        Cluster(flow, log, 2, seed=3, faults=faults, shards=1, epoch_records=4).run()
        sums, copy, latest = (told(log, stream) for stream in ("sums", "copy", "latest"))
    assert dict(sums) == wanted.table("sums")
    assert copy == [(out.key, msgspec.to_builtins(out.value)) for out in wanted.records("copy")]
    assert dict(latest) == {key: msgspec.to_builtins(value) for key, value in wanted.table("latest").items()}


def test_files_without_a_regrouping_are_written_once(tmp_path: Path) -> None:
    flow = Flow("lines")
    flow.from_file(str(tmp_path / "*.txt"), value=str).sink("out")
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    with millstream.open("memory:") as log:
        for _ in range(2):
            Cluster(flow, log).run()
        assert sorted(record.value for record in log.consumer("out", until="end")) == [b"one", b"two"]
