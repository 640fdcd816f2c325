"""One run: the inputs in the order of their timestamps, as live traffic has them."""

from __future__ import annotations

from millstream.flow.flow import Flow
from millstream.flow.graph import Graph
from millstream.flow.node import Stateful
from millstream.operators import meaning_of
from millstream.testing.inputs import Inputs, feeds_of, machine_of
from millstream.testing.result import Result


def run(flow: Flow | Graph, inputs: Inputs, *, finish: bool = False) -> Result:
    """What comes of these inputs, in one legal order.

    With `finish` the run is closed at its end: what steps have left over comes out.
    """
    graph = flow if isinstance(flow, Graph) else flow.build()
    feeds = feeds_of(graph, inputs)
    machine = machine_of(graph, feeds, choosing=False)
    for feed in feeds:
        machine.feed(feed.source, feed.meta, feed.data)
    for node in closing(graph, finish=finish):
        machine.finish(node)
    return Result(machine.world, streams_of(graph))


def closing(graph: Graph, *, finish: bool) -> list[Stateful]:
    """The steps to close at the end, one by one from the top down, whenever all has come to rest."""
    steps = (node for node in graph.nodes if isinstance(node, Stateful))
    return [node for node in steps if finish and meaning_of(node.step).finish is not None]


def streams_of(graph: Graph) -> list[str]:
    """The streams that a flow writes."""
    return [*graph.own_streams, *sorted(graph.dead_letters)]
