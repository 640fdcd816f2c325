"""Receiving: the parcels of a page put in their order, and made into blocks.

What was read at level 0 is put in the order of running maxima of timestamps, so that a backlog comes as
live traffic did, and in the same order wherever it comes to; what comes from deeper levels, parcel by
parcel, by the maximum that they were sent at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from millstream.engine.stage.block import Block, Keys, Numbers, Values, joined
from millstream.engine.stage.job import Edge, Job
from millstream.engine.stage.parcel import Header, decode_parcel
from millstream.engine.stage.sending import travelling
from millstream.engine.stage.turn import Origins
from millstream.errors import Bug, WrongType
from millstream.flow.node import Node, Source


class Parcel(NamedTuple):
    """A parcel, decoded."""

    header: Header
    columns: dict[str, pa.Array]

    @property
    def highs(self) -> Numbers:
        """The running maximum at each record."""
        column = self.columns["time" if self.header.sorted else "high"]
        return column.to_numpy()  # type: ignore[no-any-return]

    @property
    def seqs(self) -> Numbers:
        """The seq of the record that each came of."""
        first = self.header.first
        if first is None:
            return self.columns["seq"].to_numpy()  # type: ignore[no-any-return]
        return np.arange(first, first + self.header.count)


class Received(NamedTuple):
    """What came to a task: blocks for the nodes of its level, and where their rows are from."""

    inputs: dict[tuple[Node, int], Block]
    origins: Origins


def received(job: Job, data: Iterable[bytes]) -> Received:
    """The parcels of a page, in order."""
    parcels = sorted((Parcel(*decode_parcel(one)) for one in data), key=lambda one: _order(one.header))
    places = _places(parcels)
    counts = [parcel.header.count for parcel in parcels]
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    rows = np.arange(starts[-1]) if places is None else places
    by_edge: dict[tuple[int, int], list[int]] = defaultdict(list)
    for number, parcel in enumerate(parcels):
        by_edge[parcel.header.node, parcel.header.place].append(number)
    inputs = {}
    for edge_id, numbers in by_edge.items():
        edge = job.edges.get(edge_id)
        if edge is None:
            raise Bug(f"a parcel for the node {edge_id}, which job '{job.name}' has not")
        spans = [rows[starts[number] : starts[number + 1]] for number in numbers]
        block = _block(job, edge, [parcels[number] for number in numbers], np.concatenate(spans))
        inputs[edge.node, edge.place] = block
    return Received(inputs, _origins(parcels, places))


def _order(header: Header) -> tuple[Any, ...]:
    """Where a parcel comes among others."""
    return (header.stage, header.upstream, header.source or "", header.shard, header.number)


def _places(parcels: Sequence[Parcel]) -> Numbers | None:
    """The place of each record among all; None: as they lie."""
    headers = [parcel.header for parcel in parcels]
    if len({(one.stage, one.upstream, one.source, one.shard) for one in headers}) < 2:
        return None
    highs = np.concatenate([_highs(parcel) for parcel in parcels])
    order = np.argsort(highs, kind="stable")
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return places


def _highs(parcel: Parcel) -> Numbers:
    """What the records of a parcel are put in order by."""
    header = parcel.header
    return parcel.highs if header.source is not None else np.full(header.count, header.at)


def _block(job: Job, edge: Edge, parcels: Sequence[Parcel], rows: Numbers) -> Block:
    """The parcels of one edge as a block, its rows ascending."""
    parts = []
    start = 0
    for form in _forms(parcels):
        count = sum(parcel.header.count for parcel in form)
        times = np.concatenate([parcel.columns["time"].to_numpy() for parcel in form])
        keys = Keys.of(pa.concat_arrays([parcel.columns["key"] for parcel in form]))
        values = _values(job, edge, form)
        header = form[0].header
        parts.append(Block(rows[start : start + count], times, keys, values, partial=header.partial))
        start += count
    block = joined(parts)
    if len(rows) > 1 and (np.diff(block.rows) < 0).any():
        block = block.take(np.argsort(block.rows, kind="stable"))
    return block


def _forms(parcels: Sequence[Parcel]) -> list[list[Parcel]]:
    """Parcels that follow each other and whose values are in one form."""
    found: list[list[Parcel]] = []
    for parcel in parcels:
        form = parcel.header.reader, parcel.header.column
        if found and (found[-1][0].header.reader, found[-1][0].header.column) == form:
            found[-1].append(parcel)
        else:
            found.append([parcel])
    return found


def _values(job: Job, edge: Edge, parcels: Sequence[Parcel]) -> Values:
    header = parcels[0].header
    column = pa.concat_arrays([parcel.columns["value"] for parcel in parcels])
    if header.column:
        return Values(column=column)
    if header.reader >= 0:
        reader = next(node for node in job.nodes if node.id == header.reader)
        if not isinstance(reader, Source):
            raise Bug(f"the node {header.reader} is no source")
        return Values(raw=column, reader=reader)
    codec = travelling(job, edge, partial=header.partial)
    try:
        return Values(list(map(codec.decode, column.to_pylist())))
    except WrongType as error:
        node = edge.node.upstream[edge.place]
        raise WrongType(f"the step '{node.label}' ({node.site}): {error}; say its type, value=") from None


def _origins(parcels: Sequence[Parcel], places: Numbers | None) -> Origins:
    """Where all rows are from, in their order."""
    names: dict[str, int] = {}
    streams, shards, seqs, highs = [], [], [], []
    for parcel in parcels:
        header = parcel.header
        seqs.append(parcel.seqs)
        highs.append(_highs(parcel))
        if header.source is not None:
            streams.append(np.full(header.count, names.setdefault(header.source, len(names))))
            shards.append(np.full(header.count, header.shard))
        else:
            codes = np.array([names.setdefault(name, len(names)) for name in header.streams], np.int64)
            streams.append(codes[parcel.columns["stream"].to_numpy()])
            shards.append(parcel.columns["shard"].to_numpy().astype(np.int64))
    empty = np.empty(0, np.int64)
    columns = [np.concatenate([empty, *column]) for column in (streams, shards, seqs, highs)]
    if places is not None:
        order = np.argsort(places)
        columns = [column[order] for column in columns]
    return Origins(list(names), *columns)
