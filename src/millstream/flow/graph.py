"""The graph of a flow: its nodes, checked, in an order in which each comes after those it reads from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from millstream.codec.kind import records_in
from millstream.flow.node import DeadLetters, Merge, Node, OnError, Sink, Source, Stateful
from millstream.flow.steps import Join


@dataclass(frozen=True)
class Graph:
    """What an engine reads of a flow."""

    name: str
    nodes: tuple[Node, ...]
    on_error: OnError = "fail"  # of the steps that say nothing of their own

    @cached_property
    def targets(self) -> dict[Node, list[tuple[Node, int]]]:
        """For each node those that read from it, and by which of their inputs."""
        found: dict[Node, list[tuple[Node, int]]] = {node: [] for node in self.nodes}
        for node in self.nodes:
            for place, upstream in enumerate(node.upstream):
                found[upstream].append((node, place))
        return found

    def joined(self, node: Node) -> Stateful | None:
        """The join that a merge is the first part of, if it is."""
        targets = self.targets[node] if isinstance(node, Merge) else []
        target = targets[0][0] if len(targets) == 1 else None
        if isinstance(target, Stateful) and isinstance(target.step, Join):
            return target
        return None

    @cached_property
    def own_streams(self) -> dict[str, Sink]:
        """The streams that the flow writes."""
        return {node.stream: node for node in self.nodes if isinstance(node, Sink)}

    @cached_property
    def inputs(self) -> dict[str, Source]:
        """The sources that read from outside, by name: one of each, where several read the same."""
        found: dict[str, Source] = {}
        for node in self.nodes:
            if isinstance(node, Source) and node.read_stream not in self.own_streams:
                found.setdefault(node.name, node)
        return found

    @cached_property
    def dead_letters(self) -> set[str]:
        """The streams that records go to which a step failed on."""
        return {node.on_error.stream for node in self.nodes if isinstance(node.on_error, DeadLetters)}

    @cached_property
    def records(self) -> dict[str, type]:
        """The classes with fields that the flow is known to use, by name."""
        found: dict[str, type] = {}
        for node in self.nodes:
            kinds = [node.key, node.value]
            if isinstance(node, Stateful):
                kinds += [node.state, type(getattr(node.step, "zero", None))]
            for kind in kinds:
                found.update(records_in(kind))
        return found
