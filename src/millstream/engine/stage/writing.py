"""Writing: all that a task has for one log in an epoch, as one commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyarrow as pa

from millstream.engine.stage.plan import Ticket
from millstream.engine.stage.turn import Write
from millstream.keyhash import shards_of
from millstream.log.commit import Append, Commit, Fence, Mark
from millstream.log.stream import Settings
from millstream.names import short_name
from millstream.record import HEADERS_TYPE, rows_schema

APPEND_BYTES = 32 << 20  # of one batch: larger ones are cut


def fence_of(job: str, place: str, ticket: Ticket) -> Fence:
    """What makes a task's commit happen once: `place` is a page, or a shard that is read."""
    return Fence(short_name(f"{job}.{place}"), ticket.run, ticket.epoch, ticket.digest)


def commit_of(
    writes: dict[str, list[Write]],
    settings: Callable[[str], Settings],
    fence: Fence,
    *,
    streams: Iterable[str],
    progress: int | None,
    turn: int = 0,
) -> Commit | None:
    """The commit; None if there is nothing to say. Records without a key go to shard `turn`, turned round."""
    records = [
        append
        for stream in sorted(writes)
        for append in _appends(stream, writes[stream], settings(stream), turn)
    ]
    marks: tuple[Mark, ...] = ()
    if progress is not None:
        marks = tuple(
            Mark(stream, shard, fence.name, progress)
            for stream in streams
            for shard in range(settings(stream).shards)
        )
    return Commit(records=tuple(records), marks=marks, fence=fence) if records or marks else None


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
