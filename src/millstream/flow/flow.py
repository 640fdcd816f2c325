"""The builder of flows: sources at the top, sinks at the bottom, and what is computed in between.

>>> flow = Flow("words")
>>> lines = flow.source("lines", value=str)
>>> lines.flat_map(str.split).group_by(str.lower, key=str).count().sink("counts")
>>> print(flow.describe())
flow words
[lines] > flat_map split > group_by lower > count > [counts]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Literal, TypeVar, cast, overload

from millstream.codec import key_codec
from millstream.codec.kind import named, result_of
from millstream.errors import InvalidFlow, UsageError, shown
from millstream.flow.branch import Branch
from millstream.flow.check import problems_of
from millstream.flow.graph import Graph
from millstream.flow.kinds import Kind, differ
from millstream.flow.node import (
    DeadLetters,
    FromFiles,
    FromStream,
    Generated,
    Merge,
    Node,
    OnError,
    Origin,
    Sink,
    Source,
    Ticks,
)
from millstream.flow.picture import picture
from millstream.flow.site import Site, users_site
from millstream.flow.stream import Grouped, Stream
from millstream.flow.table import Table
from millstream.names import check_name

K = TypeVar("K")
V = TypeVar("V")
N = TypeVar("N", bound=Node)

_EVERY = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class Flow:
    """A description of a job; nothing runs until an engine, or the model machine, is given it."""

    def __init__(self, name: str, *, on_error: OnError = "fail") -> None:
        """A flow without any nodes. `on_error` is for the steps that say nothing of their own."""
        self.name = check_name("flow", name)
        self._site = users_site()
        self._nodes: list[Node] = []
        self._problems: list[tuple[Site, str]] = []
        self._on_error: OnError = "fail"
        self._on_error = self._policy(on_error)
        self._cycles: dict[str, Source] = {}

    # -- sources

    @overload
    def source(
        self,
        stream: str,
        *,
        key: Kind[K],
        value: Kind[V],
        key_codec: str | None = None,
        value_codec: str | None = None,
        on_error: OnError | None = None,
    ) -> Stream[K, V]: ...
    @overload
    def source(
        self,
        stream: str,
        *,
        value: Kind[V],
        key_codec: str | None = None,
        value_codec: str | None = None,
        on_error: OnError | None = None,
    ) -> Stream[None, V]: ...
    def source(
        self,
        stream: str,
        *,
        key: Any = None,
        value: Any,
        key_codec: str | None = None,
        value_codec: str | None = None,
        on_error: OnError | None = None,
    ) -> Stream[Any, Any]:
        """The records of a stream of the log. Without `key`, its keys are of no interest, and read as None.

        The codecs follow from the types: text and bytes are as they are, everything else is JSON, unless
        said otherwise ("json", "msgpack", "str", "bytes"). `on_error` is for records that cannot be read.
        """
        return self._source(stream, FromStream(stream, key_codec, value_codec), key, value, on_error)

    @overload
    def from_file(
        self, pattern: str, *, value: Kind[V], on_error: OnError | None = None
    ) -> Stream[None, V]: ...
    @overload
    def from_file(self, pattern: str, *, on_error: OnError | None = None) -> Stream[None, Any]: ...
    def from_file(
        self, pattern: str, *, value: Any = Any, on_error: OnError | None = None
    ) -> Stream[None, Any]:
        """The lines of the files that match a pattern: text (`value=str`) as it is, everything else as JSON.

        Without `value`, whatever JSON says: dicts, lists, texts, numbers.
        """
        return self._source(pattern, FromFiles(pattern), None, value, on_error)

    def generate(
        self,
        name: str,
        function: Callable[[int], V],
        *,
        count: int | None = None,
        value: Kind[V] | None = None,
    ) -> Stream[None, V]:
        """Values made from the numbers 0, 1, 2 …, for ever or up to `count`."""
        return self._source(name, Generated(function, count), None, value or result_of(function), None)

    def clock(
        self, name: str = "clock", *, every: str, shards: int = 1, every_tick: bool = False
    ) -> Stream[int, int]:
        """A tick every so often ("10s", "500ms", "1h"): its key is a shard, its value the time in ms.

        Each of the shards ticks. Ticks that were missed come as one, the newest, unless `every_tick`.
        """
        every_ms = _milliseconds(every)
        if every_ms < 1:
            self._problem(
                f"every={shown(every)}: expected a time of 1 ms or more, like '500ms', '10s', '5m', '1h'"
            )
        if type(shards) is not int or shards < 1:
            self._problem(f"shards={shown(shards)}: expected how many shards tick, 1 or more")
        return self._source(name, Ticks(every_ms, shards, every_tick), int, int, None)

    # -- streams of the flow's own

    @overload
    def stream(self, name: str, stream: Grouped[K, V]) -> Grouped[K, V]: ...
    @overload
    def stream(self, name: str, stream: Table[K, V]) -> Table[K, V]: ...
    @overload
    def stream(self, name: str, stream: Stream[K, V]) -> Stream[K, V]: ...
    def stream(self, name: str, stream: Stream[K, V] | Table[K, V]) -> Stream[K, V] | Table[K, V]:
        """Keep a stream, or the updates of a table, in the log under a name, and go on from there."""
        if not isinstance(stream, Stream | Table):
            self._problem(
                f"flow.stream({shown(name)}, …) was given {shown(stream)}: expected a stream or a table"
            )
            return self._source(name, FromStream(name), Any, Any, None)
        sink = self._sink(name, stream._node)
        handle: Stream[K, V] = self._source(name, FromStream(name), sink.key, sink.value, None)
        return type(stream)(self, handle._node)

    def cycle(self, name: str, *, key: Kind[K], value: Kind[V]) -> Stream[K, V]:
        """A stream that the flow itself will write, further down, by `flow.stream(name, …)` or a sink."""
        handle: Stream[K, V] = self._source(name, FromStream(name), key, value, None)
        self._cycles[name] = cast(Source, handle._node)
        return handle

    # -- several streams

    @overload
    def merge(self, *streams: Grouped[K, V]) -> Grouped[K, V]: ...
    @overload
    def merge(self, *streams: Stream[K, V]) -> Stream[K, V]: ...
    @overload
    def merge(self, **branches: Grouped[K, Any]) -> Grouped[K, Branch]: ...
    @overload
    def merge(self, **branches: Stream[K, Any]) -> Stream[K, Branch]: ...
    def merge(self, *streams: Stream[Any, Any], **branches: Stream[Any, Any]) -> Stream[Any, Any]:
        """Several streams as one; how they interleave under a key is not determined.

        With names (`left=a, right=b`) each value comes as a `Branch` that says by which it came.
        """
        return self._merge("merge", streams, branches)

    # -- looking at it

    def build(self, *, streams: Collection[str] | None = None) -> Graph:
        """The nodes, checked: `InvalidFlow` lists all that is wrong, each with its line.

        With `streams`, the names of those that there are, streams that the flow reads must be among them:
        `flow.build(streams=log.streams())`.
        """
        found = {*self._problems, *problems_of(self._nodes, self._cycles, streams, self._site)}
        if found:
            lines = tuple(f"{site}: {what}" for site, what in sorted(found))
            some = "1 thing is" if len(lines) == 1 else f"{len(lines)} things are"
            text = "\n".join(f"  {line}" for line in lines)
            raise InvalidFlow(f"flow '{self.name}' cannot be run; {some} wrong:\n{text}", problems=lines)
        return Graph(self.name, tuple(self._nodes), self._on_error)

    def run(self, url: str, **options: Any) -> Any:
        """Run it on Spark, on the log at this URL; gives a summary when it has ended.

        `until`: "end" (of what the inputs have now), seconds, or None: until it is stopped. `finish=True`
        closes it then. `master`: where Spark is ("local[*]": here). `pages`: into how many parts states are
        divided. `latency_ms`: what to aim at. `records_max`: how many records an epoch has at most.
        `checkpoint`: the folder for what Spark keeps. `max_epochs`, `on_epoch`, `settings` (Spark's own),
        `verbose`: see `millstream.engine.spark`.
        """
        from importlib import import_module  # engines know flows, not the other way round

        return import_module("millstream.engine.spark").run(self, url, **options)

    def graph(self, form: Literal["text", "mermaid", "dot"] = "text") -> str:
        """A picture of it."""
        return picture(self.build(), form)

    def describe(self) -> str:
        """What it does, in lines of text."""
        return self.graph("text")

    # -- how it is made

    def _sink(self, name: str, node: Node, **said: Any) -> Sink:
        """A sink, and what was said of it: `key`, `value`, `key_codec`, `value_codec`.

        Of a cycle it was said where it begins.
        """
        given = {what: kind for what, kind in said.items() if kind is not None}
        begins = self._cycles.get(name, node)
        known = {
            "key": begins.key if node.key is Any else node.key,
            "value": begins.value if node.value is Any else node.value,
        }
        fields = {**known, **given}
        return self._add(Sink, name=name, stream=name, upstream=(node,), grouped=node.grouped, **fields)

    def _merge(
        self, operation: str, streams: tuple[object, ...], branches: Mapping[str, object]
    ) -> Grouped[Any, Any]:
        """A merge, which may be a part of another operation."""
        if streams and branches:
            self._problem("merge was given streams with names and without: give all of them names, or none")
        given = [
            one
            for one in (self._checked(operation, each) for each in (*streams, *branches.values()))
            if one is not None
        ]
        if not given:
            self._problem("merge was given no streams: pass some, or some by name as in left=a, right=b")
            given = [self._source("nothing", Generated(int, 0), Any, Any, None)]
            branches = {}
        nodes = tuple(one._node for one in given)
        self._same_kind(operation, "keys", [node.key for node in nodes])
        kind = Branch if branches else self._same_kind(operation, "values", [node.value for node in nodes])
        grouped = all(one._is_grouped for one in given)
        node = self._add(
            Merge,
            name="merge",
            upstream=nodes,
            key=_known([node.key for node in nodes]),
            value=kind,
            branches=tuple(branches) if len(branches) == len(nodes) else (),
            grouped=grouped,
        )
        return cast("Grouped[Any, Any]", (Grouped if grouped else Stream)(self, node))

    def _checked(self, operation: str, given: object) -> Stream[Any, Any] | None:
        """A stream that was passed as an argument; a table goes on as its updates, with a problem."""
        if isinstance(given, Stream):
            return given
        if isinstance(given, Table):
            self._problem(f"{operation} was given a table: pass the stream of its changes, .updates()")
            return given.updates()
        self._problem(f"{operation} was given {shown(given)}: expected a stream of this flow")
        return None

    def _table(self, given: object, key: Any) -> Table[Any, Any]:
        """A table that was passed as an argument; a stream goes on as its latest values, with a problem."""
        if isinstance(given, Table):
            return given
        self._problem(
            "join was given a stream: expected a table, as from .group_by_key().latest()"
            if isinstance(given, Stream)
            else f"join was given {shown(given)}: expected a table of this flow"
        )
        node = (
            given._node
            if isinstance(given, Stream)
            else self._source("?", Generated(int, 0), key, Any, None)._node
        )
        return Table(self, node)

    def _source(
        self,
        name: str,
        origin: Origin,
        key: Any,
        value: Any,
        on_error: OnError | None,
    ) -> Stream[Any, Any]:
        kind = type(None) if key is None else key
        return Stream(
            self,
            self._add(
                Source, name=name, anchor=name, key=kind, value=value, origin=origin, on_error=on_error
            ),
        )

    def _add(
        self,
        kind: type[N],
        *,
        upstream: tuple[Node, ...] = (),
        anchor: str | None = None,
        on_error: OnError | None = None,
        **fields: Any,
    ) -> N:
        """Add a node; its anchor is its own name, or those of what it reads from."""
        if anchor is None:
            names = {node.anchor for node in upstream}
            anchor = "+".join(sorted(names)) if len(names) > 1 else next(iter(names))
        node = kind(
            id=len(self._nodes),
            upstream=upstream,
            anchor=anchor,
            site=users_site(),
            on_error=self._on_error if on_error is None else self._policy(on_error),
            **fields,
        )
        for one in upstream:
            if one.id >= len(self._nodes) or self._nodes[one.id] is not one:
                self._problem(
                    f"{_kind_of(one)} '{one.label}', made at {one.site}, belongs to another flow: streams "
                    "meet in one flow, or through the log"
                )
        self._nodes.append(node)
        return node

    def _policy(self, policy: OnError) -> OnError:
        if policy not in ("fail", "skip") and not isinstance(policy, DeadLetters):
            self._problem(f"on_error={shown(policy)}: expected 'fail', 'skip' or dead_letter(\"stream\")")
            return "fail"
        return policy

    def _problem(self, what: str) -> None:
        self._problems.append((users_site(), what))

    def _same_kind(self, operation: str, what: str, kinds: list[Any]) -> Any:
        """The one type that all have, as far as they are known."""
        known = _known(kinds)
        for kind in kinds:
            if differ(kind, known) or (what == "keys" and _form_of_keys(kind) != _form_of_keys(known)):
                self._problem(
                    f"{operation} of streams whose {what} are {named(known)} and {named(kind)}: "
                    f"{_HINTS[what]}"
                )
                break
        return known

    def __repr__(self) -> str:
        """Its name and size."""
        return f"<Flow {self.name}: {len(self._nodes)} nodes>"


_HINTS = {
    "keys": "they must be of one type; group_by gives other keys, and key= says their type",
    "values": "give the streams names, as in merge(left=a, right=b), or map them to one type",
}


def dead_letter(stream: str) -> DeadLetters:
    """The policy `on_error=dead_letter("stream")`: what a step fails on goes there, with the reason."""
    return DeadLetters(check_name("stream", stream))


def _known(kinds: Iterable[Any]) -> Any:
    return next((kind for kind in kinds if kind is not Any), Any)


def _form_of_keys(kind: Any) -> str:
    """The codec that keys of a type go by; what none can write is told elsewhere."""
    try:
        return key_codec(kind).name
    except UsageError:
        return ""


def _kind_of(node: Node) -> str:
    return "the source" if isinstance(node, Source) else "the step"


def _milliseconds(every: object) -> int:
    """A time in text as milliseconds; 0: it is none."""
    found = _EVERY.fullmatch(every) if isinstance(every, str) else None
    return round(float(found[1]) * _UNITS_MS[found[2]]) if found else 0
