"""Streams, as people chain them: each method adds a node to the flow, and gives a handle on what comes out.

`Stream` is ungrouped: its records may lie anywhere. `Grouped` has all records of a key in one place and
in order, and so has the steps that keep state.

>>> from millstream.flow import Flow
>>> flow = Flow("words")
>>> lines = flow.source("lines", value=str)
>>> words = lines.flat_map(str.split).group_by(str.lower, key=str)
>>> type(lines).__name__, type(words).__name__
('Stream', 'Grouped')
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast, get_args, get_origin, overload

from millstream.codec.kind import result_of
from millstream.errors import UsageError, shown
from millstream.flow import steps
from millstream.flow.aggregate import (
    Aggregate,
    count,
    distinct,
    largest,
    mean,
    smallest,
    top_k,
    total,
    variance,
)
from millstream.flow.kinds import (
    Carries,
    Empty,
    Kind,
    item_of,
    list_of,
    optional,
    pair_of,
    state_of,
    without_none,
)
from millstream.flow.node import Group, Node, OnError, Pure, Stateful, derived_name
from millstream.flow.pairs import by_first, rest_of

if TYPE_CHECKING:
    from millstream.flow.flow import Flow
    from millstream.flow.process import Process
    from millstream.flow.table import Table

K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")
K2 = TypeVar("K2")
S = TypeVar("S")
A = TypeVar("A")
R = TypeVar("R")


class Stream(Generic[K, V]):
    """A stream of records that are not grouped."""

    _is_grouped = False

    def __init__(self, flow: Flow, node: Node) -> None:
        """A handle on what a node gives; the flow makes them."""
        self._flow = flow
        self._node = node

    # -- a record at a time

    def map(
        self, function: Callable[[V], W], *, value: Kind[W] | None = None, on_error: OnError | None = None
    ) -> Stream[K, W]:
        """Another value for each."""
        return self._pure("map", function, value or result_of(function), on_error)

    def flat_map(
        self,
        function: Callable[[V], Iterable[W]],
        *,
        value: Kind[W] | None = None,
        on_error: OnError | None = None,
    ) -> Stream[K, W]:
        """Any number of values for each, in order."""
        return self._pure("flat_map", function, value or item_of(result_of(function)), on_error)

    def filter(self, function: Callable[[V], object], *, on_error: OnError | None = None) -> Stream[K, V]:
        """Only those for which the function says yes."""
        return self._pure("filter", function, self._node.value, on_error)

    def collect(
        self,
        function: Callable[[V], W | None],
        *,
        value: Kind[W] | None = None,
        on_error: OnError | None = None,
    ) -> Stream[K, W]:
        """Another value for each, and nothing where the function gives None."""
        return self._pure("collect", function, value or without_none(result_of(function)), on_error)

    def flatten(self: Carries[K2, Iterable[W]], *, on_error: OnError | None = None) -> Stream[K2, W]:
        """The items of each value, one by one."""
        stream = cast("Stream[K2, Any]", self)
        return stream._pure("flatten", None, item_of(stream._node.value), on_error)

    def with_key(self, *, on_error: OnError | None = None) -> Stream[K, tuple[K, V]]:
        """Each value with its key, as a pair."""
        return self._with_key(on_error)

    def map_batches(
        self, function: Callable[[Any], Any], *, value: Kind[W], on_error: OnError | None = None
    ) -> Stream[K, W]:
        """Arrow in, Arrow out: for speed, many records at once.

        The function is given a `pyarrow.RecordBatch` with the columns `key`, `timestamp` and `value`, and
        gives anything that speaks Arrow's interchange (pyarrow, polars, pandas 2 …) with a column `value`.
        Where it gives other rows than it was given, in number or order, it also gives `key`, and no key
        that it was not given. How records are cut into batches is not determined, so each row's result
        must not depend on the others.
        """
        return self._pure("map_batches", function, value, on_error)

    # -- other keys, other streams

    def group_by(
        self, function: Callable[[V], K2], *, key: Kind[K2] | None = None, on_error: OnError | None = None
    ) -> Grouped[K2, V]:
        """Bring together what the function gives the same key.

        Records that had one key before stay in order; how those of different keys interleave is not
        determined. `key` is the type of the new keys, where the function does not say it.
        """
        return self._grouped(function, key or result_of(function), self._node.value, on_error)

    def group_by_key(self) -> Grouped[K, V]:
        """Bring together what has the same key."""
        return self._grouped(None, self._node.key, self._node.value, None)

    def invert(self: Stream[S, tuple[K2, W]]) -> Grouped[K2, tuple[S, W]]:
        """Pairs under a key become pairs with that key, under their first item."""
        pair = get_args(self._node.value)
        key, value = pair if get_origin(self._node.value) is tuple and len(pair) == 2 else (Any, Any)
        keyed = self._with_key(quiet=True)
        inverted = keyed._grouped(by_first, key, keyed._node.value, None, name="invert")
        pairs = inverted._pure("map", rest_of, pair_of(self._node.key, value), None, quiet=True)
        return cast("Grouped[K2, tuple[S, W]]", pairs)

    def sink(
        self,
        stream: str,
        *,
        key: Kind[K] | None = None,
        value: Kind[V] | None = None,
        key_codec: str | None = None,
        value_codec: str | None = None,
    ) -> None:
        """Write the records to a stream; `value` and `key` say their types, where they are not known."""
        self._flow._sink(
            stream, self._node, key=key, value=value, key_codec=key_codec, value_codec=value_codec
        )

    # -- how it is made

    def _with_key(self, on_error: OnError | None = None, *, quiet: bool = False) -> Stream[K, tuple[K, V]]:
        kind = pair_of(self._node.key, self._node.value)
        return self._pure("with_key", None, kind, on_error, quiet=quiet)

    def _pure(
        self, operation: str, function: Any, value: Any, on_error: OnError | None, *, quiet: bool = False
    ) -> Stream[Any, Any]:
        node = self._flow._add(
            Pure,
            name=operation,
            upstream=(self._node,),
            key=self._node.key,
            value=value,
            operation=operation,
            function=function,
            on_error=on_error,
            grouped=self._is_grouped,
            quiet=quiet,
        )
        return type(self)(self._flow, node)

    def _grouped(
        self, function: Any, key: Any, value: Any, on_error: OnError | None, *, name: str = "group_by"
    ) -> Grouped[Any, Any]:
        node = self._flow._add(
            Group,
            name=name,
            upstream=(self._node,),
            key=key,
            value=value,
            function=function,
            on_error=on_error,
            grouped=True,
        )
        return Grouped(self._flow, node)

    if TYPE_CHECKING:

        def _carries(self) -> tuple[K, V]: ...

    def __repr__(self) -> str:
        """What it is, and where it was made."""
        return f"<{type(self).__name__} {self._node.label} ({self._node.site})>"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Go on as if it were grouped, so that all mistakes are told at once."""
            if name.startswith("_") or not hasattr(Grouped, name):
                raise AttributeError(f"a {type(self).__name__} has no {name!r}", name=name, obj=self)
            self._flow._problem(
                f"{name} keeps state under a key, and this stream is not grouped: put .group_by(...) or "
                f".group_by_key() before .{name}"
            )
            return getattr(Grouped(self._flow, self._node), name)


