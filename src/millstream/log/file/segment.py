"""A segment: an Arrow IPC stream of one stream's batches, written by one process, never rewritten.

Beside the records each batch carries, in its metadata, what it takes to find its place again without
the manifest (`Note`). The live segment is locked by its writer; a sealed one ends with Arrow's end
marker, and any Arrow tool reads it.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence

import msgspec
import pyarrow as pa
from zlib_ng.zlib_ng import crc32

from millstream.errors import Damaged
from millstream.log.entry import Extent, encode_type
from millstream.log.file.disk import Disk, Piece
from millstream.log.file.lock import held_by_other
from millstream.log.file.message import read_batch
from millstream.log.stream import Settings

SEGMENT_BYTES_MAX = 256 << 20
BATCH_BYTES_MAX = 1 << 31  # of one message, as read back
SUFFIX = ".arrow"
FOLDER = "streams"
END = b"\xff\xff\xff\xff\0\0\0\0"
NOTE = b"millstream"
NO_CRC = b"crc:--------"
_PREFIX = struct.Struct("<II")  # of an IPC message: marker, length of its head


class Kind(enum.StrEnum):
    """How a batch came to be, and so what its commit number says."""

    COMMIT = "c"  # a commit wrote it, before its entry was in the journal
    FOLD = "f"  # everything up to this commit was in the journal, and is in batches now
    REWRITE = "r"  # it replaces batches of commits up to this one
    STAGED = "s"  # no commit yet; which one publishes it, only the manifest says


class Note(msgspec.Struct, frozen=True, array_like=True):
    """What a batch says of itself: its commit, which of its parts it is, and where it belongs."""

    history: int
    commit: int
    part: int
    parts: int  # of this commit in segments
    shard: int
    first: int
    kind: Kind = Kind.COMMIT
    inline: int = 0  # parts of this commit that are in the journal only
    crc: bytes = NO_CRC  # of the whole message, with this in the place of itself


class About(msgspec.Struct, frozen=True, array_like=True):
    """What a segment says of its stream."""

    stream: str
    number: int
    created_ms: int
    settings: Settings
    crc: bytes = NO_CRC  # of the segment's head, with this in the place of itself


class SegmentWriter:
    """Writes batches at the end of a segment of its own."""

    def __init__(self, disk: Disk, name: str, about: About) -> None:
        """Make the file, durably named, and lock it for as long as this process lives."""
        folder = f"{FOLDER}/{about.stream}"
        self.disk = disk
        self.name = f"{about.stream}/{name}"
        disk.make_dir(FOLDER)
        disk.make_dir(folder)
        self.fd = disk.create(segment_path(self.name))
        held_by_other(self.fd)
        disk.sync_dir(folder)
        self._pieces = _Pieces()
        schema = about.settings.schema.with_metadata({NOTE: _ENCODER.encode(about)})
        self._arrow = pa.ipc.new_stream(pa.PythonFile(self._pieces, "w"), schema)
        self._arrow.write_batch(pa.RecordBatch.from_pylist([], schema))  # it writes the schema with the first
        begin = b"".join(map(bytes, self._pieces.take()))
        self.end = disk.write(self.fd, [_with_own_crc(begin, crc32(begin))], 0)

    def write(self, batch: pa.RecordBatch, note: Note) -> Extent:
        """Add a batch in the stored form, its seqs counted from `note.first`."""
        self._arrow.write_batch(batch, custom_metadata={NOTE: _ENCODER.encode(note)})
        head, body = _with_crc(self._pieces.take())
        position = self.end
        self.end = self.disk.write(self.fd, [head, *body], position)
        times = batch.column(1).to_numpy()
        return Extent(
            segment=self.name,
            position=position,
            length=self.end - position,
            crc=crc32(head, crc_of(body)),
            base=note.first,
            first=note.first,
            next=batch.column(0)[-1].as_py() + 1,
            count=batch.num_rows,
            oldest=int(times.min()),
            newest=int(times.max()),
        )

    def sync(self) -> None:
        """Make its bytes durable."""
        self.disk.sync(self.fd)

    def seal(self) -> None:
        """End it, so that any Arrow tool reads it, and close it."""
        try:
            self.disk.write(self.fd, [END], self.end)
        finally:
            self.disk.close(self.fd)


class _Pieces:
    """A file as Arrow writes to it: what is written is kept as it comes, not copied."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[Piece] = []

    def write(self, piece: Piece) -> None:
        self._pieces.append(piece)

    def flush(self) -> None:
        """There is nothing to flush."""

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        """There is nothing to close."""

    def take(self) -> list[Piece]:
        pieces, self._pieces = self._pieces, []
        return pieces


