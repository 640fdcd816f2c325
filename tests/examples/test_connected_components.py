"""Connected components: in whatever order edges come and nodes hear of each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.connected_components import flow
from tests.examples.ends import every_end, some_ends

Edges = list[tuple[int, int]]

EDGES: list[Edges] = [
    [],
    [(1, 1)],
    [(2, 1)],
    [(1, 2), (1, 2)],
    [(1, 2), (3, 4), (2, 3)],
    [(3, 4), (2, 3), (1, 2)],
    [(1, 2), (2, 3), (3, 1)],
    [(4, 1), (4, 2), (4, 3)],
    [(5, 4), (4, 3), (3, 2), (2, 1)],
    [(1, 2), (8, 9)],
]


def components(edges: Edges) -> dict[int, int]:
    """Each node with the smallest node of its component."""
    labels = {node: node for edge in edges for node in edge}
    for start, stop in edges:
        old, new = sorted((labels[start], labels[stop]), reverse=True)
        labels = {node: new if label == old else label for node, label in labels.items()}
    return labels


@pytest.mark.parametrize("edges", EDGES)
def test_every_order_finds_the_components(edges: Edges) -> None:
    assert every_end(flow(), {"edges": edges}, "components") == [(components(edges),)]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=14), st.integers())
def test_components_of_many_edges(edges: Edges, seed: int) -> None:
    ends = some_ends(flow(), {"edges": edges}, seed, "components")
    assert all(end == (components(edges),) for end in ends)
