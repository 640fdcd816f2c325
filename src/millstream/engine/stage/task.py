"""Tasks: what one worker does of an epoch. Reading a piece of an input, or the work of a page at a level."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from millstream.engine.stage.block import Block, Keys, Values
from millstream.engine.stage.inputs import input_of
from millstream.engine.stage.job import Job
from millstream.engine.stage.moving import arrived, arriving, export_name, leaving, states_of
from millstream.engine.stage.objects import with_keys_read
from millstream.engine.stage.parcel import (
    BEAT,
    DEEPEST,
    REPORT,
    STATE,
    Header,
    decode_parcel,
    encode_parcel,
    header_of,
)
from millstream.engine.stage.plan import Plan, Range, Ticket
from millstream.engine.stage.program import Program
from millstream.engine.stage.receiving import Received, received
from millstream.engine.stage.recording import Recorder, notes_of
from millstream.engine.stage.sending import Sender, Sent
from millstream.engine.stage.state import Cache, PageState, Store
from millstream.engine.stage.turn import Origins, Turn
from millstream.engine.stage.writing import commit_once
from millstream.errors import Bug
from millstream.flow.node import Node, Stateful
from millstream.log.log import Log


class Worker:
    """What a process has of one job: it outlives the epochs."""

    def __init__(
        self,
        job: Job,
        log: Log,
        pages: int,
        cache: Cache | None = None,
        *,
        whole: bool = False,
        depth: int | None = None,
        skip: Collection[tuple[str, int, int]] = (),
        dropped: Collection[str] = (),
    ) -> None:
        """For tasks of a job on a log. `whole`: nothing more will be added to files.

        `depth` is that of the checkpoint, where it is not the job's own; `skip` are records (stream, shard,
        seq) to leave out; `dropped` are steps whose states are left behind when states move.
        """
        self.job = job
        self.log = log
        self.pages = pages
        self._depth = job.depth if depth is None else depth
        self._skip = frozenset(skip)
        self._dropped = frozenset(dropped)
        self.cache = cache or Cache()
        self.recorder: Recorder | None = None  # of the order that is taken, if anybody asks
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
        if beats and self._depth:
            for page in range(self.pages):
                yield Sent(page, encode_parcel(Header(BEAT, level=1, ticket=plan.ticket), []))
        for piece in pieces:
            yield from self._read_states(piece) if plan.kind == "import" else self._read(plan, piece)

    def _read_states(self, piece: Range) -> Iterator[Sent]:
        """States that move, each to where its step is now."""
        steps = self.job.stateful.items()
        levels = {name: self.job.levels[node] for name, node in steps if name not in self._dropped}
        seq = piece.start
        while seq < piece.end:
            found = self.log.read(piece.input, piece.shard, seq)
            for batch in found.batches:
                yield from arriving(batch, levels, self.pages)
            seq = found.next_seq

    def _read(self, plan: Plan, piece: Range) -> Iterator[Sent]:
        place = f"{piece.input}.{piece.shard}"
        sender = Sender(self.job, 0, self.pages, ahead=self.recorder is None)
        turn = Turn(_NOWHERE, seed=plan.ticket.seed(self.job.name, place), now=plan.clock)
        turn.notes = notes_of(self.recorder, plan.epoch, 0)
        high = piece.high
        for whole in self._inputs[piece.input].read(piece, plan):
            batch = self._without_skipped(whole, piece, turn)
            if batch.num_rows:
                turn.origins = _origins(piece, batch, high)
                high = int(turn.origins.highs[-1])
                turn.counts["in"] += batch.num_rows
                self.program(0).run(self._blocks(piece.input, batch, turn), turn)
                yield from sender.send(turn, high)
        self._commit(turn, 0, place, plan.ticket, piece.shard)
        yield _report(turn, piece.shard % self.pages)

    def _without_skipped(self, batch: pa.RecordBatch, piece: Range, turn: Turn) -> pa.RecordBatch:
        seqs = [seq for name, shard, seq in self._skip if (name, shard) == (piece.input, piece.shard)]
        if not seqs:
            return batch
        left = ~np.isin(batch.column(0).to_numpy(), seqs)
        turn.counts["skipped on demand"] += batch.num_rows - int(left.sum())
        return batch.filter(pa.array(left))

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
        mine, forward, states = [], [], []
        for parcel in parcels:
            header = header_of(parcel)
            if header.level > level:
                forward.append(Sent(page, parcel))
            elif header.node >= 0:
                mine.append(parcel)
            elif header.node == STATE:
                states.append(decode_parcel(parcel)[1])
        found = received(self.job, mine)
        state = PageState(store, self.cache, identity)
        turn = Turn(
            found.origins,
            seed=ticket.seed(self.job.name, f"page {page}"),
            now=ticket.clock,
            finish=(ticket.closes or self.job.stateful) if ticket.kind == "finish" else (),
        )
        turn.notes = notes_of(self.recorder, ticket.number, level)
        if ticket.kind in {"export", "import"}:
            turn.counts["states"] += arrived(state, states)
            self._export(state, turn, level, page, ticket)
        else:
            self._run(level, found, state, turn)
        sender = Sender(self.job, level, self.pages, page, ahead=self.recorder is None)
        sent = list(sender.send(turn, ticket.progress))
        self._commit(turn, level, str(page), ticket, page)
        state.save()
        yield from forward
        yield from sent
        if level < self._depth:
            yield Sent(page, encode_parcel(Header(BEAT, level=level + 1, ticket=ticket), []))
        yield _report(turn, page)

    def _run(self, level: int, found: Received, state: PageState, turn: Turn) -> None:
        """Have what came go through the level's steps."""
        program = self.program(level)
        turn.states = {node.name: state.of(node.name) for node in program.nodes if isinstance(node, Stateful)}
        if turn.states:
            state.touch([key for block in found.inputs.values() for key in block.keys.unique])
        program.run(found.inputs, turn)

    def _export(self, state: PageState, turn: Turn, level: int, page: int, ticket: Ticket) -> None:
        """Where states go to another checkpoint: write all of them to the stream that they go through."""
        write = leaving(state) if ticket.kind == "export" else None
        if write is not None:
            stream = states_of(self.job.name)
            turn.counts["states"] += len(write.times)
            name = export_name(self.job.name, level, page)
            commit_once(self.log, name, ticket, {stream: [write]}, [], page)

    def _commit(self, turn: Turn, level: int, place: str, ticket: Ticket, number: int) -> None:
        streams = self.job.streams_at(level)
        if streams and ticket.kind != "muted":
            name = self.job.fence(level, place)
            commit_once(self.log, name, ticket, turn.writes, streams, number)


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
