"""A flow as lines of text: a line for each chain of steps.

Numbers in brackets say where several lines go on from one step, or come together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from millstream.flow.graph import Graph
from millstream.flow.node import DeadLetters, FromStream, Merge, Node, Sink, Source

WIDTH = 100


def text_of(graph: Graph) -> str:
    """The lines."""
    return "\n".join(_Text(graph).lines())


class _Text:
    """The numbers that were given so far, in the order in which they are needed."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._numbers: dict[Node, str] = {}

    def lines(self) -> Iterator[str]:
        graph = self._graph
        yield f"flow {graph.name}{_errors(graph.on_error)}"
        for node in graph.nodes:
            if isinstance(node, Merge):
                yield from _wrapped([self._branches(node), *self._chain(node)])
            if isinstance(node, Source) or self._is_split(node):
                start = _box(node) + self._dead(node) if isinstance(node, Source) else self._number(node)
                for target, _ in graph.targets[node]:
                    if not isinstance(target, Merge):
                        yield from _wrapped([start, *self._chain(target)])

    def _is_split(self, node: Node) -> bool:
        """Whether a line ends here, and others go on from it."""
        targets = [target for target, _ in self._graph.targets[node]]
        return not isinstance(node, Source) and (
            len(targets) > 1 or any(isinstance(target, Merge) for target in targets)
        )

    def _number(self, node: Node) -> str:
        return self._numbers.setdefault(node, f"({len(self._numbers) + 1})")

    def _chain(self, node: Node) -> Iterator[str]:
        """The steps from a node on, up to where the line ends."""
        graph = self._graph
        begun = graph.joined(node)  # the line has begun with it
        node = begun or node
        while True:
            if isinstance(node, Sink):
                yield f"[{node.stream}]"
                return
            if not (isinstance(node, Merge) or node.quiet or node is begun):
                yield node.label + self._dead(node)
            if self._is_split(node):
                yield self._number(node)
                return
            if not graph.targets[node]:
                return
            node = graph.targets[node][0][0]

    def _branches(self, node: Merge) -> str:
        join = self._graph.joined(node)
        parts = []
        for name, upstream in zip(node.branches or ("",) * len(node.upstream), node.upstream, strict=True):
            where = _box(upstream) if isinstance(upstream, Source) else self._number(upstream)
            parts.append(f"{name} {where}".strip())
        return f"{'merge' if join is None else f'{join.label}:'} {' + '.join(parts)}"

    def _dead(self, node: Node) -> str:
        return "" if node.on_error == self._graph.on_error else _errors(node.on_error)


def _errors(policy: object) -> str:
    """Where errors go; what fails and stops needs no word."""
    if isinstance(policy, DeadLetters):
        return f" (errors to [{policy.stream}])"
    return " (errors are skipped)" if policy == "skip" else ""


def _box(node: Source) -> str:
    return f"[{node.name}]" if isinstance(node.origin, FromStream) else f"<{node.name}>"


def _wrapped(parts: Iterable[str]) -> Iterator[str]:
    """A chain as one line, or several where it is long."""
    line = ""
    for part in parts:
        longer = f"{line} > {part}" if line else part
        if line and len(longer) > WIDTH:
            yield line
            line = f"    > {part}"
        else:
            line = longer
    yield line
