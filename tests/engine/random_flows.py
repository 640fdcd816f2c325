"""Random flows over all kinds of nodes, and a few records for each.

Steps take any value and give a text, so that every step can follow every other one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

from millstream.flow import Flow, Grouped, Stream, Table, dead_letter
from millstream.flow.process import emit, update
from millstream.testing import In, Poison
from tests.engine.flows import both, counted, refusing
from tests.model.flows import appended, last


class Place(NamedTuple):
    """Where a random flow goes on; `number` is of the step, for names."""

    flow: Flow
    one: Stream[Any, Any]
    other: Stream[Any, Any]
    number: int

    @property
    def name(self) -> str:
        """A name that no other step has."""
        return f"step{self.number}"

    @property
    def by_key(self) -> Grouped[Any, Any]:
        """The first, by its own key."""
        return self.one.group_by_key()

    @property
    def table(self) -> Table[Any, Any]:
        """The latest values of the other."""
        return self.other.group_by_key().latest()


def text(value: object) -> str:
    """Any value as a text."""
    return value if isinstance(value, str) else repr(value)


def bracketed(value: str) -> str:
    """Another text."""
    return f"<{value}>"


def halves(value: str) -> list[str]:
    """One or two texts, or none."""
    return [part for part in (value[:1], value[1:2]) if part]


def is_long(value: str) -> bool:
    """Whether there is more than a letter."""
    return len(value) > 1


def longer(value: str) -> str | None:
    """More of those that are long."""
    return value + "!" if len(value) > 1 else None


def key_of(value: str) -> str | None:
    """The last letter, and no key for some."""
    return None if value[-1:] == "o" else value[-1:]


def remember(state: list[str], value: str) -> list[str]:
    """A state that is changed where it is, as users do."""
    state.append(value)
    return state[-3:]


def changed_in_place(state: list[str], value: str) -> list[str]:
    """The same, without an end."""
    state.append(value)
    return state


def told(state: list[str], value: str) -> str:
    """The state as a text."""
    return "".join(state) + value


def weighed(value: str) -> dict[str, int]:
    """Numbers under keys, for tables to be added up by."""
    return {letter: len(value) for letter in value[:2]}


def ended(value: str) -> tuple[str, str]:
    """A pair whose first is to be the key."""
    return value[-1:], value


def upper(table: pa.Table) -> pa.Table:
    """A step on Arrow batches."""
    return table.set_column(
        table.schema.get_field_index("value"), "value", pc.utf8_upper(table.column("value"))
    )


def short(value: str) -> bool:
    """Whether a text may still grow."""
    return len(value) < 4


def once(value: str) -> str | None:
    """One letter more, while there are few: so that a cycle comes to rest."""
    return value + value[-1:] if len(value) < 4 else None


def own_read_bare(at: Place) -> Stream[Any, Any]:
    """Kept under a name, and read again without its keys."""
    at.one.sink(at.name, value=str)
    return at.flow.source(at.name, value=str).group_by(last)


def cycle(at: Place) -> Stream[Any, Any]:
    """What comes out goes in again."""
    again = at.flow.cycle(at.name, key=str, value=str)
    grown = at.flow.merge(at.one, again).collect(once)
    at.flow.stream(at.name, grown)
    return grown


TEXT: dict[str, Callable[[Place], Stream[Any, Any]]] = {
    "map": lambda at: at.one.map(bracketed),
    "flat_map": lambda at: at.one.flat_map(halves),
    "flatten": lambda at: at.one.map(halves).flatten(),
    "filter": lambda at: at.one.filter(is_long),
    "collect": lambda at: at.one.collect(longer),
    "with_key": lambda at: at.one.with_key().map(text),
    "merge": lambda at: at.flow.merge(at.one, at.other),
    "merge named": lambda at: at.flow.merge(left=at.one, right=at.other).map(text),
    "group_by": lambda at: at.one.group_by(last),
    "group_by none": lambda at: at.one.group_by(key_of, key=str),
    "group_by_key": lambda at: at.by_key,
    "group, group": lambda at: at.one.group_by(last).group_by(len, key=int).group_by(last),
    "invert": lambda at: (
        at.one.map(lambda value: (value[-1:], value), value=tuple[str, str]).invert().map(text)
    ),
    "fold": lambda at: at.by_key.fold("", appended, name=at.name),
    "fold in place": lambda at: at.by_key.fold([], changed_in_place, state=list[str], name=at.name).map(text),
    "transform": lambda at: at.by_key.transform(0, counted, name=at.name, on_error="skip"),
    "process": lambda at: at.by_key.process(
        [], update(remember).and_then(emit(told)), state=list[str], value=str, name=at.name
    ),
    "aggregate": lambda at: at.by_key.aggregate("", appended, name=at.name).updates(),
    "count": lambda at: at.by_key.count(name=at.name).updates().map(text),
    "sum": lambda at: at.by_key.map(len).sum(name=at.name).updates().map(text),
    "min": lambda at: at.by_key.min(name=at.name).updates(),
    "max": lambda at: at.by_key.max(len, name=at.name).updates().map(text),
    "mean": lambda at: at.by_key.map(len).mean(name=at.name).updates().map(text),
    "top_k": lambda at: at.by_key.top_k(2, name=at.name).updates().map(text),
    "distinct": lambda at: at.by_key.distinct(name=at.name).updates().map(text),
    "grouped": lambda at: at.by_key.grouped(2, flush=True, name=at.name).map(text),
    "latest": lambda at: at.by_key.latest().map(bracketed).updates().map(text),
    "updated_pairs": lambda at: at.by_key.latest().updated_pairs(name=at.name).map(text),
    "join table": lambda at: at.by_key.join(at.table, "left", name=at.name).map(both),
    "join tables": lambda at: at.by_key.latest().join(at.table, "full", name=at.name).updates().map(text),
    "sum_by_key": lambda at: at.by_key.latest().map(weighed).sum_by_key(name=at.name).updates().map(text),
    "map_batches": lambda at: at.one.map(text).map_batches(upper, value=str),
    "own": lambda at: at.flow.stream(at.name, at.one),
    "own, read bare": own_read_bare,
    "cycle": cycle,
    "refuse": lambda at: at.one.map(refusing, on_error=dead_letter("dead")),
    "refuse by key": lambda at: at.by_key.transform(0, counted, name=at.name, on_error=dead_letter("dead")),
    "skip": lambda at: at.one.map(refusing, on_error="skip"),
}


@st.composite
def flows(draw: st.DrawFn, steps_max: int = 4, rows_max: int = 5) -> tuple[Flow, dict[str, list[In]]]:
    """A small flow of a few steps, and a few records for it."""
    flow = Flow("random")
    pool: list[Stream[Any, Any]] = [
        flow.source(name, key=str, value=str, on_error=dead_letter("dead")) for name in ("a", "b")
    ]
    drawn = draw(st.lists(st.sampled_from(sorted(TEXT)), min_size=1, max_size=steps_max))
    for number, step in enumerate(TEXT[name] for name in drawn):
        pool.append(step(Place(flow, draw(st.sampled_from(pool)), draw(st.sampled_from(pool)), number)))
    pool[-1].sink("out")
    draw(st.sampled_from(pool)).sink("other")
    # A key that goes into a value is of the type that the source says, so it has to be there.
    keys = st.sampled_from(["x", "y"] if {"invert", "with_key"} & {*drawn} else ["x", "y", None])
    rows = draw(
        st.lists(
            st.tuples(st.sampled_from("ab"), keys, st.integers(0, 1), st.integers(0, 3)), max_size=rows_max
        )
    )
    inputs: dict[str, list[In]] = {"a": [], "b": []}
    values = ("po", "l", "mr", "pl", "ok", "q", "rp")
    for (source, key, shard, time), value in zip(rows, values, strict=False):
        given: Any = Poison(b"\xff") if time == 3 and key == "y" else value
        inputs[source].append(In(given, key, time, shard))
    return flow, inputs
