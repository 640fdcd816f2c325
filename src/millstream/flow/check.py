"""Everything wrong with a flow that can be known before it runs, each with its line."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from millstream.codec import codec_of, key_codec, state_codec
from millstream.codec.kind import custom_in, is_record, named, records_in
from millstream.errors import InvalidName, MillstreamError, UsageError, shown
from millstream.flow.check_functions import functions_of, shippable
from millstream.flow.kinds import clash, differ
from millstream.flow.node import DeadLetters, FromStream, Group, Node, Sink, Source, Stateful
from millstream.flow.site import Site
from millstream.names import check_name

Problem = tuple[Site, str]


def problems_of(
    nodes: Sequence[Node], cycles: Mapping[str, Source], streams: Collection[str] | None, site: Site
) -> Iterator[Problem]:
    """All of them; `streams` are those that there are in the log, if that is known, `site` the flow's."""
    if not any(isinstance(node, Sink) for node in nodes):
        yield (
            nodes[-1].site if nodes else site,
            'nothing is written anywhere: end a stream with .sink("name")',
        )
    yield from _streams(nodes)
    yield from _cycles(nodes, cycles)
    if streams is not None:
        yield from _unknown(nodes, cycles, streams)
    yield from _names(nodes)
    for node in nodes:
        yield from ((node.site, what) for what in functions_of(node))
        yield from ((node.site, what) for what in _codecs(node))
        yield from ((node.site, what) for what in shippable(node))


def _streams(nodes: Sequence[Node]) -> Iterator[Problem]:
    """Names of streams: each written once, and of one type wherever it is used."""
    written: dict[str, Sink] = {}
    read: dict[str, Source] = {}
    for node in nodes:
        if isinstance(node, Sink):
            yield from _named(node, node.stream)
            yield from _sinks_types(node)
            if node.stream in written:
                yield (
                    node.site,
                    f"the stream '{node.stream}' is written already, at {written[node.stream].site}: "
                    "merge the two, or give this one another name",
                )
            written.setdefault(node.stream, node)
        elif isinstance(node, Source) and isinstance(node.origin, FromStream):
            yield from _named(node, node.origin.stream)
            yield from _same_types(node, read.setdefault(node.origin.stream, node), "read with")
    for stream, source in read.items():
        if stream in written:
            trouble = list(_same_types(source, written[stream], "written with"))
            yield from trouble or _same_codecs(written[stream], source)
    letters = {
        node.on_error.stream: node for node in reversed(nodes) if isinstance(node.on_error, DeadLetters)
    }
    for stream, node in letters.items():
        if stream in written or stream in read:
            other = written.get(stream) or read[stream]
            yield (
                node.site,
                f"dead letters go to the stream '{stream}', which is used at {other.site} too: they need a "
                "stream of their own",
            )


def _named(node: Node, stream: str) -> Iterator[Problem]:
    try:
        check_name("stream", stream)
    except InvalidName as error:
        yield node.site, str(error)


def _sinks_types(node: Sink) -> Iterator[Problem]:
    """What a sink is said to write, and what it is given."""
    before = node.upstream[0]
    for what, given, said in (("key", before.key, node.key), ("value", before.value, node.value)):
        if clash(given, said):
            yield (
                node.site,
                f"the sink '{node.stream}' says {what}={named(said)}, and the {what}s that it is given are "
                f"{named(given)}",
            )


def _same_types(node: Node, other: Node, how: str) -> Iterator[Problem]:
    for what, kind, known in (("keys", node.key, other.key), ("values", node.value, other.value)):
        if differ(kind, known) and type(None) not in (kind, known):
            yield (
                node.site,
                f"the {what} of the stream '{node.name}' are {named(kind)} here, and it is {how} "
                f"{named(known)} at {other.site}: a stream has one type",
            )


def _same_codecs(sink: Sink, source: Source) -> Iterator[Problem]:
    """What is written as one form of bytes is not read as another."""
    origin = source.origin
    read = (origin.key_codec, origin.value_codec) if isinstance(origin, FromStream) else (None, None)
    for what, kind, codec, known, wanted in (
        ("keys", sink.key, sink.key_codec, source.key, read[0]),
        ("values", sink.value, sink.value_codec, source.value, read[1]),
    ):
        with suppress(UsageError):  # a codec that does not suit the type is told elsewhere
            here, there = codec_of(kind, codec).name, codec_of(known, wanted).name
            if here != there and type(None) not in (kind, known):
                yield (
                    sink.site,
                    f"the {what} of the stream '{sink.stream}' ({named(kind)}) are written as {here!r} here, "
                    f"and read as {there!r} at {source.site}: say their type, or the same codec",
                )


