"""What repair sets aside: damaged files and bytes go to `damaged/`, where nothing looks for them again."""

from __future__ import annotations

import msgspec

from millstream.errors import Damaged
from millstream.log.file.disk import Disk
from millstream.log.file.segment import END, segment_path
from millstream.log.finding import Finding

FOLDER = "damaged"
_COPY_BYTES = 8 << 20


class Aside:
    """Keeps what is damaged, and what was found."""

    def __init__(self, disk: Disk) -> None:
        """The folder is made when there is something to keep."""
        self._disk = disk

    def findings(self, findings: list[Finding]) -> None:
        """Write down what was found, before anything is changed."""
        self._put("findings.json", msgspec.json.format(msgspec.json.encode(findings)))

    def copy(self, name: str) -> None:
        """Keep a copy of a file, if it is there."""
        try:
            fd = self._disk.open_read(name)
        except FileNotFoundError:
            return
        try:
            size = self._disk.size(fd)
            if size:
                self._copy(fd, name.replace("/", "."), 0, size)
        finally:
            self._disk.close(fd)

    def move(self, name: str) -> None:
        """Take a file out of the log."""
        self._disk.make_dir(FOLDER)
        self._disk.rename(name, self._free(name.replace("/", ".")))

    def bytes_of(self, segment: str, start: int, end: int | None = None) -> None:
        """Keep bytes of a segment, as far as they are there."""
        try:
            fd = self._disk.open_read(segment_path(segment))
        except (FileNotFoundError, Damaged):
            return
        try:
            size = self._disk.size(fd)
            end = size if end is None else min(end, size)
            if end > start and (end - start > len(END) or self._disk.read(fd, len(END), start) != END):
                self._copy(fd, f"{segment.replace('/', '.')}.{start}", start, end)
        finally:
            self._disk.close(fd)

    def _copy(self, source: int, name: str, start: int, end: int) -> None:
        self._disk.make_dir(FOLDER)
        target = self._disk.create(self._free(name))
        try:
            for position in range(start, end, _COPY_BYTES):
                piece = self._disk.read(source, min(_COPY_BYTES, end - position), position)
                self._disk.write(target, [piece], position - start)
            self._disk.sync(target)
        finally:
            self._disk.close(target)
        self._disk.sync_dir(FOLDER)

    def _put(self, name: str, content: bytes) -> None:
        self._disk.make_dir(FOLDER)
        target = self._disk.create(self._free(name))
        try:
            self._disk.write(target, [content], 0)
            self._disk.sync(target)
        finally:
            self._disk.close(target)
        self._disk.sync_dir(FOLDER)

    def _free(self, name: str) -> str:
        """A name that nothing has there yet."""
        names = self._disk.names(FOLDER)
        number = 1
        while f"{number}-{name}" in names:
            number += 1
        return f"{FOLDER}/{number}-{name}"
