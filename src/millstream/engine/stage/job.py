"""Jobs: a flow is cut at its named streams into jobs, and a job at its regroupings into levels.

A level is what happens to records between two regroupings, in one task: level 0 where they are read, the
others where the records of a page are. An edge from one level to a deeper one is a way for parcels.

>>> from millstream.flow import Flow
>>> flow = Flow("words")
>>> words = flow.source("lines", value=str).flat_map(str.split).group_by(str.lower, key=str)
>>> flow.stream("counts", words.count()).updates().sink("copy")
>>> [(job.name, job.depth) for job in jobs_of(flow.build())]
[('words.counts', 1), ('words.copy', 0)]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from millstream.flow.graph import Graph
from millstream.flow.node import DeadLetters, Group, Merge, Node, Sink, Source, Stateful
from millstream.flow.steps import Combine
from millstream.names import short_name
from millstream.operators import meaning_of


@dataclass(frozen=True)
class Edge:
    """A way into a node of a deeper level: `place` says by which of its inputs."""

    node: Node
    place: int
    level: int  # of the node

    @property
    def id(self) -> tuple[int, int]:
        """The node's id and the place."""
        return self.node.id, self.place


@dataclass(frozen=True)
class Job:
    """What runs as one query: nodes that are connected by other ways than a named stream."""

    name: str
    graph: Graph
    nodes: tuple[Node, ...]

    @cached_property
    def levels(self) -> dict[Node, int]:
        """The level of each node: of a group it is that of what comes out."""
        found: dict[Node, int] = {}
        for node in self.nodes:
            above = max((found[one] for one in node.upstream), default=0)
            found[node] = above + (isinstance(node, Group) and not self.stays(node))
        for node in self._after_split_merges(found):
            found[node] = 1
        return found

    def _after_split_merges(self, levels: Mapping[Node, int]) -> list[Sink]:
        """Sinks where records are read, after a merge whose records go to a deeper level as well.

        Each shard is read by itself there, and only where a page is do records of several come together:
        so it is there that the sink writes, in the order that all who read from the merge see.
        """
        reached: dict[Node, set[Node]] = {}
        for node in reversed(self.nodes):
            below = [target for target, _ in self.targets(node)]
            reached[node] = {node}.union(*(reached[target] for target in below))
        found = set()
        for node in self.nodes:
            if isinstance(node, Merge) and not levels[node] and any(levels[one] for one in reached[node]):
                found |= {one for one in reached[node] if isinstance(one, Sink) and not levels[one]}
        return sorted(found, key=lambda node: node.id)

    def stays(self, node: Group) -> bool:
        """Whether records are already where a group would bring them: by the key that they have."""
        return node.function is None and node.upstream[0].grouped

    @cached_property
    def depth(self) -> int:
        """How many regroupings records go through at most."""
        return max(self.levels.values(), default=0)

    @cached_property
    def sources(self) -> dict[str, list[Source]]:
        """The sources, by what they read."""
        found: dict[str, list[Source]] = {}
        for node in self.nodes:
            if isinstance(node, Source):
                found.setdefault(node.name, []).append(node)
        return found

    def targets(self, node: Node) -> list[tuple[Node, int]]:
        """Those that read from a node, and by which of their inputs."""
        return self.graph.targets[node]

    def edge(self, node: Node, target: Node, place: int) -> Edge | None:
        """The edge between two nodes of the job, if they are at different levels."""
        if self.levels[target] == self.levels[node]:
            return None
        return Edge(target, place, self.levels[target])

    @cached_property
    def edges(self) -> dict[tuple[int, int], Edge]:
        """All edges between levels, by id."""
        found = (self.edge(node, *target) for node in self.nodes for target in self.targets(node))
        return {edge.id: edge for edge in found if edge is not None}

    def at(self, level: int) -> tuple[Node, ...]:
        """The nodes of a level, in an order in which each comes after those it reads from."""
        return tuple(node for node in self.nodes if self.levels[node] == level)

    def streams_at(self, level: int) -> list[str]:
        """The streams that a level writes, dead letters too."""
        nodes = [*self.at(level), *(self._groups_into_deeper(level))]
        found = {node.stream for node in nodes if isinstance(node, Sink)}
        found |= {node.on_error.stream for node in nodes if isinstance(node.on_error, DeadLetters)}
        for source in self.nodes:
            if isinstance(source, Source) and isinstance(source.on_error, DeadLetters):
                found |= {source.on_error.stream} if level in self._read_at(source) else set()
        return sorted(found)

    def fence(self, level: int, place: str) -> str:
        """The name under which tasks of a level commit: `place` is a page, or a shard that is read.

        No two levels have the same: a sink is at one level only, and where there is none, the level is told.
        """
        sinks = sorted(node.stream for node in self.at(level) if isinstance(node, Sink))
        return short_name(f"{self.name}.{sinks[0] if sinks else f'.{level}'}.{place}")

    def _read_at(self, node: Node) -> set[int]:
        """The levels where values of a source may be read: they stay bytes until somebody asks for them."""
        found = {self.levels[node]}
        for target, _ in self.targets(node):
            passed_on = isinstance(target, Merge) or (isinstance(target, Group) and target.function is None)
            found |= self._read_at(target) if passed_on else {self.levels[target]}
        return found

    @cached_property
    def streams(self) -> tuple[str, ...]:
        """The streams that it writes, but for dead letters."""
        return tuple(sorted(node.stream for node in self.nodes if isinstance(node, Sink)))

    def _groups_into_deeper(self, level: int) -> list[Node]:
        """Groups whose functions are called at a level: what comes out of them is at a deeper one."""
        return [
            node
            for node in self.nodes
            if isinstance(node, Group) and not self.stays(node) and self.levels[node.upstream[0]] == level
        ]

    @cached_property
    def stateful(self) -> dict[str, Stateful]:
        """The steps that keep a state, by name."""
        return {node.name: node for node in self.nodes if isinstance(node, Stateful)}

    def comes_back(self, step: str) -> bool:
        """Whether what a step gives goes into a stream that the job reads."""
        todo: list[Node] = [self.stateful[step]]
        while todo:
            node = todo.pop()
            if isinstance(node, Sink) and node.stream in self.sources:
                return True
            todo += [target for target, _ in self.targets(node)]
        return False

    def combined(self, edge: Edge) -> Stateful | None:
        """The aggregate that all records of an edge go to, and only they: it can be combined before."""
        targets = self.targets(edge.node) if isinstance(edge.node, Group) else []
        target = targets[0][0] if len(targets) == 1 else None
        if isinstance(target, Stateful) and isinstance(target.step, Combine) and target.on_error == "fail":
            return target
        return None


