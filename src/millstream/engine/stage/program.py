"""A program: the nodes of one level of a job, put together to run on blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.codec.kind import is_fixed
from millstream.codec.same import apart
from millstream.engine.stage.block import Block, Keys, Values, joined
from millstream.engine.stage.job import Edge, Job
from millstream.engine.stage.objects import as_objects
from millstream.engine.stage.pures import pure_step
from millstream.engine.stage.sending import packed
from millstream.engine.stage.stateful import stateful_step
from millstream.engine.stage.turn import Turn
from millstream.engine.stage.ways import group_step, merge_step, sink_step
from millstream.errors import WrongType
from millstream.flow.codecs import value_codec_of
from millstream.flow.context import given
from millstream.flow.failure import told
from millstream.flow.node import Group, Merge, Node, Pure, Sink, Source, Stateful
from millstream.flow.steps import Combine

PART_RECORDS = 8_192

Waiting = dict[Node, list[tuple[int, Block]]]


class Program:
    """What one level of a job does with the blocks that come to it."""

    def __init__(self, job: Job, level: int, columns: Mapping[str, pa.DataType] | None = None) -> None:
        """Put it together; `columns` are the types of values of those streams that are columnar."""
        self._job = job
        self._level = level
        self._columns = dict(columns or {})
        self._read = {node.read_stream for node in job.graph.nodes if isinstance(node, Source)}
        self.nodes = job.at(level)
        self._groups: dict[Node, Callable[[Block, Turn], Block]] = {}
        self._steps: dict[Node, Callable[..., Any]] = {}
        for node in job.nodes:
            try:
                self._make(node)
            except Exception as error:
                raise WrongType(f"the step '{node.label}' ({node.site}): {told(error)}") from error

    def _make(self, node: Node) -> None:
        match node:
            case Group():
                self._groups[node] = group_step(node)
            case Merge():
                self._steps[node] = merge_step(node)
            case Pure():
                self._steps[node] = pure_step(node)
            case Stateful():
                self._steps[node] = stateful_step(node, self._job.graph)
            case Sink():
                own = node.stream in self._read
                self._steps[node] = sink_step(node, own=own, column=self._columns.get(node.stream))

    def run(self, inputs: Mapping[tuple[Node, int], Block], turn: Turn) -> None:
        """Have blocks go through all nodes; `inputs` says to which node, and by which of its ways."""
        if turn.notes is not None:
            turn.notes.came(inputs.values())
        for part in self._parts(inputs) if not turn.finish else (inputs,):
            self._run(part, turn)
        turn.settle()

    def _parts(self, inputs: Mapping[tuple[Node, int], Block]) -> Iterator[Mapping[tuple[Node, int], Block]]:
        """So few records at a time that what is made of them stays in the processor's cache."""
        count = sum(map(len, inputs.values()))
        if not self._cut or count <= PART_RECORDS:
            yield inputs
            return
        last = max(int(block.rows[-1]) for block in inputs.values() if len(block))
        done = dict.fromkeys(inputs, 0)
        for stop in range(PART_RECORDS, last + PART_RECORDS + 1, PART_RECORDS):
            part = {}
            for way, block in inputs.items():
                end = int(block.rows.searchsorted(stop))
                if end > done[way]:
                    part[way] = block.slice(done[way], end)
                    done[way] = end
            yield part

    @cached_property
    def _cut(self) -> bool:
        """Whether the level works record by record: nothing in it does better with many at once."""
        if any(isinstance(node, Stateful) and isinstance(node.step, Combine) for node in self.nodes):
            return False
        if any(isinstance(node, Pure) and node.operation == "map_batches" for node in self.nodes):
            return False
        return any(isinstance(node, Pure | Stateful) for node in self.nodes)

    def _run(self, inputs: Mapping[tuple[Node, int], Block], turn: Turn) -> None:
        waiting: Waiting = {}
        turn.parts += 1
        for (node, place), block in inputs.items():
            waiting.setdefault(node, []).append((place, block))
        for node in self.nodes:
            blocks = waiting.pop(node, [])
            closing = isinstance(node, Stateful) and node.name in turn.finish
            if any(len(block) for _, block in blocks) or closing:
                with given(turn.now, f"{turn.seed} {node.id} {turn.parts}"):
                    found = self._through(node, sorted(blocks, key=lambda item: item[0]), turn)
                    if found is not None and len(found):
                        self._deliver(node, found, turn, waiting)

    def _through(self, node: Node, blocks: list[tuple[int, Block]], turn: Turn) -> Block | None:
        """What comes out of a node, if anything does."""
        ready = [(place, self._as_needed(node, block, turn)) for place, block in blocks if len(block)]
        match node:
            case Merge():
                if turn.notes is not None:
                    turn.notes.merged(node, ready, turn.origins)
                return self._steps[node](ready)  # type: ignore[no-any-return]
            case Sink():
                for _, block in ready:
                    self._steps[node](block, turn)
                return None
            case Stateful():
                block = joined([block for _, block in ready]) if ready else _NOTHING
                if turn.notes is not None and isinstance(node.step, Combine):
                    turn.notes.combined(node, block)
                return self._steps[node](block, turn)  # type: ignore[no-any-return]
        block = joined([block for _, block in ready])
        return block if isinstance(node, Source | Group) else self._steps[node](block, turn)

    def _as_needed(self, node: Node, block: Block, turn: Turn) -> Block:
        """A block with its values in the form that a node works on."""
        columnar = isinstance(node, Pure) and node.operation == "map_batches"
        columnar |= isinstance(node, Sink) and node.stream in self._columns
        if isinstance(node, Source | Group) or (columnar and block.values.column is not None):
            return block
        reader = block.values.reader
        if (
            isinstance(node, Pure)
            and columnar
            and reader is not None
            and value_codec_of(reader).name == "bytes"
        ):
            values = Values(column=block.values.raw)
            return Block(block.rows, block.times, block.keys, values, partial=block.partial)
        if isinstance(node, Merge) and not node.branches and self._alike(node):
            return block
        return as_objects(block, node.upstream[0] if node.upstream else node, turn)

    def _alike(self, node: Merge) -> bool:
        """Whether all that comes to a merge comes from one node, and so in one form."""
        return len(node.upstream) == 1

    def _deliver(self, node: Node, block: Block, turn: Turn, waiting: Waiting) -> None:
        """To all that read from a node; what goes to a deeper level, with its new keys."""
        targets = self._job.targets(node)
        reader = block.values.reader if block.values.raw is not None else None
        if len(targets) != 1 and reader is not None and reader.on_error != "fail":
            block = as_objects(block, node, turn)  # here, so that what cannot be read is told of once
        shared = len(targets) > 1 and not is_fixed(node.value)
        for number, (target, place) in enumerate(targets):
            one = block
            if shared and number and block.values.objects is not None:
                one = block.with_values(list(map(apart, block.values.objects)))
            edge = self._job.edge(node, target, place)
            if edge is None:
                waiting.setdefault(target, []).append((place, one))
            else:
                self._send(edge, one, turn)

    def _send(self, edge: Edge, block: Block, turn: Turn) -> None:
        node = edge.node
        if isinstance(node, Group) and not self._job.stays(node):
            if node.function is not None:
                block = as_objects(block, node.upstream[0], turn)
            block = self._groups[node](block, turn)
        if len(block):
            turn.sent.setdefault(edge.id, []).append(packed(self._job, edge, block))


_EMPTY = np.empty(0, np.int64)
_NOTHING = Block(_EMPTY, _EMPTY, Keys(_EMPTY, []), Values([]))
