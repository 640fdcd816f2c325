"""Flows whose results are unique, and what is wrong with a run of them on a cluster, if something is."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from millstream.flow import Flow, dead_letter
from millstream.flow.context import ctx
from millstream.testing import In, run
from millstream.testing.cluster_search import Simulated
from tests.model.flows import appended, last

Judge = Callable[[Simulated], str | None]


class Case(NamedTuple):
    """A flow, records for it, and what tells whether it ran well."""

    flow: Flow
    inputs: dict[str, list[In]]
    judge: Judge


def refusing(value: str) -> str:
    """An error, for some."""
    if "r" in value:
        raise ValueError(value)
    return value


def counted(state: int, value: str) -> tuple[int, list[str]]:
    """The number of each value, but errors for some, after the state was changed."""
    if "r" in value:
        raise ValueError(value)
    return state + 1, [f"{state} {value}"]


def both(pair: tuple[str, str | None]) -> str:
    """A pair as one text."""
    return f"({pair[0]},{pair[1]})"


def stamped(state: dict[str, int], value: str) -> dict[str, int]:
    """When a key came first, by which chance, how often it came, and how long the last value was."""
    first = state or {"first": ctx.now, "chance": ctx.random.randrange(1 << 30), "count": 0}
    return {**first, "count": first["count"] + 1, "size": len(value)}


def letters(count: int, shards: int = 3, keys: str = "klmno") -> list[In]:
    """Records under some keys, each of which lies in one shard."""
    return [
        In("pqrstuvwx"[number % 9], keys[number % len(keys)], shard=number % len(keys) % shards)
        for number in range(count)
    ]


def same(flow: Flow, inputs: dict[str, list[In]], *, exact: str = "", tables: str = "") -> Judge:
    """What has to be as in the model: streams record by record, and of tables the latest values."""
    wanted = run(flow, inputs)

    def judge(found: Simulated) -> str | None:
        for stream in exact.split():
            if found.per_key(stream) != wanted.per_key(stream):
                return f"'{stream}': {found.per_key(stream)}, expected {wanted.per_key(stream)}"
        for stream in tables.split():
            if found.table(stream) != wanted.table(stream):
                return f"'{stream}': {found.table(stream)}, expected {wanted.table(stream)}"
        return None

    return judge


def regrouped() -> Case:
    """Folds in the order of a key, then other keys, two levels deep, and counts."""
    flow = Flow("regrouped")
    source = flow.source("a", key=str, value=str)
    folded = source.group_by_key().fold("", appended)
    folded.sink("folded")
    folded.group_by(last, key=str).count().sink("counts")
    source.group_by(last, key=str).map(len).sum().sink("lengths")
    inputs = {"a": letters(12)}
    return Case(flow, inputs, same(flow, inputs, exact="folded", tables="counts lengths"))


def refused() -> Case:
    """Records that steps fail on: they go to another stream, and are as if they had never been."""
    flow = Flow("refused", on_error=dead_letter("dead"))
    source = flow.source("a", key=str, value=str)
    source.map(refusing).sink("well")
    source.group_by_key().transform(0, counted, name="numbered").sink("numbered")
    inputs = {"a": letters(12)}
    return Case(flow, inputs, same(flow, inputs, exact="well numbered"))


def refused_deeper() -> Case:
    """Letters of several levels in one stream, and a sink at each of two."""
    flow = Flow("deeper", on_error=dead_letter("dead"))
    folded = flow.source("a", key=str, value=str).group_by_key().fold("", appended)
    folded.sink("folded")
    folded.group_by(last, key=str).transform(0, counted, name="numbered").sink("numbered")
    inputs = {"a": letters(12)}
    wanted = run(flow, inputs)
    exact = same(flow, inputs, exact="folded")

    def judge(found: Simulated) -> str | None:
        dead = sorted(letter.value for letter in (out.value for out in found.outputs["dead"]))
        if dead != sorted(letter.value for letter in wanted.values("dead")):
            return f"letters of {dead}"
        counts = {key: len(values) for key, values in found.per_key("numbered").items()}
        if counts != {key: len(values) for key, values in wanted.per_key("numbered").items()}:
            return f"'numbered': {found.per_key('numbered')}"
        return exact(found)

    return Case(flow, inputs, judge)


def two_jobs() -> Case:
    """A stream of the flow's own between two jobs, and a table joined with a stream."""
    flow = Flow("jobs")
    folded = flow.stream("folded", flow.source("a", key=str, value=str).group_by_key().fold("", appended))
    folded.group_by(last, key=str).count(name="endings").sink("counts")
    folded.group_by_key().latest().map(len).sink("newest")
    inputs = {"a": letters(12)}
    return Case(flow, inputs, same(flow, inputs, exact="folded", tables="counts newest"))


def stamps() -> Case:
    """The time of the epoch in which a key came first, and chance: whatever they are, they stay so."""
    flow = Flow("stamps")
    source = flow.source("a", key=str, value=str)
    stamps = source.group_by_key().fold({}, stamped, state=dict[str, int], name="stamps")
    stamps.sink("stamps", value=dict[str, int])

    def judge(found: Simulated) -> str | None:
        for key, values in found.per_key("stamps").items():
            if len({(value["first"], value["chance"]) for value in values}) != 1:
                return f"{key!r} came first at several times, or by several chances: {values}"
            if [value["count"] for value in values] != list(range(1, len(values) + 1)):
                return f"{key!r} was not counted once each: {values}"
        return None

    return Case(flow, {"a": letters(12)}, judge)


def short(value: str) -> bool:
    """Whether a text may still grow."""
    return len(value) < 3


def longer(value: str) -> str:
    """One more letter."""
    return value + value[-1:]


def cycle() -> Case:
    """What comes out goes in again, until it is long enough."""
    flow = Flow("cycle")
    again = flow.cycle("again", key=str, value=str)
    grown = flow.merge(flow.source("a", key=str, value=str), again).filter(short).map(longer)
    flow.stream("again", grown)
    grown.group_by_key().count().sink("counts")
    inputs = {"a": letters(6, keys="kl")}
    return Case(flow, inputs, same(flow, inputs, tables="counts"))


CASES = {case.__name__: case for case in (regrouped, refused, refused_deeper, two_jobs, stamps, cycle)}
