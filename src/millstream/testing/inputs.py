"""The inputs of a run: for each source of a flow its records, and the order in which live traffic comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from millstream.errors import WrongType, shown
from millstream.flow.codecs import key_codec_of, value_codec_of
from millstream.flow.flow import Flow
from millstream.flow.graph import Graph
from millstream.flow.node import Generated, Source, Ticks
from millstream.testing.machine import STEPS_MAX, Machine
from millstream.testing.record import In, Poison, rows_of
from millstream.testing.world import Meta, World

Inputs: TypeAlias = Mapping[str, Any]  # of each source a list, a table in text, or how many


class Feed(NamedTuple):
    """A record, on its way into a source: as bytes, as it would lie in the log."""

    order: int  # the largest timestamp of its shard so far: a shard is read in its own order
    source: Source
    meta: Meta
    data: bytes | None


def feeds_of(graph: Graph, inputs: Inputs) -> list[Feed]:
    """All records, in the order in which live traffic has them."""
    if not isinstance(inputs, Mapping):
        raise WrongType(f"{shown(inputs)}: expected a dict, which has for each source its records")
    unknown = [name for name in inputs if name not in graph.inputs]
    if unknown:
        raise WrongType(
            f"the flow '{graph.name}' does not read {shown(unknown[0])} from outside: it reads "
            f"{', '.join(map(repr, graph.inputs)) or 'nothing'}"
        )
    found: list[Feed] = []
    for name, source in graph.inputs.items():
        key_encode, value_encode = key_codec_of(source).encode, value_codec_of(source).encode
        ends: dict[int, tuple[int, int]] = {}  # of each shard the next seq and the largest timestamp
        for record in _records(source, inputs.get(name)):
            seq, latest = ends.get(record.shard, (0, 0))
            timestamp = seq if record.timestamp is None else record.timestamp
            latest = max(latest, timestamp) if seq else timestamp
            ends[record.shard] = seq + 1, latest
            try:
                key, data = _written(record.key, key_encode), _written(record.value, value_encode)
            except WrongType as error:
                raise WrongType(f"the input '{name}', shard {record.shard}, seq {seq}: {error}") from None
            meta = Meta(key, key, timestamp, source.name, record.shard, seq, 0)
            found.append(Feed(latest, source, meta, data))
    return sorted(found, key=lambda feed: feed.order)


def machine_of(
    flow: Flow | Graph,
    feeds: list[Feed],
    *,
    choosing: bool,
    steps_max: int = STEPS_MAX,
    tables_only: bool = False,
) -> Machine:
    """A machine for these inputs."""
    graph = flow if isinstance(flow, Graph) else flow.build()
    sources = [node for node in graph.nodes if isinstance(node, Source)]
    bare = {node.name for node in sources if node.key is type(None)}
    lanes = any(stream in graph.own_streams for stream in bare)
    places: dict[tuple[str, bytes | None], int] = {}
    for feed in feeds:
        name, shard = feed.source.name, feed.meta.shard
        place = name, None if name in bare else feed.meta.key_bytes
        lanes = lanes or places.setdefault(place, shard) != shard
    return Machine(graph, choosing=choosing, lanes=lanes, steps_max=steps_max, tables_only=tables_only)


def _written(value: Any, encode: Callable[[Any], bytes]) -> bytes | None:
    """A key or a value as it lies in the log."""
    if isinstance(value, Poison):
        return value.data
    return None if value is None else encode(value)


def _records(source: Source, given: Any) -> list[In]:
    match source.origin:
        case Generated(function, count):
            if isinstance(given, int) or given is None:
                size = count if given is None else given
                if size is None:
                    raise WrongType(
                        f"'{source.name}' generates values for ever: say how many, as in "
                        f"{{{source.name!r}: 100}}"
                    )
                return [In(function(index)) for index in range(size)]
        case Ticks(every_ms, shards, _):
            times = (
                [every_ms * tick for tick in range(1, given + 1)] if isinstance(given, int) else given or []
            )
            if not all(type(time) is int for time in times):
                raise WrongType(f"'{source.name}' is a clock: expected how many ticks, or their times in ms")
            return [In(time, shard, time, shard) for time in times for shard in range(shards)]
        case _:
            pass
    return rows_of([] if given is None else given, source.key, source.value)


def begun(
    flow: Flow | Graph, inputs: Inputs, steps_max: int = STEPS_MAX, *, tables_only: bool = False
) -> tuple[Graph, Machine, World]:
    """A machine with all inputs in it."""
    graph = flow if isinstance(flow, Graph) else flow.build()
    feeds = feeds_of(graph, inputs)
    machine = machine_of(graph, feeds, choosing=True, steps_max=steps_max, tables_only=tables_only)
    for feed in feeds:
        machine.feed(feed.source, feed.meta, feed.data)
    return graph, machine, machine.world