class Grouped(Stream[K, V]):
    """A stream whose records are together by key, and in order under each."""

    _is_grouped = True

    if TYPE_CHECKING:  # the same methods, and they stay grouped

        def map(
            self, function: Callable[[V], W], *, value: Kind[W] | None = None, on_error: OnError | None = None
        ) -> Grouped[K, W]: ...
        def flat_map(
            self,
            function: Callable[[V], Iterable[W]],
            *,
            value: Kind[W] | None = None,
            on_error: OnError | None = None,
        ) -> Grouped[K, W]: ...
        def filter(
            self, function: Callable[[V], object], *, on_error: OnError | None = None
        ) -> Grouped[K, V]: ...
        def collect(
            self,
            function: Callable[[V], W | None],
            *,
            value: Kind[W] | None = None,
            on_error: OnError | None = None,
        ) -> Grouped[K, W]: ...
        def flatten(self: Carries[K2, Iterable[W]], *, on_error: OnError | None = None) -> Grouped[K2, W]: ...
        def with_key(self, *, on_error: OnError | None = None) -> Grouped[K, tuple[K, V]]: ...
        def map_batches(
            self, function: Callable[[Any], Any], *, value: Kind[W], on_error: OnError | None = None
        ) -> Grouped[K, W]: ...

    # -- with state

    def transform(
        self,
        zero: S | Empty,
        function: Callable[[S, V], tuple[S, Iterable[W]]],
        *,
        name: str | None = None,
        state: Any = None,
        value: Kind[W] | None = None,
        on_error: OnError | None = None,
    ) -> Grouped[K, W]:
        """The general step: state and value give the next state, and any number of values.

        `state` is the type of the state, where neither `zero` nor the function says it; `name` is what
        the state is kept under, needed where the function has no name of its own.
        """
        found = result_of(function)
        inner = get_args(found) if get_origin(found) is tuple else ()
        kind, items = inner if len(inner) == 2 else (Any, Any)
        given = self._stateful(
            steps.Transform(zero, function),
            name,
            state or state_of(zero, kind),
            value or item_of(items),
            on_error,
        )
        return Grouped(self._flow, given)

    def process(
        self,
        zero: S | Empty,
        process: Process[S, V, W],
        *,
        name: str | None = None,
        state: Any = None,
        value: Kind[W] | None = None,
        on_error: OnError | None = None,
    ) -> Grouped[K, W]:
        """A step put together from smaller ones: see `millstream.flow.process`."""
        given = self._stateful(
            steps.Process(zero, process), name, state or state_of(zero, Any), value or Any, on_error
        )
        return Grouped(self._flow, given)

    def fold(
        self,
        zero: S | Empty,
        function: Callable[[S, V], S],
        *,
        name: str | None = None,
        state: Any = None,
        on_error: OnError | None = None,
    ) -> Grouped[K, S]:
        """The state after each value; every one of them counts."""
        kind = state or state_of(zero, result_of(function))
        return Grouped(self._flow, self._stateful(steps.Fold(zero, function), name, kind, kind, on_error))

    def grouped(self, size: int, *, flush: bool = False, name: str | None = None) -> Grouped[K, list[V]]:
        """Lists of so many values; with `flush`, what is left over comes out at the end of a finished run."""
        if type(size) is not int or size < 1:
            self._flow._problem(f"grouped({shown(size)}): expected how many, 1 or more")
        kind = list_of(self._node.value)
        return Grouped(self._flow, self._stateful(steps.Grouped(size, flush), name, kind, kind, None))

    # -- aggregates

    @overload
    def aggregate(
        self, zero: Aggregate[V, A, R], *, name: str | None = None, on_error: OnError | None = None
    ) -> Table[K, R]: ...
    @overload
    def aggregate(
        self,
        zero: V,
        plus: Callable[[V, V], V],
        present: None = None,
        *,
        name: str | None = None,
        state: Any = None,
        on_error: OnError | None = None,
    ) -> Table[K, V]: ...
    @overload
    def aggregate(
        self,
        zero: V,
        plus: Callable[[V, V], V],
        present: Callable[[V], R],
        *,
        name: str | None = None,
        state: Any = None,
        on_error: OnError | None = None,
    ) -> Table[K, R]: ...
    def aggregate(
        self,
        zero: Any,
        plus: Callable[[V, V], V] | None = None,
        present: Callable[[V], Any] | None = None,
        *,
        name: str | None = None,
        state: Any = None,
        on_error: OnError | None = None,
    ) -> Table[K, Any]:
        """The values put together: ready-made (`millstream.flow.aggregate`), or by `zero`, `plus`, `present`.

        `plus` must be associative, and `zero` change nothing: then parts may be put together anywhere,
        and the table's updates coalesced.
        """
        from millstream.flow.table import Table

        if isinstance(zero, Aggregate):
            ready = zero
            step = steps.Combine(ready.title, ready.zero, ready.lift, ready.plus, ready.present, ready.of)
            kind, result = ready.state, ready.result
        else:
            if plus is None:
                self._flow._problem(f"aggregate({shown(zero)}): expected an aggregate, or zero and plus")
                plus = _no_sum
            step = steps.Combine("", zero, None, plus, present)
            kind = state or state_of(zero, result_of(plus))
            result = kind if present is None else result_of(present)
        return Table(self._flow, self._stateful(step, name, kind, result, on_error))

    def count(self, *, name: str | None = None) -> Table[K, int]:
        """How many values there were."""
        return self.aggregate(count(), name=name)

    @overload
    def sum(self, of: None = None, *, name: str | None = None) -> Table[K, V]: ...
    @overload
    def sum(self, of: Callable[[V], W], *, name: str | None = None) -> Table[K, W]: ...
    def sum(self, of: Callable[[V], Any] | None = None, *, name: str | None = None) -> Table[K, Any]:
        """The sum of the values, or of what `of` makes of each."""
        return self.aggregate(total(of), name=name)

    @overload
    def min(self, of: None = None, *, name: str | None = None) -> Table[K, V]: ...
    @overload
    def min(self, of: Callable[[V], W], *, name: str | None = None) -> Table[K, W]: ...
    def min(self, of: Callable[[V], Any] | None = None, *, name: str | None = None) -> Table[K, Any]:
        """The smallest value; the first of those that are equal."""
        return self.aggregate(smallest(of), name=name)

    @overload
    def max(self, of: None = None, *, name: str | None = None) -> Table[K, V]: ...
    @overload
    def max(self, of: Callable[[V], W], *, name: str | None = None) -> Table[K, W]: ...
    def max(self, of: Callable[[V], Any] | None = None, *, name: str | None = None) -> Table[K, Any]:
        """The largest value; the first of those that are equal."""
        return self.aggregate(largest(of), name=name)

    def mean(self, of: Callable[[V], Any] | None = None, *, name: str | None = None) -> Table[K, Any]:
        """The average."""
        return self.aggregate(mean(of), name=name)

    def variance(self, of: Callable[[V], Any] | None = None, *, name: str | None = None) -> Table[K, float]:
        """The variance of all values."""
        return self.aggregate(variance(of), name=name)

    def top_k(
        self, size: int, of: Callable[[V], Any] | None = None, *, name: str | None = None
    ) -> Table[K, list[V]]:
        """The largest values, the largest first."""
        try:
            return self.aggregate(top_k(size, of), name=name)
        except UsageError as error:
            self._flow._problem(str(error))
            return self.aggregate(top_k(1, of), name=name)

    def distinct(self, of: Callable[[V], Any] | None = None, *, name: str | None = None) -> Table[K, int]:
        """How many different values there were, exactly."""
        return self.aggregate(distinct(of), name=name)

    # -- tables

    def latest(self: Carries[K2, W | None]) -> Table[K2, W]:
        """The stream read as a table: the latest value of each key, and None takes the key away."""
        from millstream.flow.table import Table

        stream = cast("Grouped[K2, Any]", self)
        return Table(stream._flow, stream._node)

    @overload
    def join(
        self, table: Table[K, W], how: Literal["inner"] = "inner", *, name: str | None = None
    ) -> Grouped[K, tuple[V, W]]: ...
    @overload
    def join(
        self, table: Table[K, W], how: Literal["left"], *, name: str | None = None
    ) -> Grouped[K, tuple[V, W | None]]: ...
    def join(
        self, table: Table[K, Any], how: Literal["inner", "left"] = "inner", *, name: str | None = None
    ) -> Grouped[K, tuple[V, Any]]:
        """Each event with the table's latest value, in the order in which both come.

        Events for which the table has nothing are left out ("inner"), or have None ("left").
        """
        check_how(self._flow, how, ("inner", "left"))
        table = self._flow._table(table, self._node.key)
        merged = self._flow._merge("join", (), {"event": self, "table": table.updates()})
        theirs = table._node.value
        node = merged._stateful(
            steps.JoinTable(how),
            name,
            optional(theirs),
            pair_of(self._node.value, theirs if how == "inner" else optional(theirs)),
            None,
        )
        return Grouped(self._flow, node)

    def _stateful(
        self,
        step: steps.Step,
        name: str | None,
        state: Any,
        value: Any,
        on_error: OnError | None,
        *,
        anchor: str | None = None,
    ) -> Node:
        return self._flow._add(
            Stateful,
            name=name or derived_name(step, self._node.anchor),
            anchor=anchor or name,
            upstream=(self._node,),
            key=self._node.key,
            value=value,
            state=state,
            step=step,
            on_error=on_error,
            grouped=True,
        )


def check_how(flow: Flow, how: str, known: tuple[str, ...]) -> None:
    """Note a way to join that there is not."""
    if how not in known:
        flow._problem(f"join(how={shown(how)}): expected {' or '.join(map(repr, known))}")


def _no_sum(left: Any, _: Any) -> Any:
    """What stands for a function that is missing."""
    return left
