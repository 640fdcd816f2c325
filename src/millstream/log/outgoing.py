"""Records on their way into a log: what becomes one commit, and the receipts of those who sent them.

>>> outgoing = Outgoing(opened_at=0.0)
>>> outgoing.rows += [(0, b"ann", b"two apples", None), (0, b"bob", b"a pear", None)]
>>> [append.shard for append in outgoing.split("orders", Settings(shards=8), keyless=0)]
[2, 6]
>>> outgoing.place((Placed("orders", 2, 10, 11), Placed("orders", 6, 70, 71)))
>>> outgoing.id_of(1)
RecordId(stream='orders', shard=6, seq=70)
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.errors import MillstreamError, WrongType, shown
from millstream.keyhash import NO_KEY, shard_of, shards_of
from millstream.log.check import check_record_sizes
from millstream.log.commit import Append, Placed
from millstream.log.stream import Settings
from millstream.record import VALUE_BYTES, Row, rows_to_batch

ROWS_MAX = 32  # so few rows are sent as they are: to make Arrow of them takes longer

Numbers: TypeAlias = npt.NDArray[np.int64]

_GONE: Row = (0, None, None, None)
_UNFIT = (pa.ArrowException, TypeError, ValueError, OverflowError)  # what a value that does not fit raises


class RecordId(msgspec.Struct, frozen=True):
    """The identity of a record that was written."""

    stream: str
    shard: int
    seq: int


class Outgoing:
    """Records that become one commit: rows in the order they were sent, or one Arrow batch."""

    __slots__ = (
        "_seqs",
        "_where",
        "arrow",
        "bytes",
        "bytes_limit",
        "done",
        "error",
        "errors",
        "kept",
        "opened_at",
        "placed",
        "position",
        "records_limit",
        "rows",
        "shard",
        "shards",
        "start",
        "urgent",
    )

    def __init__(
        self, opened_at: float, arrow: pa.RecordBatch | None = None, shard: int | None = None
    ) -> None:
        """Begin with no rows, or with all of an Arrow batch, for one shard if it is given."""
        self.rows: list[Row] = []
        self.start = 0  # of the rows; those before were dropped
        self.arrow = arrow
        self.shard = shard  # asked for by all records
        self.shards: dict[int, int] = {}  # asked for by single rows
        self.position: bytes | None = None
        self.opened_at = opened_at
        self.bytes = 0 if arrow is None else int(arrow.nbytes)
        self.records_limit = 0  # how far the rows may grow at once
        self.bytes_limit = 0
        self.urgent = False  # somebody waits: do not linger
        self.done = False
        self.error: MillstreamError | None = None  # of all of it
        self.errors: dict[int, MillstreamError] = {}  # of single rows
        self.kept: Sequence[int] = ()  # the rows that are written
        self.placed: tuple[Placed, ...] = ()
        self._where: Numbers | list[int] | int = 0  # the shards of what is kept
        self._seqs: Numbers | None = None

    def __len__(self) -> int:
        """How many records are to be written."""
        return len(self.rows) - self.start if self.arrow is None else int(self.arrow.num_rows)

    def drop_first(self) -> tuple[int, int]:
        """Let go of the oldest row, or of the Arrow batch; gives how many records and bytes that was."""
        if self.arrow is not None:
            dropped = int(self.arrow.num_rows), self.bytes
            self.arrow = self.arrow.slice(0, 0)
        else:
            dropped = 1, row_bytes(self.rows[self.start])
            self.rows[self.start] = _GONE
            self.start += 1
        self.bytes -= dropped[1]
        return dropped

    def finish(self, error: MillstreamError | None = None) -> None:
        """It was written, or never will be: its records are not needed any more."""
        self.error = error
        self.done = True
        self.rows = []
        self.arrow = None
        self.shards = {}

    # -- into shards

    def split(self, stream: str, settings: Settings, *, keyless: int) -> tuple[Append, ...]:
        """The records, shard by shard; those without a key all go to the shard `keyless`.

        Rows whose value the stream cannot hold are left out, and noted in `errors`.
        """
        if self.arrow is not None:
            self.kept = range(len(self))
            return self._split_arrow(self.arrow, stream, settings.shards, keyless)
        self.kept = range(self.start, len(self.rows))
        rows = self.rows[self.start :] if self.start else self.rows
        if len(rows) <= ROWS_MAX and settings.value_type == VALUE_BYTES:
            return self._split_rows(rows, stream, settings.shards, keyless)
        return self._split_arrow(self._as_arrow(rows, stream, settings), stream, settings.shards, keyless)

    def _split_rows(self, rows: Sequence[Row], stream: str, shards: int, keyless: int) -> tuple[Append, ...]:
        if shards == 1:
            self._where = 0
            return (Append(stream, 0, rows),) if rows else ()
        found: dict[int, list[Row]] = {}
        self._where = chosen = []
        for index, row in enumerate(rows, self.start):
            key = row[1]
            shard = self.shards.get(index) if self.shards else None
            if shard is None:
                shard = keyless if key is None else shard_of(key, shards)
            chosen.append(shard)
            found.setdefault(shard, []).append(row)
        return tuple(Append(stream, shard, found[shard]) for shard in sorted(found))

    def _as_arrow(self, rows: Sequence[Row], stream: str, settings: Settings) -> pa.RecordBatch:
        try:
            batch = rows_to_batch(rows, settings.value_type)
            check_record_sizes(batch)
            return batch
        except _UNFIT:
            self.errors = unfit(rows, self.start, stream, settings.value_type)
            if not self.errors:
                raise
        self.kept = [index for index in self.kept if index not in self.errors]
        return rows_to_batch([self.rows[index] for index in self.kept], settings.value_type)

    def _split_arrow(
        self, batch: pa.RecordBatch, stream: str, shards: int, keyless: int
    ) -> tuple[Append, ...]:
        if not batch.num_rows:
            return ()
        only = 0 if shards == 1 else self.shard
        keys = batch.column(1)
        if only is None and not self.shards and keys.null_count == len(keys):
            only = keyless
        if only is not None:
            self._where = only
            return (Append(stream, only, batch),)
        chosen = shards_of(keys, shards)
        chosen[chosen == NO_KEY] = keyless
        for index, shard in self.shards.items():
            if index >= self.start and index not in self.errors:
                chosen[self._row_of(index)] = shard
        self._where = chosen
        counts = np.bincount(chosen, minlength=shards)
        sorted_batch = batch.take(pa.array(np.argsort(chosen, kind="stable")))
        starts = np.cumsum(counts) - counts
        return tuple(
            Append(stream, int(shard), sorted_batch.slice(int(starts[shard]), int(counts[shard])))
            for shard in np.flatnonzero(counts)
        )

    # -- where they went

    def place(self, placed: tuple[Placed, ...]) -> None:
        """Note where a commit put the records, in the order in which `split` gave them."""
        self.placed = placed

    def id_of(self, index: int) -> RecordId:
        """Where a row went."""
        row = self._row_of(index)
        if len(self.placed) == 1:
            only = self.placed[0]
            return RecordId(only.stream, only.shard, only.first + row)
        if self._seqs is None:
            self._seqs = seqs_of(np.asarray(self._where), self.placed)
        shard = self._where if isinstance(self._where, int) else int(self._where[row])
        return RecordId(self.placed[0].stream, shard, int(self._seqs[row]))

    def _row_of(self, index: int) -> int:
        """The row's place among those that were kept."""
        return bisect.bisect_left(self.kept, index) if self.errors else index - self.start


