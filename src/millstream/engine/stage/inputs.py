"""Inputs: what a job reads, and how far there is to read. One class for each kind of source.

A planner asks how far each shard goes, and cuts off a piece; a task reads the piece. What a task reads
follows from the piece and the plan alone, so it is the same whenever it is read again.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
import pyarrow as pa

from millstream.engine.stage.plan import Plan, Range
from millstream.errors import Bug, StoreFailed
from millstream.flow.codecs import key_codec_of, value_codec_of
from millstream.flow.node import FromFiles, FromStream, Generated, Source, Ticks
from millstream.log.batch import Limits
from millstream.log.log import Log
from millstream.record import VALUE_BYTES, batch_schema

CHUNK = Limits(records=65_536, bytes=16 << 20)
_EMPTY = np.empty(0, np.int64)


class Ahead(NamedTuple):
    """What lies ahead in a shard, up to a limit: running maxima, seqs, and the bytes of a record."""

    highs: np.ndarray[tuple[int], np.dtype[np.int64]]
    seqs: np.ndarray[tuple[int], np.dtype[np.int64]]
    record_bytes: float
    more: bool  # the shard goes on


class _Seen(NamedTuple):
    """Records of a shard whose timestamps were looked at: from a seq up to another."""

    start: int
    next_seq: int
    seqs: np.ndarray[tuple[int], np.dtype[np.int64]]
    times: np.ndarray[tuple[int], np.dtype[np.int64]]
    record_bytes: float


class Input(Protocol):
    """What a job reads: shards, each with an end."""

    name: str

    def starts(self) -> list[Range]:
        """Where each shard begins: empty pieces."""

    def ends(self, known: Mapping[int, Range], clock: int) -> dict[int, int]:
        """How far each shard goes now."""

    def place(self, known: Mapping[int, Range], shard: int) -> str:
        """Where a shard that was not known before is, if that has to be remembered."""

    def cut(self, position: Range, end: int, records: int, clock: int) -> Ahead:
        """What lies between a position and an end, so many records at most."""

    def rests(self, position: Range, end: int) -> bool:
        """Whether there is nothing to read between a position and an end."""

    def piece(self, position: Range, end: int) -> Range:
        """A piece from a position to an end, with what is needed to read it."""

    def read(self, piece: Range, plan: Plan) -> Iterator[pa.RecordBatch]:
        """The records of a piece, in the form of the log's batches."""


class Numbered:
    """What all inputs are whose shards are known by their numbers."""

    def place(self, known: Mapping[int, Range], shard: int) -> str:
        """Nothing to remember."""
        return ""

    def rests(self, position: Range, end: int) -> bool:
        """Whether it is at the end."""
        return position.end >= end


class StreamInput(Numbered):
    """A stream of the log."""

    def __init__(self, log: Log, name: str) -> None:
        """A stream that is there."""
        self.name = name
        self._log = log
        self._seen: dict[int, _Seen] = {}

    def starts(self) -> list[Range]:
        """From the oldest records that there are."""
        ends = self._log.ends(self.name)
        return [Range(self.name, shard, first, first) for shard, (first, _) in enumerate(ends)]

    def ends(self, known: Mapping[int, Range], clock: int) -> dict[int, int]:
        """The committed ends."""
        return {shard: end for shard, (_, end) in enumerate(self._log.ends(self.name))}

    def cut(self, position: Range, end: int, records: int, clock: int) -> Ahead:
        """By a look at the timestamps."""
        seen = self._looked(position, end, records)
        stop = min(records, int(seen.seqs.searchsorted(end)))
        highs = np.maximum.accumulate(seen.times[:stop])
        if position.high is not None:
            highs = np.maximum(highs, position.high)
        return Ahead(highs, seen.seqs[:stop], seen.record_bytes, stop < len(seen.seqs) or seen.next_seq < end)

    def _looked(self, position: Range, end: int, records: int) -> _Seen:
        """What lies after a position, as far as it was looked at before, and on from there."""
        seen = self._seen.get(position.shard)
        if seen is None or not seen.start <= position.end <= seen.next_seq <= end:
            seen = _Seen(position.end, position.end, _EMPTY, _EMPTY, 0.0)
        first = int(seen.seqs.searchsorted(position.end))
        seqs, times = [seen.seqs[first:]], [seen.times[first:]]
        count, seq, record_bytes = len(seqs[0]), seen.next_seq, seen.record_bytes
        while seq < end and count < records:
            limits = Limits(min(records - count, end - seq), CHUNK.bytes)
            found = self._log.read(self.name, position.shard, seq, limits)
            seqs += [batch.column(0).to_numpy() for batch in found.batches]
            times += [batch.column(1).to_numpy() for batch in found.batches]
            if found.num_records:
                record_bytes = sum(batch.nbytes for batch in found.batches) / found.num_records
            count += found.num_records
            seq = found.next_seq
        looked = _Seen(position.end, seq, np.concatenate(seqs), np.concatenate(times), record_bytes)
        self._seen[position.shard] = looked
        return looked

    def piece(self, position: Range, end: int) -> Range:
        """The seqs, and the progress that is known at the end, by marks if there are some."""
        return msgspec.structs.replace(position, start=position.end, end=end)

    def rests(self, position: Range, end: int) -> bool:
        """Whether all that there was is gone by compaction, if it is not at the end."""
        if position.end >= end:
            return True
        found = self._log.read(self.name, position.shard, position.end, Limits(records=1))
        return not found.num_records or found.batches[0].column(0)[0].as_py() >= end

    def progress(self, shard: int, end: int) -> int | None:
        """What marks say at a position; None: there are none."""
        return self._log.read(self.name, shard, end, Limits(records=1, bytes=1)).progress

    def read(self, piece: Range, plan: Plan) -> Iterator[pa.RecordBatch]:
        """What the log has there."""
        seq = piece.start
        while seq < piece.end:
            limits = Limits(min(CHUNK.records, piece.end - seq), CHUNK.bytes)
            found = self._log.read(self.name, piece.shard, seq, limits)
            for batch in found.batches:
                if batch.num_rows and batch.column(0)[-1].as_py() >= piece.end:
                    inside = int(batch.column(0).to_numpy().searchsorted(piece.end))
                    yield batch.slice(0, inside)
                else:
                    yield batch
            seq = found.next_seq


