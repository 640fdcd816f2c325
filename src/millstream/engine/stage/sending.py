"""Sending: blocks cut up by page, as parcels for the next levels."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from millstream.codec import Codec, state_codec
from millstream.engine.stage.ahead import combined_ahead
from millstream.engine.stage.block import Block, Numbers, Values, joined
from millstream.engine.stage.job import Edge, Job
from millstream.engine.stage.parcel import Header, encode_parcel
from millstream.engine.stage.turn import Turn
from millstream.errors import WrongType
from millstream.flow.node import Group
from millstream.keyhash import buckets_of

PARCEL_RECORDS = 65_536


class Sent(NamedTuple):
    """A parcel, and the page that it is for."""

    page: int
    data: bytes


class Sender:
    """Makes parcels of what a task sends on."""

    def __init__(self, job: Job, level: int, pages: int, page: int = -1, *, ahead: bool = True) -> None:
        """For a task of a level; `page` -1: it reads a source. `ahead`: parts of aggregates are combined."""
        self._job = job
        self._level = level
        self._pages = pages
        self._page = page
        self._ahead = ahead
        self._number = 0

    def send(self, turn: Turn, progress: int | None) -> Iterator[Sent]:
        """Parcels of all that a turn has for deeper levels so far."""
        sent, turn.sent = turn.sent, {}
        for edge_id, blocks in sent.items():
            edge = self._job.edges[edge_id]
            node = self._job.combined(edge) if self._ahead else None
            for block in in_one_form(blocks):
                before = edge.node.upstream[edge.place]
                ready = block if node is None else combined_ahead(node, block, before, turn)
                yield from self._by_page(edge, ready, turn, progress)

    def _by_page(self, edge: Edge, block: Block, turn: Turn, progress: int | None) -> Iterator[Sent]:
        pages = pages_of(block.keys.different, self._pages)[block.keys.codes]
        first = int(pages[0]) if len(pages) else 0
        if (pages == first).all():
            yield from self._parcels(edge, block, turn, progress, first)
            return
        order = np.argsort(pages.astype(np.int16), kind="stable")
        whole = block.take(order)
        bounds = np.searchsorted(pages[order], np.arange(self._pages + 1)).tolist()
        for page, (start, stop) in enumerate(pairwise(bounds)):
            if stop > start:
                part = whole.slice(start, stop)
                yield from self._parcels(edge, part, turn, progress, page)

    def _parcels(
        self, edge: Edge, block: Block, turn: Turn, progress: int | None, page: int
    ) -> Iterator[Sent]:
        for start in range(0, len(block), PARCEL_RECORDS):
            part = block if len(block) <= PARCEL_RECORDS else block.slice(start, start + PARCEL_RECORDS)
            yield Sent(page, self._parcel(edge, part, turn, progress))

    def _parcel(self, edge: Edge, block: Block, turn: Turn, progress: int | None) -> bytes:
        origins, rows = turn.origins, block.rows
        seqs, highs = origins.seqs[rows], origins.highs[rows]
        values, column = self._values(edge, block)
        columns = [pa.array(block.times), block.keys.arrow(), values]
        count = len(block)
        in_row = bool((seqs == np.arange(seqs[0], seqs[0] + count)).all())
        if not in_row:
            columns.append(pa.array(seqs))
        is_sorted = bool((highs == block.times).all())
        if not is_sorted:
            columns.append(pa.array(highs))
        one = self._page < 0
        if not one:
            columns.append(pa.array(origins.stream[rows].astype(np.int16)))
            columns.append(pa.array(origins.shards[rows].astype(np.int32)))
        origin = origins.of(int(rows[0]))
        reader = block.values.reader
        header = Header(
            node=edge.node.id,
            place=edge.place,
            level=edge.level,
            at=int(highs[-1]),
            progress=progress,
            stage=self._level,
            upstream=self._page,
            number=self._number,
            source=origin.stream if one else None,
            shard=origin.shard if one else 0,
            streams=() if one else tuple(origins.streams),
            count=count,
            first=int(seqs[0]) if in_row else None,
            sorted=is_sorted,
            reader=-1 if reader is None or block.values.raw is None else reader.id,
            partial=block.partial,
            column=column,
        )
        if turn.notes is not None and isinstance(edge.node, Group) and edge.node.function is not None:
            at = highs if one else header.at
            place = self._level, self._page, header.source or "", header.shard, self._number
            turn.notes.grouped(edge.node, block, (at, *place))
        self._number += 1
        return encode_parcel(header, columns)

    def _values(self, edge: Edge, block: Block) -> tuple[pa.Array, bytes]:
        """Values as they travel, and their type if they are not bytes."""
        values = block.values
        if values.raw is not None:
            return values.raw, b""
        if values.column is not None:
            return values.column, pa.schema([pa.field("value", values.column.type)]).serialize().to_pybytes()
        return _written(self._job, edge, values.objects or [], partial=block.partial), b""


def packed(job: Job, edge: Edge, block: Block) -> Block:
    """A block with its values as they travel, so that objects can go; not those that are to be combined."""
    if block.values.objects is None or job.combined(edge) is not None:
        return block
    values = Values(raw=_written(job, edge, block.values.objects, partial=block.partial))
    return Block(block.rows, block.times, block.keys, values, partial=block.partial)


def in_one_form(blocks: list[Block]) -> Iterator[Block]:
    """Blocks that follow each other as one, where their values are in the same form."""
    for _, alike in groupby(blocks, lambda block: (block.partial, *block.values.form)):
        yield joined(list(alike))


def _written(job: Job, edge: Edge, objects: list[Any], *, partial: bool) -> pa.Array:
    codec = travelling(job, edge, partial=partial)
    try:
        return pa.array(list(map(codec.encode, objects)), pa.binary())
    except WrongType as error:
        node = edge.node.upstream[edge.place]
        raise WrongType(f"the step '{node.label}' ({node.site}): {error}; say its type, value=") from None


def travelling(job: Job, edge: Edge, *, partial: bool) -> Codec:
    """How values of an edge travel: so that they come back as they went."""
    kind: Any = edge.node.upstream[edge.place].value
    if partial:
        node = job.combined(edge)
        kind = node.state if node is not None else Any
    return state_codec(kind, job.graph.records)


def pages_of(keys: pa.Array, pages: int) -> Numbers:
    """The page of each key; what has none is in the first."""
    if not len(keys):
        return np.empty(0, np.int64)
    return np.maximum(buckets_of(keys), 0) % pages