def seqs_of(shards: Numbers, placed: Sequence[Placed]) -> Numbers:
    """The seq of each record, from the shard of each and what the shards' records were given."""
    seqs = np.empty(len(shards), np.int64)
    seqs[np.argsort(shards, kind="stable")] = np.concatenate(
        [np.arange(part.first, part.next) for part in sorted(placed, key=lambda part: part.shard)]
    )
    return seqs


def unfit(
    rows: Sequence[Row], first: int, stream: str, value_type: pa.DataType
) -> dict[int, MillstreamError]:
    """The rows, counted from `first`, whose value the type cannot hold, and what to tell about each."""
    found: dict[int, MillstreamError] = {}
    for index, row in enumerate(rows, first):
        try:
            check_record_sizes(rows_to_batch([row], value_type))
        except _UNFIT as error:
            found[index] = misfit(row[2], stream, value_type, error)
    return found


def misfit(value: object, stream: str, value_type: pa.DataType, error: Exception) -> WrongType:
    """What to tell about a value that the stream cannot hold."""
    return WrongType(
        f"the value {shown(value)} does not fit stream '{stream}', whose values are {value_type}: {error}. "
        "It is not written"
    )


def row_bytes(row: Row) -> int:
    """How many bytes a record takes in memory, roughly."""
    _, key, value, headers = row
    size = len(key) if key else 0
    if type(value) is bytes:
        size += len(value)
    elif value is not None:
        size += value_bytes(value)
    if headers:
        size += sum(len(name) + len(data or b"") for name, data in headers)
    return size


def value_bytes(value: Any) -> int:  # noqa: ANN401 - whatever Arrow may make a value of
    """How many bytes a value that is not bytes takes, roughly."""
    if isinstance(value, str | bytes | bytearray):
        return len(value)
    if isinstance(value, dict):
        return sum(map(value_bytes, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(value_bytes, value))
    return int(getattr(value, "nbytes", 8))
