"""The nodes of a flow: what engines read. They are frozen, and know nothing of any engine.

Six kinds, and everything else is built from them:

    Source    records come in: of a stream, of files, generated, of a clock
    Pure      a record in, any number out, under the same key
    Stateful  under each key: state and record in, state and records out
    Merge     several streams become one, in an order that an engine chooses and writes down
    Group     a new key; how records of different old keys interleave is the engine's choice too
    Sink      records go out, to a named stream
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from millstream.flow.site import Site, function_name
from millstream.flow.steps import Changes, Step


@dataclass(frozen=True)
class DeadLetters:
    """What to do with a record that a step fails on: write it to a stream, with the reason."""

    stream: str


OnError: TypeAlias = Literal["fail", "skip"] | DeadLetters


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Node:
    """What all nodes have; `key` and `value` are the types of what comes out, `Any` where not known."""

    id: int
    name: str  # of a stateful node: under which its state is kept; of others: for people
    anchor: str  # the nearest name upstream that people gave
    upstream: tuple[Node, ...]
    key: Any
    value: Any
    site: Site
    on_error: OnError = "fail"
    grouped: bool = False
    quiet: bool = False  # a part of another operation, of which pictures say nothing

    @property
    def label(self) -> str:
        """As a picture of the flow shows it."""
        return self.name


@dataclass(frozen=True)
class FromStream:
    """The records of a stream of the log, or of the flow's own."""

    stream: str
    key_codec: str | None = None
    value_codec: str | None = None


@dataclass(frozen=True)
class FromFiles:
    """The lines of the files that match a pattern: a file is a shard, a line a seq."""

    pattern: str


@dataclass(frozen=True)
class Generated:
    """A function of the index: 0, 1, 2 … up to `count`."""

    function: Callable[[int], Any]
    count: int | None


@dataclass(frozen=True)
class Ticks:
    """A record every so often, on each of some shards; its key is the shard, its value the time in ms."""

    every_ms: int
    shards: int
    every_tick: bool


Origin: TypeAlias = FromStream | FromFiles | Generated | Ticks


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Source(Node):
    """Records come in."""

    origin: Origin

    @property
    def read_stream(self) -> str | None:
        """The stream that it reads, if it is one."""
        return self.origin.stream if isinstance(self.origin, FromStream) else None


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Pure(Node):
    """A function of each record, or of Arrow batches of them."""

    operation: Literal[
        "map", "flat_map", "filter", "collect", "flatten", "with_key", "map_batches", "map_table"
    ]
    function: Callable[..., Any] | None

    @property
    def label(self) -> str:
        """The operation, and the user's function."""
        operation = self.operation.removesuffix("_table")
        return operation if self.function is None else f"{operation} {function_name(self.function)}"


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Stateful(Node):
    """State under each key."""

    step: Step
    state: Any  # its type

    @property
    def label(self) -> str:
        """The operation and the user's function, and the name if it was given."""
        if isinstance(self.step, Changes):  # it is a part of another operation, after which it is named
            return self.step.label
        return (
            self.step.label
            if self.name == derived_name(self.step, self.anchor)
            else f"{self.step.label}: {self.name}"
        )


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Merge(Node):
    """Several streams become one; with names, each value says by which it came."""

    branches: tuple[str, ...]


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Group(Node):
    """A new key, by a function of the value; None: by the key that there is."""

    function: Callable[[Any], Any] | None

    @property
    def label(self) -> str:
        """The operation, and the user's function."""
        if self.name != "group_by":  # a part of another operation
            return self.name
        return "group_by_key" if self.function is None else f"group_by {function_name(self.function)}"


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Sink(Node):
    """Records go out to a stream."""

    stream: str
    key_codec: str | None = None
    value_codec: str | None = None


def derived_name(step: Step, anchor: str) -> str:
    """The name of a stateful node that was given none: it never depends on its position."""
    return f"{step.full_name} of {anchor}"
