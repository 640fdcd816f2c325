"""How runs end: in every order that there is, and in some by chance."""

from collections.abc import Iterator
from typing import Any

from millstream.flow import Flow
from millstream.testing import Inputs, explore, runs

Tables = tuple[dict[Any, Any], ...]


def every_end(flow: Flow, inputs: Inputs, *tables: str) -> list[Tables]:
    """What these tables can be at the end: each way once, none left out."""
    exploration = explore(flow, inputs, tables=tables, limit=1_000_000)
    found: list[Tables] = []
    for result in exploration:
        end = tuple(result.table(name) for name in tables)
        if end not in found:
            found.append(end)
    assert exploration.left == 0
    return found


def some_ends(flow: Flow, inputs: Inputs, seed: int, *tables: str) -> Iterator[Tables]:
    """What they are after a few runs by chance."""
    for result in runs(flow, inputs, seed=seed, count=3):
        yield tuple(result.table(name) for name in tables)


def same(found: list[Tables], allowed: list[Tables]) -> bool:
    """Whether what was found is all that is allowed."""
    return all(end in allowed for end in found) and all(end in found for end in allowed)