def closings(jobs: Sequence[Job]) -> list[tuple[Job, tuple[str, ...]]]:
    """The steps to close at the end of a run, from the top down: each time a job, and some of its steps.

    When those of one line are closed, all that comes of it has to come to rest before those of the next.
    """
    found: list[tuple[Job, tuple[str, ...]]] = []
    owners = {node: job for job in jobs for node in job.nodes}
    for node in sorted(owners, key=lambda node: node.id):
        if isinstance(node, Stateful) and meaning_of(node.step).finish is not None:
            job = owners[node]
            if found and found[-1][0] is job and not any(map(job.comes_back, found[-1][1])):
                found[-1] = job, (*found[-1][1], node.name)
            else:
                found.append((job, (node.name,)))
    return found


def jobs_of(graph: Graph) -> list[Job]:
    """The jobs of a flow, named after the first of the streams that each writes."""
    root: dict[Node, Node] = {node: node for node in graph.nodes}

    def find(node: Node) -> Node:
        while root[node] is not node:
            node = root[node]
        return node

    for node in graph.nodes:
        for one in node.upstream:
            root[find(one)] = find(node)
    parts: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        parts.setdefault(find(node), []).append(node)
    jobs = []
    for nodes in parts.values():
        written = sorted(node.stream for node in nodes if isinstance(node, Sink))
        letters = sorted(node.on_error.stream for node in nodes if isinstance(node.on_error, DeadLetters))
        if written or letters:  # what writes nothing need not run
            jobs.append(Job(f"{graph.name}.{[*written, *letters][0]}", graph, tuple(nodes)))
    return jobs
