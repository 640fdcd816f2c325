"""Writing: all that a task has for one log in an epoch, as one commit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from millstream.engine.stage.plan import Ticket
from millstream.engine.stage.turn import Write
from millstream.errors import Damaged, Fenced
from millstream.keyhash import shards_of
from millstream.log.commit import Append, Commit, Fence, Mark
from millstream.log.log import Log
from millstream.log.stream import Settings
from millstream.record import HEADERS_TYPE, rows_schema

KEPT = 16  # epochs whose plans a fence remembers: more than may be done again after a loss

_DONE = msgspec.msgpack.Decoder(list[tuple[int, bytes]])
_DONE_OUT = msgspec.msgpack.Encoder()


def commit_once(
    log: Log,
    name: str,
    ticket: Ticket,
    writes: dict[str, list[Write]],
    streams: Sequence[str],
    number: int,
) -> bool:
    """Commit what a task has written; False: that was done before, or there is nothing.

    An epoch that comes again, after a loss of what Spark keeps perhaps, must come by the plan that it was
    committed by: `Fenced` if not. Records without a key go to shard `number`, counted round.
    """
    if not writes and ticket.progress is None:
        return False
    known = log.fence(name)
    done: list[tuple[int, bytes]] = []
    if known is not None and known.run == ticket.run:
        done = _done(known.position)
        if ticket.number <= known.number:
            _judge_again(name, ticket, done, known.number)
            return False
    records = [
        append
        for stream in sorted(writes)
        for append in _appends(stream, writes[stream], log.settings(stream), number)
    ]
    marks: tuple[Mark, ...] = ()
    if ticket.progress is not None:
        marks = tuple(
            Mark(stream, shard, name, ticket.progress)
            for stream in streams
            for shard in range(log.settings(stream).shards)
        )
    done = [*done, (ticket.number, ticket.digest)][-KEPT:]
    fence = Fence(name, ticket.run, ticket.number, ticket.digest, _DONE_OUT.encode(done))
    return log.commit(Commit(records=tuple(records), marks=marks, fence=fence)).applied


def _done(position: bytes | None) -> list[tuple[int, bytes]]:
    try:
        return [] if position is None else _DONE.decode(position)
    except msgspec.DecodeError as error:
        raise Damaged(f"what a fence remembers cannot be read: {error}") from None


def _judge_again(name: str, ticket: Ticket, done: list[tuple[int, bytes]], newest: int) -> None:
    """Refuse an epoch that was committed by another plan, or so long ago that nobody knows by which."""
    known = dict(done)
    if len(done) >= KEPT and ticket.number < min(known):
        raise Fenced(
            f"epoch {ticket.number} comes again under the name '{name}', which is at {newest}: too far back "
            "to be compared. Start the job with rebuild=True, or with fresh=True"
        )
    if (
        known.get(ticket.number) != ticket.digest
    ):  # by its own plan it had nothing to write, if it is not there
        raise Fenced(
            f"epoch {ticket.number} was committed under the name '{name}' by another plan: the plans of this "
            "job are not those that it ran by. Start it with rebuild=True, or with fresh=True"
        )


def _appends(stream: str, writes: Sequence[Write], settings: Settings, turn: int) -> Iterable[Append]:
    """Records for each shard, in their order."""
    times = np.concatenate([write.times for write in writes])
    keys = pa.concat_arrays([write.keys for write in writes])
    values = pa.concat_arrays([write.values for write in writes])
    batch = pa.RecordBatch.from_arrays(
        [pa.array(times), keys, values, pa.nulls(len(times), HEADERS_TYPE)],
        schema=rows_schema(settings.value_type),
    )
    if settings.shards == 1:
        yield Append(stream, 0, batch)
        return
    shards = shards_of(keys, settings.shards)
    shards[shards < 0] = turn % settings.shards
    first = int(shards[0])
    if (shards == first).all():
        yield Append(stream, first, batch)
        return
    order = np.argsort(shards.astype(np.int16), kind="stable")
    whole = batch.take(pa.array(order))
    bounds = np.searchsorted(shards[order], np.arange(settings.shards + 1)).tolist()
    for shard in range(settings.shards):
        start, stop = bounds[shard], bounds[shard + 1]
        if stop > start:
            yield Append(stream, shard, whole.slice(start, stop - start))
