"""Tables: streams read as the latest value of each key. A None takes a key away.

>>> from millstream.flow import Flow
>>> flow = Flow("shop")
>>> prices = flow.source("prices", key=str, value=int).group_by_key().latest()
>>> prices.map(lambda cents: cents / 100, value=float).sink("euros")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast, get_args, get_origin, overload

from millstream.codec.kind import result_of
from millstream.flow import steps
from millstream.flow.kinds import Carries, Kind, map_of, optional, pair_of
from millstream.flow.node import Node, OnError, Pure
from millstream.flow.pairs import by_field
from millstream.flow.stream import Grouped, check_how

if TYPE_CHECKING:
    from millstream.flow.flow import Flow

K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")
K1 = TypeVar("K1")
K2 = TypeVar("K2")


class Table(Generic[K, V]):
    """The latest value of each key."""

    def __init__(self, flow: Flow, node: Node) -> None:
        """A handle on the updates that a node gives."""
        self._flow = flow
        self._node = node

    def updates(self) -> Grouped[K, V | None]:
        """The stream of its updates: values, and None where a key went."""
        return Grouped(self._flow, self._node)

    def updated_pairs(self, *, name: str | None = None) -> Grouped[K, tuple[V | None, V | None]]:
        """Of each update the value before and the value now, for steps that have to take something back."""
        kind = optional(self._node.value)
        node = self.updates()._stateful(steps.Pairs(), name, kind, pair_of(kind, kind), None)
        return Grouped(self._flow, node)

    def map(
        self, function: Callable[[V], W], *, value: Kind[W] | None = None, on_error: OnError | None = None
    ) -> Table[K, W]:
        """Another value for each."""
        node = self._flow._add(
            Pure,
            name="map",
            upstream=(self._node,),
            key=self._node.key,
            value=value or result_of(function),
            operation="map_table",
            function=function,
            on_error=on_error,
            grouped=True,
        )
        return Table(self._flow, node)

    @overload
    def join(
        self, other: Table[K, W], how: Literal["inner"] = "inner", *, name: str | None = None
    ) -> Table[K, tuple[V, W]]: ...
    @overload
    def join(
        self, other: Table[K, W], how: Literal["left"], *, name: str | None = None
    ) -> Table[K, tuple[V, W | None]]: ...
    @overload
    def join(
        self, other: Table[K, W], how: Literal["full"], *, name: str | None = None
    ) -> Table[K, tuple[V | None, W | None]]: ...
    def join(
        self,
        other: Table[K, Any],
        how: Literal["inner", "left", "full"] = "inner",
        *,
        name: str | None = None,
    ) -> Table[K, Any]:
        """The values of both tables under each key.

        Keys that only one of them has are left out ("inner"), or paired with None: those of this table
        ("left"), or of either ("full").
        """
        check_how(self._flow, how, ("inner", "left", "full"))
        other = self._flow._table(other, self._node.key)
        merged = self._flow._merge("join", (), {"left": self.updates(), "right": other.updates()})
        left, right = self._node.value, other._node.value
        pair = pair_of(
            left if how != "full" else optional(left), right if how == "inner" else optional(right)
        )
        state = pair_of(optional(left), optional(right))
        return Table(self._flow, merged._stateful(steps.JoinTables(how), name, state, pair, None))

    def sum_by_key(self: Carries[object, Mapping[K2, W]], *, name: str | None = None) -> Table[K2, W]:
        """Of a table of maps: for each of their keys, the sum of its values over all maps."""
        table = cast("Table[Any, Any]", self)
        return table._view(steps.SumView(), name, table._inner(1))

    def latest_by_key(
        self: Carries[K1, Mapping[K2, W]], *, name: str | None = None
    ) -> Table[K2, dict[K1, W]]:
        """Of a table of maps: for each of their keys, its value in every map that has it."""
        table = cast("Table[Any, Any]", self)
        return table._view(steps.LatestView(), name, map_of(table._node.key, table._inner(1)))

    def _view(self, step: steps.Step, name: str | None, value: Any) -> Table[Any, Any]:
        kind = self._node.value
        given = cast("Grouped[Any, Any]", self.updates()._with_key(quiet=True))
        anchor = name or self._node.anchor
        changes = given._stateful(
            steps.Changes(), f"{step.label}, changes of {anchor}", optional(kind), Any, None, anchor=anchor
        )
        fields = Grouped[Any, Any](self._flow, changes)
        grouped = fields._grouped(by_field, self._inner(0), Any, None, name="group_by field")
        return Table(self._flow, grouped._stateful(step, name, Any, value, None))

    def _inner(self, place: int) -> Any:
        """The type of the keys (0) or the values (1) of maps."""
        inner = get_args(self._node.value)
        return inner[place] if get_origin(self._node.value) is not None and len(inner) == 2 else Any

    def sink(
        self,
        stream: str,
        *,
        key: Kind[K] | None = None,
        value: Kind[V] | None = None,
        key_codec: str | None = None,
        value_codec: str | None = None,
    ) -> None:
        """Write the updates to a stream."""
        self.updates().sink(
            stream,
            key=key,
            value=value,
            key_codec=key_codec,
            value_codec=value_codec,
        )

    if TYPE_CHECKING:

        def _carries(self) -> tuple[K, V]: ...

    def __repr__(self) -> str:
        """What it is, and where it was made."""
        return f"<Table {self._node.label} ({self._node.site})>"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Go on with its updates, so that all mistakes are told at once."""
            if name.startswith("_") or not hasattr(Grouped, name):
                raise AttributeError(f"a Table has no {name!r}", name=name, obj=self)
            self._flow._problem(
                f"{name} is for streams, and this is a table: put .updates() before .{name}, to take each "
                "change as a record"
            )
            return getattr(self.updates(), name)