def segment_path(segment: str) -> str:
    """Where a segment is, below the log's root."""
    return f"{FOLDER}/{segment}{SUFFIX}"


def _with_crc(pieces: list[Piece]) -> tuple[bytes, list[Piece]]:
    """The head of a message, with the checksum of all of it put in, and the body."""
    count = 0
    head = bytearray()
    while len(head) < 8 or len(head) < 8 + _PREFIX.unpack_from(head)[1]:
        head += memoryview(pieces[count])
        count += 1
    body = pieces[count:]
    return _with_own_crc(bytes(head), crc32(head, crc_of(body))), body


def _with_own_crc(head: bytes, crc: int) -> bytes:
    """A head of something, with its checksum in the place that was kept for it."""
    at = head.index(NO_CRC)
    return head[:at] + _own_crc(crc) + head[at + len(NO_CRC) :]


def _own_crc(crc: int) -> bytes:
    return b"crc:%08x" % crc


def vouches(head: bytes, said: bytes, body_crc: int = 0) -> bool:
    """Whether a head, and the body whose checksum is given, are as what the head says of itself."""
    at = head.find(said) if len(said) == len(NO_CRC) else -1
    return at >= 0 and said == _own_crc(crc32(head[:at] + NO_CRC + head[at + len(said) :], body_crc))


def crc_of(pieces: Sequence[Piece], crc: int = 0) -> int:
    """The checksum of pieces that follow each other, and of what has this one before them."""
    for piece in pieces:
        crc = crc32(piece, crc)
    return crc


def message_crc(message: memoryview | pa.Buffer) -> int:
    """The checksum of a whole message, as an extent keeps it: the head's goes on from the body's."""
    view = memoryview(message)
    length = 8 + _PREFIX.unpack_from(view)[1] if len(view) >= 8 else 0
    return crc32(view[:length], crc32(view[length:])) if 8 < length <= len(view) else -1


def read_extent(buffer: pa.Buffer, extent: Extent, schema: pa.Schema, *, whole: bool) -> pa.RecordBatch:
    """The batch of an extent, counted as the extent says; `whole`: see `read_batch`."""
    batch = read_batch(buffer, schema, described(extent), whole=whole)
    if batch.num_rows != extent.count:
        raise Damaged(f"{described(extent)} holds {batch.num_rows} records and should hold {extent.count}")
    if whole:
        seqs = batch.column(0).to_numpy()
        rising = bool((seqs[1:] > seqs[:-1]).all())
        moved = extent.first - extent.base
        if not rising or (seqs[0] + moved, seqs[-1] + moved) != (extent.first, extent.next - 1):
            raise Damaged(f"{described(extent)} holds other seqs, {seqs[0]} to {seqs[-1]}")
    moved = extent.first - extent.base
    if moved:
        seqs = pa.array(batch.column(0).to_numpy() + moved)
        batch = pa.RecordBatch.from_arrays([seqs, *batch.columns[1:]], schema=schema)
    return batch


def described(extent: Extent) -> str:
    """An extent, for an error."""
    return f"segment {extent.segment}, position {extent.position} (seqs {extent.first} to {extent.next - 1})"


_ENCODER = msgspec.msgpack.Encoder(enc_hook=encode_type)