def _cycles(nodes: Sequence[Node], cycles: Mapping[str, Source]) -> Iterator[Problem]:
    written = {node.stream: node for node in nodes if isinstance(node, Sink)}
    for name, source in cycles.items():
        if name not in written:
            yield (
                source.site,
                f"the cycle '{name}' is never closed: end it with flow.stream('{name}', …), which keeps its "
                "records in the log",
            )
    for source in (node for node in nodes if isinstance(node, Source)):
        if source.read_stream is None or source.read_stream in cycles:
            continue
        sink = written.get(source.read_stream)
        if sink is not None and sink.id > source.id:
            yield (
                sink.site,
                f"the stream '{sink.stream}' is read at {source.site} before it is written here: for a cycle "
                f"say flow.cycle('{sink.stream}', …) there, else choose another name",
            )


def _unknown(
    nodes: Sequence[Node], cycles: Mapping[str, Source], streams: Collection[str]
) -> Iterator[Problem]:
    """Streams that are read, and that are neither in the log nor written by the flow."""
    own = {node.stream for node in nodes if isinstance(node, Sink)} | set(cycles)
    for node in nodes:
        if not isinstance(node, Source) or node.read_stream is None:
            continue
        name = node.read_stream
        if name not in own and name not in streams:
            near = difflib.get_close_matches(str(name), sorted({*streams, *own}), 3)
            hint = f"did you mean {' or '.join(map(repr, near))}?" if near else _those_there(streams)
            yield node.site, f"there is no stream {shown(name)} in the log: {hint}"


def _those_there(streams: Collection[str]) -> str:
    if not streams:
        return "it has none yet; create it first"
    some = sorted(streams)
    more = f" and {len(some) - 5} more" if len(some) > 5 else ""
    return f"there are {', '.join(map(repr, some[:5]))}{more}"


def _names(nodes: Sequence[Node]) -> Iterator[Problem]:
    """Names of stateful steps: there must be one, and only one step of that name."""
    known: dict[str, Node] = {}
    for node in nodes:
        if not isinstance(node, Stateful):
            continue
        given = node.anchor == node.name
        if not isinstance(node.name, str):
            yield node.site, f"name={shown(node.name)}: expected a text, the name to keep the state under"
        elif not given and node.step.nameless:
            yield (
                node.site,
                f"{node.step.label} keeps state and has no name to keep it under: pass name=, or a function "
                "that has one",
            )
        elif node.name in known:
            yield (
                node.site,
                f"the step at {known[node.name].site} is called '{node.name}' too, and which state is whose "
                "would depend on their order: pass name=",
            )
        else:
            known[node.name] = node


def _codecs(node: Node) -> Iterator[str]:
    """Types that no codec can write, and states that would not come back as they are."""
    if isinstance(node, Sink):
        yield from _fits(key_codec, node.key, node.key_codec, "key")
        yield from _fits(codec_of, node.value, node.value_codec, "value")
    elif isinstance(node, Source) and isinstance(node.origin, FromStream):
        yield from _fits(key_codec, node.key, node.origin.key_codec, "key")
        yield from _fits(codec_of, node.value, node.origin.value_codec, "value")
    elif isinstance(node, Group):
        yield from _fits(key_codec, node.key, None, "key")
    elif isinstance(node, Stateful) and hasattr(node.step, "zero"):
        yield from _first_state(node, node.step.zero)


def _fits(
    choose: Callable[[Any, str | None], object], kind: Any, codec: str | None, what: str
) -> Iterator[str]:
    if isinstance(kind, str | bytes | int | float) or is_record(type(kind)):
        yield f"{what}={shown(kind)}: expected a type, like str, list[int] or a msgspec.Struct"
        return
    strange = custom_in(kind)
    if strange is not None:
        yield (
            f"{what}: nothing says what a value of type {named(strange)} is made of, so it cannot be "
            "written: make it a dataclass or a msgspec.Struct"
        )
        return
    try:
        choose(kind, codec)
    except UsageError as error:
        yield f"{what}: {error}"


def _first_state(node: Stateful, zero: object) -> Iterator[str]:
    """The state that a step begins with must come back as it is."""
    codec = state_codec(node.state, {**records_in(node.state), **records_in(type(zero))})
    try:
        data = codec.encode(zero)
    except MillstreamError as error:
        yield f"the first state: {error}"
        return
    try:
        again = codec.decode(data)
    except MillstreamError:
        yield (
            f"the first state, {shown(zero)}, is no {named(node.state)}, which is the type of the state: "
            "begin with another, or say the type with state="
        )
        return
    if again != zero and repr(again) != repr(zero):
        yield (
            f"the first state, {shown(zero)}, would come back as {shown(again)}: say its type with state=, "
            "or begin with another"
        )
