"""The scan: reading a segment without the manifest, by what it and its batches say of themselves.

A message that does not vouch for itself is passed over, and the next one that does is looked for: a
message begins at a multiple of eight with four bytes of ones.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator

import msgspec
import pyarrow as pa

from millstream.errors import Damaged
from millstream.log.check import SHARDS_MAX
from millstream.log.entry import Extent, decode_type
from millstream.log.file.disk import Disk
from millstream.log.file.segment import NO_CRC, NOTE, About, Kind, Note, crc_of, segment_path, vouches
from millstream.log.file.sound import judge_about

_MARKER = b"\xff\xff\xff\xff"
_PREFIX = struct.Struct("<II")
_HEAD_BYTES_MAX = 1 << 20
_ABOUT = msgspec.msgpack.Decoder(About, dec_hook=decode_type)
_DECODE_NOTE = msgspec.msgpack.Decoder(Note).decode


class Batch(msgspec.Struct, frozen=True):
    """A batch that vouches for itself."""

    note: Note
    extent: Extent


class Scan:
    """What a segment says of itself."""

    def __init__(self, disk: Disk, segment: str) -> None:
        """Map the file; `about` is None if its head is damaged: without it no batch can be read."""
        self.segment = segment
        self.about: About | None = None
        self.damaged: list[tuple[int, int]] = []  # stretches that hold no batch that vouches for itself
        fd = disk.open_read(segment_path(segment))
        try:
            self.size = disk.size(fd)
            mapped = mmap.mmap(fd, self.size, prot=mmap.PROT_READ) if self.size else b""
        finally:
            disk.close(fd)
        self._data = pa.py_buffer(mapped)
        self._view = memoryview(mapped)
        self._begin = self._read_head()

    def _read_head(self) -> int:
        """Read the schema and the empty batch behind it; gives where they end, 0 if they are damaged."""
        length = self._length(0)
        end = length and length + (self._length(length) or 0)
        if not length or not end:
            return 0
        try:
            schema = pa.ipc.read_schema(self._data.slice(0, length))
            about = _ABOUT.decode((schema.metadata or {})[NOTE])
            judge_about(about.stream, about.settings)
        except (pa.ArrowException, OSError, KeyError, ValueError, msgspec.MsgspecError):
            return 0
        if vouches(bytes(self._view[:end]), about.crc):
            self.about = about
            return end
        return 0

    def _length(self, position: int) -> int | None:
        """How long the message at a position is; None if there is none."""
        if self.size - position < _PREFIX.size:
            return None
        marker, head = _PREFIX.unpack_from(self._view, position)
        if marker != 0xFFFFFFFF or not 0 < head <= min(_HEAD_BYTES_MAX, self.size - position - 8):
            return None
        try:
            body = pa.ipc.read_message(self._data.slice(position)).body
        except (pa.ArrowException, OSError, EOFError, StopIteration):
            return None
        return int(8 + head + (0 if body is None else body.size))

    def batches(self) -> Iterator[Batch]:
        """The batches that vouch for themselves, in order; then `damaged` is known."""
        position = self._begin
        lost = position if self.about is not None else self.size
        while self.about is not None and position < self.size:
            length = self._length(position)
            batch = None if length is None else self._batch(position, length)
            if batch is None or length is None:
                position = self._next(position)
                continue
            if lost < position:
                self._lose(lost, position)
            yield batch
            position += length
            lost = position
        if lost < self.size:
            self._lose(lost, self.size)

    def _lose(self, start: int, end: int) -> None:
        if self._view[start:end].tobytes().strip(b"\xff\0"):
            self.damaged.append((start, end))

    def _next(self, position: int) -> int:
        """Where the next message may begin."""
        position = (position // 8 + 1) * 8
        data = self._data
        while position < self.size:
            found = _find(data, position)
            if found < 0:
                break
            if found % 8 == 0:
                return found
            position = found + 1
        return self.size

    def _batch(self, position: int, length: int) -> Batch | None:
        """The batch at a position, if it is what its note says."""
        message = self._data.slice(position, length)
        head_bytes = 8 + _PREFIX.unpack_from(self._view, position)[1]
        head = bytes(self._view[position : position + head_bytes])
        body_crc = crc_of([message.slice(head_bytes)])
        at = head.find(NO_CRC[:4])
        if at < 0 or not vouches(head, head[at : at + len(NO_CRC)], body_crc):
            return None
        try:
            note, batch = self._read(message)
            return Batch(note, extent_of(self.segment, position, length, crc_of([head], body_crc), batch))
        except (pa.ArrowException, OSError, ValueError, KeyError, msgspec.MsgspecError, Damaged):
            return None

    def _read(self, message: pa.Buffer) -> tuple[Note, pa.RecordBatch]:
        """A message as the stream reader reads it, for only that one gives the note."""
        assert self.about is not None  # noqa: S101 - there are no batches without it
        whole = self.about.settings.schema.serialize().to_pybytes() + message.to_pybytes()
        with pa.ipc.open_stream(whole) as reader:
            batch, metadata = reader.read_next_batch_with_custom_metadata()
        batch.validate(full=True)
        note = _DECODE_NOTE(metadata[NOTE])
        if not 0 <= note.shard < SHARDS_MAX:
            raise ValueError("the batch names a shard that cannot be")
        if batch.num_rows == 0 or (note.kind is not Kind.STAGED and batch.column(0)[0].as_py() != note.first):
            raise ValueError("the batch does not begin where its note says")
        return note, batch


def extent_of(segment: str, position: int, length: int, crc: int, batch: pa.RecordBatch) -> Extent:
    """The extent of a batch of the stored form."""
    first = batch.column(0)[0].as_py()
    times = batch.column(1).to_numpy()
    return Extent(
        segment=segment,
        position=position,
        length=length,
        crc=crc,
        base=first,
        first=first,
        next=batch.column(0)[-1].as_py() + 1,
        count=batch.num_rows,
        oldest=int(times.min()),
        newest=int(times.max()),
    )


def _find(data: pa.Buffer, position: int) -> int:
    """Where the marker of a message is found next; -1: nowhere."""
    step = 1 << 20
    while position < data.size:
        piece: bytes = data.slice(position, min(step, data.size - position)).to_pybytes()
        found = piece.find(_MARKER)
        if found >= 0:
            return position + found
        position += step - len(_MARKER) + 1
    return -1
