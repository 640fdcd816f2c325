"""Freight: large parcels lie in files where all of Spark is on one machine, and Spark carries where they lie.

The files are as good as those of a shuffle: an epoch that is done again writes new ones, and the planner
throws them away when Spark has committed the epoch.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     with Freight(folder, 7) as freight:
...         note = freight.left(b"parcel" * 100_000)
...     len(note) < 300, len(fetched(note)), fetched(b"small")
(True, 600000, b'small')
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Self

import msgspec

from millstream.errors import StoreFailed

LARGE_BYTES = 64 << 10
_MARK = b"\xff\xff\xff\xff"  # no parcel begins so: it would be a header of 4 GB


class Note(msgspec.Struct, frozen=True, array_like=True):
    """Where a parcel lies."""

    path: str
    start: int
    size: int


class Freight:
    """The file that a task leaves its large parcels in."""

    def __init__(self, folder: str | None, epoch: int) -> None:
        """It is made when there is something for it; without a folder all parcels travel themselves."""
        self._path = None if folder is None else Path(folder, f"{epoch}-{token_hex(8)}")
        self._file: int | None = None
        self._at = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            os.close(self._file)

    def left(self, data: bytes) -> bytes:
        """A parcel, or a note of where it lies."""
        if self._path is None or len(data) < LARGE_BYTES:
            return data
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]
        note = Note(str(self._path), self._at, len(data))
        self._at += len(data)
        return _MARK + _ENCODER.encode(note)


def fetched(data: bytes) -> bytes:
    """A parcel that came, or that lies where a note says."""
    if not data.startswith(_MARK):
        return data
    note = _DECODER.decode(data[len(_MARK) :])
    try:
        with open(note.path, "rb") as file:
            whole = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    except (OSError, ValueError) as error:
        raise StoreFailed(f"a parcel cannot be read, {error}: the epoch has to be done again") from error
    found = memoryview(whole)[note.start : note.start + note.size]
    if len(found) < note.size:
        raise StoreFailed(f"a parcel is not whole in {note.path}: the epoch has to be done again")
    return found  # type: ignore[return-value]  # what reads parcels takes any bytes


def thrown_away(folder: str, epoch: int | None = None) -> None:
    """Take away the files of an epoch and those before it; of all, when none is given."""
    for path in Path(folder).glob("*-*"):
        if epoch is None or int(path.name.partition("-")[0]) <= epoch:
            path.unlink(missing_ok=True)


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Note)
