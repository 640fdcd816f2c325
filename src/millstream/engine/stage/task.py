"""Tasks: what one worker does of an epoch. Reading a piece of an input, or the work of a page at a level."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from millstream.engine.stage.block import Block, Keys, Values
from millstream.engine.stage.inputs import input_of
from millstream.engine.stage.job import Job
from millstream.engine.stage.objects import with_keys_read
from millstream.engine.stage.parcel import BEAT, DEEPEST, REPORT, Header, encode_parcel, header_of
from millstream.engine.stage.plan import Plan, Range, Ticket
from millstream.engine.stage.program import Program
from millstream.engine.stage.receiving import received
from millstream.engine.stage.sending import Sender, Sent
from millstream.engine.stage.state import Cache, PageState, Store
from millstream.engine.stage.turn import Origins, Turn
from millstream.engine.stage.writing import commit_of, fence_of
from millstream.errors import Bug
from millstream.flow.node import Node, Stateful
from millstream.log.log import Log


class Worker:
    """What a process has of one job: it outlives the epochs."""

    def __init__(
        self, job: Job, log: Log, pages: int, cache: Cache | None = None, *, whole: bool = False
    ) -> None:
        """For tasks of a job on a log. `whole`: nothing more will be added to files."""
        self.job = job
        self.log = log
        self.pages = pages
        self.cache = cache or Cache()
        self._programs: dict[int, Program] = {}
        self._inputs = {name: input_of(nodes[0], log, whole=whole) for name, nodes in job.sources.items()}

    def program(self, level: int) -> Program:
        """The program of a level."""
        if level not in self._programs:
            settings = {stream: self.log.settings(stream).value for stream in self.job.streams_at(level)}
            columns = {stream: value for stream, value in settings.items() if value is not None}
            self._programs[level] = Program(self.job, level, columns)
        return self._programs[level]

    # -- reading

    def read(self, plan: Plan, pieces: Sequence[Range], *, beats: bool) -> Iterator[Sent]:
        """Read pieces of inputs; with `beats`, tell every page of the epoch."""
        if beats and self.job.depth:
            for page in range(self.pages):
                yield Sent(page, encode_parcel(Header(BEAT, level=1, ticket=plan.ticket), []))
        for piece in pieces:
            yield from self._read(plan, piece)

    def _read(self, plan: Plan, piece: Range) -> Iterator[Sent]:
        place = f"{piece.input}.{piece.shard}"
        sender = Sender(self.job, 0, self.pages)
        turn = Turn(_NOWHERE, seed=plan.ticket.seed(self.job.name, place), now=plan.clock)
        high = piece.high
        for batch in self._inputs[piece.input].read(piece, plan):
            if batch.num_rows:
                turn.origins = _origins(piece, batch, high)
                high = int(turn.origins.highs[-1])
                turn.counts["in"] += batch.num_rows
                self.program(0).run(self._blocks(piece.input, batch, turn), turn)
                yield from sender.send(turn, high)
        self._commit(turn, 0, place, plan.ticket, piece.shard)
        yield _report(turn, piece.shard % self.pages)

    def _blocks(self, name: str, batch: pa.RecordBatch, turn: Turn) -> dict[tuple[Node, int], Block]:
        """A batch for each source that reads it."""
        found: dict[tuple[Node, int], Block] = {}
        for node in self.job.sources[name]:
            rows = np.arange(batch.num_rows)
            column = batch.column(3)
            raw = pa.types.is_binary(column.type)
            values = Values(raw=column, reader=node) if raw else Values(column=column, reader=node)
            keys = Keys.same(None, batch.num_rows) if node.key is type(None) else Keys.of(batch.column(2))
            block = Block(rows, batch.column(1).to_numpy(), keys, values)
            found[node, 0] = with_keys_read(node, block, turn)
        return found

    # -- pages

    def page(
        self,
        ticket: Ticket,
        page: int,
        level: int,
        parcels: Iterable[bytes],
        store: Store,
        identity: Hashable,
    ) -> Iterator[Sent]:
        """The work of a page: `identity` tells its state from those of other pages and jobs."""
        mine, forward = [], []
        for parcel in parcels:
            header = header_of(parcel)
            if header.level > level:
                forward.append(Sent(page, parcel))
            elif header.node >= 0:
                mine.append(parcel)
        found = received(self.job, level, mine)
        state = PageState(store, self.cache, identity)
        turn = Turn(
            found.origins,
            seed=ticket.seed(self.job.name, f"page {page}"),
            now=ticket.clock,
            finish=ticket.kind == "finish",
        )
        program = self.program(level)
        turn.states = {node.name: state.of(node.name) for node in program.nodes if isinstance(node, Stateful)}
        if turn.states:
            state.touch([key for block in found.inputs.values() for key in block.keys.unique])
        program.run(found.inputs, turn)
        sent = list(Sender(self.job, level, self.pages, page).send(turn, ticket.progress))
        self._commit(turn, level, str(page), ticket, page)
        state.save()
        yield from forward
        yield from sent
        if level < self.job.depth:
            yield Sent(page, encode_parcel(Header(BEAT, level=level + 1, ticket=ticket), []))
        yield _report(turn, page)

    def _commit(self, turn: Turn, level: int, place: str, ticket: Ticket, number: int) -> None:
        streams = self.job.streams_at(level)
        if not streams:
            return
        commit = commit_of(
            turn.writes,
            self.log.settings,
            fence_of(f"{self.job.name}.{streams[0]}", place, ticket),
            streams=streams,
            progress=ticket.progress,
            turn=number,
        )
        if commit is not None:
            self.log.commit(commit)


def ticket_of(parcels: Iterable[bytes]) -> Ticket:
    """The ticket that came with the parcels of a page."""
    for parcel in parcels:
        header = header_of(parcel)
        if header.node == BEAT and header.ticket is not None:
            return header.ticket
    raise Bug("a page was not told of its epoch")


def _report(turn: Turn, page: int) -> Sent:
    """What the driver is told."""
    return Sent(page, encode_parcel(Header(REPORT, level=DEEPEST, report=dict(turn.counts)), []))


def _origins(piece: Range, batch: pa.RecordBatch, high: int | None) -> Origins:
    count = batch.num_rows
    times = batch.column(1).to_numpy()
    highs = np.maximum.accumulate(times)
    if high is not None:
        highs = np.maximum(highs, high)
    zeros = np.zeros(count, np.int64)
    return Origins([piece.input], zeros, np.full(count, piece.shard), batch.column(0).to_numpy(), highs)


_EMPTY = np.empty(0, np.int64)
_NOWHERE = Origins([], _EMPTY, _EMPTY, _EMPTY, _EMPTY)
