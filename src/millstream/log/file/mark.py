"""How far the journal is known to be durable: what is damaged before that is damage, not a power cut."""

from __future__ import annotations

import struct
from contextlib import suppress

from zlib_ng.zlib_ng import crc32

from millstream.errors import WorldError
from millstream.log.file.disk import Disk

NAME = "synced"
_MARK = struct.Struct("<QQI")
_PLACE = struct.Struct("<QQ")


class SyncedMark:
    """A small file, rewritten after each sync; itself never synced, so it may lag behind, never ahead."""

    def __init__(self, disk: Disk, *, write: bool) -> None:
        """Open it, or make it."""
        self._disk = disk
        try:
            self._fd = disk.open_write(NAME) if write else disk.open_read(NAME)
        except FileNotFoundError:
            self._fd = disk.create(NAME) if write else -1

    def write(self, generation: int, position: int) -> None:
        """A generation of the journal is durable up to here; if that cannot be noted, the mark lags."""
        place = _PLACE.pack(generation, position)
        with suppress(WorldError):
            self._disk.write(self._fd, [place + crc32(place).to_bytes(4, "little")], 0)

    def position(self, generation: int) -> int:
        """Up to where a generation is known to be durable; 0 if nothing is known."""
        known, position = self.place()
        return position if known == generation else 0

    def place(self) -> tuple[int, int]:
        """The newest generation that was synced, and how far; zeros if nothing is known."""
        data = self._disk.read(self._fd, _MARK.size, 0) if self._fd >= 0 else b""
        if len(data) < _MARK.size:
            return 0, 0
        known, position, crc = _MARK.unpack(data)
        return (known, position) if crc == crc32(data[: _PLACE.size]) else (0, 0)

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            self._disk.close(self._fd)
