"""Connected components: edges come one by one, and each node learns the smallest that it is connected to.

A node that learns of a smaller one tells its neighbours, through a cycle, until there is nothing to tell.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

from millstream.flow import Flow
from millstream.testing import run

EDGES = [(4, 5), (1, 2), (5, 6), (7, 8), (2, 3), (3, 4)]


class Node(NamedTuple):
    """What a node knows, and whom it tells now."""

    smallest: int = sys.maxsize
    neighbours: frozenset[int] = frozenset()
    tells: frozenset[int] = frozenset()


def ends_of(edge: tuple[int, int]) -> list[tuple[int, tuple[int, int]]]:
    """An edge is news for each of its ends: a neighbour, and the smallest node that it knows of."""
    return [(edge[0], (edge[1], min(edge))), (edge[1], (edge[0], min(edge)))]


def learn(node: Node, news: tuple[int, int]) -> Node:
    """A smaller node is told to all other neighbours; a neighbour that knows less is told what it is."""
    neighbour, heard = news
    smallest, neighbours = min(heard, node.smallest), node.neighbours | {neighbour}
    if smallest < node.smallest:
        return Node(smallest, neighbours, neighbours - {neighbour})
    return Node(smallest, neighbours, frozenset({neighbour} if smallest < heard else ()))


def news_of(node: Node) -> list[tuple[int, int]]:
    """Each neighbour that is told, and what it is told."""
    return [(neighbour, node.smallest) for neighbour in sorted(node.tells)]


def flow() -> Flow:
    """Edges to a table of nodes, each with the smallest node of its component."""
    flow = Flow("connected_components")
    ends = flow.source("edges", value=tuple[int, int]).flat_map(ends_of)
    seen = ends.group_by(lambda end: end[0], key=int).map(lambda end: end[1])
    told = flow.cycle("told", key=int, value=tuple[int, int]).group_by_key()
    nodes = flow.merge(seen, told).fold(Node(), learn)
    nodes.map(lambda node: node.smallest, value=int).sink("components")
    flow.stream("told", nodes.flat_map(news_of).invert())
    return flow


if __name__ == "__main__":
    print(f"{flow().describe()}\n")
    for node, component in sorted(run(flow(), {"edges": EDGES}).table("components").items()):
        print(f"{node} belongs to {component}")
