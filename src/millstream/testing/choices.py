"""Which choices can wait: where records of one place can come to another, and where they cannot.

A choice at a place is made among what waits there. If nothing that waits elsewhere can come to that place
any more, then its choices may be made now, before all others: no run is lost by it (they are a
"persistent set"). So a search goes from place to place, not through all ways in which places take turns.
"""

from __future__ import annotations

from collections.abc import Iterable

from millstream.flow.graph import Graph
from millstream.flow.node import DeadLetters, Source
from millstream.testing.world import Move, World

Numbers = dict[int, set[int]]  # of nodes; a stream of dead letters has a negative one


def letter_places(graph: Graph) -> dict[str, tuple[int, list[int]]]:
    """Of each stream of dead letters its number, as a place, and the nodes that write to it."""
    return {
        stream: (
            -1 - count,
            [
                node.id
                for node in graph.nodes
                if isinstance(node.on_error, DeadLetters) and node.on_error.stream == stream
            ],
        )
        for count, stream in enumerate(sorted(graph.dead_letters))
    }


def above(graph: Graph) -> Numbers:
    """Of each node all those from which records come to it; a node of a cycle is above itself."""
    direct: Numbers = {node.id: {one.id for one in node.upstream} for node in graph.nodes}
    for node in graph.nodes:
        if isinstance(node, Source) and node.read_stream in graph.own_streams:
            direct[node.id].add(graph.own_streams[node.read_stream].id)
    direct.update((number, set(writers)) for number, writers in letter_places(graph).values())
    return {number: _all(direct, nodes) for number, nodes in direct.items()}


def choices(world: World, above: Numbers) -> list[Move]:
    """Moves that are enough to try now: those of one place that no other can disturb, or all."""
    moves = world.enabled()
    at: dict[int, set[bytes | None]] = {}
    for move in moves:
        at.setdefault(move.place[0], set()).add(move.place[1])
    for first in moves:
        node, key = first.place
        if not any(at[other] - ({key} if other == node else set()) for other in above[node] & at.keys()):
            return [move for move in moves if move.place == first.place]
    return moves


def _all(direct: Numbers, nodes: Iterable[int]) -> set[int]:
    found: set[int] = set()
    todo = list(nodes)
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += direct[node]
    return found
