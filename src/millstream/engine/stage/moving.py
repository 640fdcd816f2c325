"""Moving: states go out of one checkpoint and into another, through a stream of the log.

Each page writes its states there, in a commit like any other; the first epoch of the new checkpoint reads
them, and sends each to the page, and the level, where its step is now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import numpy as np
import pyarrow as pa

from millstream.engine.stage.block import Key
from millstream.engine.stage.parcel import STATE, Header, encode_parcel
from millstream.engine.stage.plan import Range
from millstream.engine.stage.sending import Sent, pages_of
from millstream.engine.stage.state import PageState
from millstream.engine.stage.turn import Write
from millstream.errors import Damaged
from millstream.log.log import Log
from millstream.names import short_name

_RECORDS = 20_000  # in one parcel


def states_of(job: str) -> str:
    """The stream through which a job's states move."""
    return short_name(f"_states.{job}")


def export_name(job: str, level: int, page: int) -> str:
    """The name under which a page commits its states there."""
    return short_name(f"{job}.{states_of(job)}.{level}.{page}")


def moving(log: Log, job: str) -> Iterator[Range]:
    """The pieces of the stream that there are to read."""
    stream = states_of(job)
    for shard, (first, end) in enumerate(log.ends(stream)):
        if end > first:
            yield Range(stream, shard, first, end)


def leaving(state: PageState) -> Write | None:
    """All states of a page, as records."""
    keys: list[Key] = []
    values: list[bytes] = []
    for step, key, data in state.everything():
        keys.append(key)
        values.append(_ENCODER.encode((step, data)))
    if not keys:
        return None
    return Write(np.zeros(len(keys), np.int64), pa.array(keys, pa.binary()), pa.array(values, pa.binary()))


def arriving(batch: pa.RecordBatch, levels: dict[str, int], pages: int) -> Iterator[Sent]:
    """Parcels of states, each for the page and level that it belongs to now; dropped steps are left out."""
    keys, values = batch.column(2).to_pylist(), batch.column(3).to_pylist()
    by_place: dict[tuple[int, int], list[int]] = {}
    for row, (page, value) in enumerate(zip(pages_of(batch.column(2), pages).tolist(), values, strict=True)):
        level = levels.get(_decoded(value)[0])
        if level is not None:
            by_place.setdefault((page, level), []).append(row)
    for (page, level), rows in sorted(by_place.items()):
        for start in range(0, len(rows), _RECORDS):
            some = rows[start : start + _RECORDS]
            header = Header(STATE, level=level, source="", count=len(some), first=0)
            columns = [
                pa.array(np.zeros(len(some), np.int64)),
                pa.array([keys[row] for row in some], pa.binary()),
                pa.array([values[row] for row in some], pa.binary()),
            ]
            yield Sent(page, encode_parcel(header, columns))


def arrived(state: PageState, parcels: Iterable[dict[str, pa.Array]]) -> int:
    """Take in the states that came; gives how many."""
    count = 0
    for columns in parcels:
        keys = columns["key"].to_pylist()
        state.touch(keys)
        for key, value in zip(keys, columns["value"].to_pylist(), strict=True):
            step, data = _decoded(value)
            state.of(step).set(key, data)
            count += 1
    return count


def _decoded(value: bytes) -> tuple[str, bytes]:
    try:
        return _DECODER.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Damaged(f"a state that moves cannot be read: {error}") from None


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(tuple[str, bytes])
