"""The journal: one append-only file, in which every change of the log is one frame.

A frame is written by one call and counts from the moment that all of it is there, so a commit is
visible, and survives its process, by this one write. What a killed process leaves is a torn end,
which the next writer cuts off; anything else that does not match its checksum is damage.

    header   magic (8), generation (8), id of the last entry before this file (8), crc (4), 4 zeros
    frame    length (4), crc of the payload (4), crc of these eight bytes (4), payload

An empty payload closes the file: what follows is in the next generation.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import msgspec
from zlib_ng.zlib_ng import crc32

from millstream.errors import Damaged, WrongVersion
from millstream.log.entry import Entry, decode_entries
from millstream.log.file.disk import Disk

MAGIC = b"MSJRNL1\n"
FRAME_BYTES_MAX = 256 << 20
_HEADER = struct.Struct("<8sQQII")
HEADER_BYTES = _HEADER.size
_HEAD = struct.Struct("<8sQQ")  # what the header's checksum covers
FRAME = struct.Struct("<III")
_LENGTHS = struct.Struct("<II")
_LOOK_BYTES = 4 << 10  # mostly there is nothing new, or little
_READ_BYTES = 256 << 10


class Journal:
    """A generation of the journal, read and written at its end."""

    def __init__(self, disk: Disk, generation: int, fd: int, base: int) -> None:
        """Take an open file whose header was read or written."""
        self.disk = disk
        self.generation = generation
        self.base = base
        self.fd = fd
        self.start = self.end = _HEADER.size  # of the last frame that was read or written
        self.closed = False
        self.torn = False  # there are bytes after `end` that are no whole frame
        self.damage: str | None = None  # what is wrong at `end`, if that is more than a torn end

    @classmethod
    def create(cls, disk: Disk, generation: int, base: int) -> Journal:
        """A new, empty generation, durably; one that was begun before and never used is replaced."""
        name = journal_name(generation)
        disk.unlink(name)
        fd = disk.create(name)
        crc = crc32(_HEAD.pack(MAGIC, generation, base))
        disk.write(fd, [_HEADER.pack(MAGIC, generation, base, crc, 0)], 0)
        disk.sync(fd)
        disk.sync_dir("")
        return cls(disk, generation, fd, base)

    @classmethod
    def open(cls, disk: Disk, generation: int, *, write: bool) -> Journal:
        """An existing generation; `FileNotFoundError` if it is gone."""
        name = journal_name(generation)
        fd = disk.open_write(name) if write else disk.open_read(name)
        head = disk.read(fd, _HEADER.size, 0)
        whole = len(head) == _HEADER.size
        magic, number, base, crc, _ = _HEADER.unpack(head) if whole else (b"", 0, 0, 0, 0)
        if magic[:6] == MAGIC[:6] and magic != MAGIC:
            disk.close(fd)
            raise WrongVersion(f"{name} is of version {magic[6:]!r}: this is millstream for {MAGIC[6:]!r}")
        if magic != MAGIC or number != generation or crc != crc32(head[: _HEAD.size]):
            disk.close(fd)
            raise Damaged(f"{name}: its header is damaged; run {disk.repair_call}")
        return cls(disk, generation, fd, base)

    def read(self) -> Iterator[list[Entry]]:
        """The whole frames that were added since the last call, each as its entries; `end` goes along."""
        self.torn, self.damage = False, None
        if self.closed:
            return
        data = self.disk.read(self.fd, _LOOK_BYTES, self.end)
        start = 0
        while data:
            left = len(data) - start
            if left < FRAME.size:
                more = self.disk.read(self.fd, _READ_BYTES, self.end)
                if len(more) < FRAME.size:
                    self.torn = len(more) > 0
                    return
                data, start = more, 0
            length, crc, head_crc = FRAME.unpack_from(data, start)
            if head_crc != crc32(data[start : start + 8]) or length > FRAME_BYTES_MAX:
                self.damage = "the head of a frame does not match its checksum"
                return
            stop = start + FRAME.size + length
            if stop > len(data):
                whole = FRAME.size + length
                if whole > _READ_BYTES and whole > self.disk.size(self.fd) - self.end:
                    self.torn = True  # as said below, without asking for memory that nothing fills
                    return
                data, start = self.disk.read(self.fd, max(whole, _READ_BYTES), self.end), 0
                if len(data) < whole:
                    self.torn = True
                    return
                stop = whole
            payload = data[start + FRAME.size : stop]
            if crc != crc32(payload):
                self.damage = "a frame does not match its checksum"
                return
            self.start, self.end = self.end, self.end + stop - start
            start = stop
            if not payload:
                self.closed = True
                return
            try:
                yield decode_entries(payload)
            except msgspec.DecodeError as error:
                self.end = self.start
                self.damage = f"a frame cannot be read: {error}"
                return

    def append(self, payload: bytes) -> None:
        """Add a frame; an error leaves the file as it was, or with a torn end."""
        head = _LENGTHS.pack(len(payload), crc32(payload))
        frame = head + crc32(head).to_bytes(4, "little") + payload
        self.start, self.end = self.end, self.disk.write(self.fd, [frame], self.end)

    def close_generation(self) -> None:
        """Say that what follows is in the next generation."""
        self.append(b"")
        self.closed = True

    def reopen(self) -> None:
        """Take back the frame that closed it; cut it afterwards."""
        self.end, self.closed = self.start, False

    def cut(self) -> None:
        """Cut off what lies after the last whole frame; call it alone."""
        self.disk.truncate(self.fd, self.end)
        self.torn, self.damage = False, None

    def sync(self) -> None:
        """Make every frame durable."""
        self.disk.sync(self.fd)

    def __del__(self) -> None:
        """Close the file: when the last one who reads or syncs it has let go."""
        self.disk.close(self.fd)


def header_vouches(disk: Disk, generation: int) -> bool:
    """Whether the header of a generation is as it was written, of whatever version it is."""
    fd = disk.open_read(journal_name(generation))
    try:
        head = disk.read(fd, HEADER_BYTES, 0)
    finally:
        disk.close(fd)
    return len(head) == HEADER_BYTES and _HEADER.unpack(head)[3] == crc32(head[: _HEAD.size])


def journal_name(generation: int) -> str:
    """The file of a generation."""
    return f"journal-{generation:08d}"


def generation_of(name: str) -> int | None:
    """The generation that a file holds; None if it is no journal."""
    kind, _, number = name.partition("-")
    return int(number) if kind == "journal" and number.isdecimal() else None