class FileInput:
    """The lines of the files that match a pattern: a file is a shard, a line a seq."""

    def __init__(self, name: str, pattern: str, *, whole: bool) -> None:
        """`whole`: what follows the last line break is a line too, for nothing more will come."""
        self.name = name
        self._pattern = pattern
        self._whole = whole

    def starts(self) -> list[Range]:
        """None is known yet."""
        return []

    def places(self, known: Mapping[int, Range]) -> dict[int, str]:
        """The files: those known, and new ones after them, by name."""
        found = {shard: position.place for shard, position in known.items()}
        taken = set(found.values())
        new = sorted(path for path in glob.glob(self._pattern, recursive=True) if os.path.isfile(path))
        for path in new:
            if path not in taken:
                found[len(found)] = path
        return found

    def place(self, known: Mapping[int, Range], shard: int) -> str:
        """The file's path."""
        return self.places(known)[shard]

    def ends(self, known: Mapping[int, Range], clock: int) -> dict[int, int]:
        """In bytes: how many lines that is, `cut` finds out."""
        found = {}
        for shard, path in self.places(known).items():
            done = known[shard].end_byte if shard in known else 0
            found[shard] = os.path.getsize(path) if os.path.exists(path) else done
            if found[shard] < done:
                raise StoreFailed(
                    f"the file {path} has shrunk: {done:,} bytes of it were read, and it has "
                    f"{found[shard]:,} now. Lines are read once: give what is new a file of its own"
                )
        return found

    def cut(self, position: Range, end: int, records: int, clock: int) -> Ahead:
        """Whole lines up to an end in bytes."""
        count, _, more = self._lines(position, end, records)
        seqs = np.arange(position.end, position.end + count)
        size = max(1, end - position.end_byte)
        return Ahead(np.full(count, clock), seqs, size / max(count, 1), more)

    def piece(self, position: Range, end: int) -> Range:
        """The lines up to a line, and the bytes that they are."""
        _, stop, _ = self._lines(position, os.path.getsize(position.place), end - position.end)
        return msgspec.structs.replace(
            position, start=position.end, end=end, start_byte=position.end_byte, end_byte=stop
        )

    def rests(self, position: Range, end: int) -> bool:
        """Whether there is no further line: without its line break, a last one may still grow."""
        return not self._lines(position, end, 1)[0]

    def _lines(self, position: Range, end: int, records: int) -> tuple[int, int, bool]:
        """How many lines there are, up to so many; where they end; whether there is more."""
        count, at = 0, position.end_byte
        if at >= end:
            return count, at, False
        with open(position.place, "rb") as file:
            file.seek(at)
            while count < records and at < end:
                line = file.readline()
                if not line or (not line.endswith(b"\n") and not self._whole):
                    return count, at, False
                count, at = count + 1, at + len(line)
        return count, at, at < end

    def read(self, piece: Range, plan: Plan) -> Iterator[pa.RecordBatch]:
        """The bytes of a piece, cut up at line breaks."""
        try:
            with open(piece.place, "rb") as file:
                file.seek(piece.start_byte)
                data = file.read(piece.end_byte - piece.start_byte)
        except OSError as error:
            raise StoreFailed(f"the file {piece.place} cannot be read any more: {error}") from error
        lines = data.split(b"\n")
        lines = lines[:-1] if data.endswith(b"\n") else lines
        if len(lines) != piece.end - piece.start:
            raise StoreFailed(
                f"the file {piece.place} has changed: {piece.end - piece.start} lines were read in it once, "
                f"and {len(lines)} are there now"
            )
        values = [line.removesuffix(b"\r") for line in lines]
        yield _batch(piece.start, plan.clock, [None] * len(values), values)


class GeneratedInput(Numbered):
    """Values made from numbers."""

    def __init__(self, node: Source, origin: Generated) -> None:
        """The source, for its codec."""
        self.name = node.name
        self._function = origin.function
        self._count = origin.count
        self._encode = value_codec_of(node).encode

    def starts(self) -> list[Range]:
        """One shard, from 0."""
        return [Range(self.name, 0, 0, 0)]

    def ends(self, known: Mapping[int, Range], clock: int) -> dict[int, int]:
        """As many as were asked for; without a number, for ever."""
        return {0: (1 << 60) if self._count is None else self._count}

    def cut(self, position: Range, end: int, records: int, clock: int) -> Ahead:
        """As many as are wanted."""
        count = min(records, end - position.end)
        seqs = np.arange(position.end, position.end + count)
        return Ahead(np.full(count, clock), seqs, 100, position.end + count < end)

    def piece(self, position: Range, end: int) -> Range:
        """The numbers."""
        return msgspec.structs.replace(position, start=position.end, end=end)

    def read(self, piece: Range, plan: Plan) -> Iterator[pa.RecordBatch]:
        """What the function makes of the numbers."""
        for start in range(piece.start, piece.end, CHUNK.records):
            stop = min(start + CHUNK.records, piece.end)
            values = [self._encode(self._function(index)) for index in range(start, stop)]
            yield _batch(start, plan.clock, [None] * len(values), values)


class TickInput(Numbered):
    """A clock: each of its shards ticks."""

    def __init__(self, node: Source, origin: Ticks) -> None:
        """The source, for its codecs."""
        self.name = node.name
        self._origin = origin
        self._key, self._value = key_codec_of(node).encode, value_codec_of(node).encode

    def starts(self) -> list[Range]:
        """Before the first tick: which that is, the first plan says."""
        return [Range(self.name, shard, 0, 0) for shard in range(self._origin.shards)]

    def ends(self, known: Mapping[int, Range], clock: int) -> dict[int, int]:
        """The ticks that are over."""
        return dict.fromkeys(range(self._origin.shards), clock // self._origin.every_ms + 1)

    def cut(self, position: Range, end: int, records: int, clock: int) -> Ahead:
        """Missed ticks, or only the newest."""
        newest = position.end == 0 or not self._origin.every_tick
        ticks = np.arange(max(position.end, end - 1) if newest else position.end, end)[:records]
        return Ahead(ticks * self._origin.every_ms, ticks, 50, bool(len(ticks)) and int(ticks[-1]) + 1 < end)

    def piece(self, position: Range, end: int) -> Range:
        """The ticks up to one."""
        start = position.end if self._origin.every_tick and position.end else end - 1
        return msgspec.structs.replace(position, start=start, end=end)

    def read(self, piece: Range, plan: Plan) -> Iterator[pa.RecordBatch]:
        """A record for each tick."""
        times = [tick * self._origin.every_ms for tick in range(piece.start, piece.end)]
        batch = _batch(
            piece.start, 0, [self._key(piece.shard)] * len(times), [self._value(time) for time in times]
        )
        yield batch.set_column(1, batch.schema.field(1), pa.array(times, pa.int64()))


def input_of(node: Source, log: Log, *, whole: bool = False) -> Input:
    """How a source is read. `whole`: nothing more will come, so a last line may lack its line break."""
    match node.origin:
        case FromStream(stream):
            return StreamInput(log, stream)
        case FromFiles(pattern):
            return FileInput(node.name, pattern, whole=whole)
        case Generated() as origin:
            return GeneratedInput(node, origin)
        case Ticks() as origin:
            return TickInput(node, origin)
    raise Bug(f"a source of {node.origin!r}")


def _batch(first: int, time: int, keys: list[bytes | None], values: list[bytes]) -> pa.RecordBatch:
    """Records in the form of the log's batches."""
    count = len(values)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(np.arange(first, first + count)),
            pa.array(np.full(count, time)),
            pa.array(keys, pa.binary()),
            pa.array(values, pa.binary()),
            pa.nulls(count, batch_schema(VALUE_BYTES).field(4).type),
        ],
        schema=batch_schema(VALUE_BYTES),
    )
