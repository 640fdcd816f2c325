"""A disk that notes every call that changes it, those of SQLite among them, and repeats itself exactly."""

from __future__ import annotations

import os
from collections.abc import Sequence
from random import Random

import apsw

from millstream.log.file.disk import Disk, Piece
from tests.crash.events import FOLDER, Event, Image, Machine, Name, Sync, SyncFolder, Truncate, Write

_JOURNALS = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL | apsw.SQLITE_OPEN_WAL


class SeededDisk(Disk):
    """A disk whose names and whose machine's start are given."""

    def __init__(self, root: str, boot: str) -> None:
        """Take a directory."""
        super().__init__(root)
        self.boot = boot
        self._names = 0

    def boot_id(self) -> str:
        """The start that was given."""
        return self.boot

    def new_name(self) -> str:
        """The next name; none was there before, whoever made it."""
        while True:
            self._names += 1
            name = f"w{self._names:03d}"
            if not any(name in file for _, _, files in os.walk(self.root) for file in files):
                return name

    def modified_ms(self, fd: int) -> int:
        """Long ago, so that what nobody names is swept at once."""
        return 0


class RecordingDisk(SeededDisk):
    """Notes the calls in `events`."""

    def __init__(self, root: str, boot: str, machine: Machine, seed: int) -> None:
        """Take a directory that holds what the machine says."""
        super().__init__(root, boot)
        self.events: list[Event] = []
        self.random = Random(seed)
        self._files: dict[int, int] = {}  # the system's numbers of files, and ours
        self._next = max(machine.contents, default=-1) + 1
        for name, file in machine.names_now().items():
            if file != FOLDER:
                self._files[os.stat(self.path(name)).st_ino] = file
        self.vfs = f"recorder-{id(self):x}"
        self._vfs = RecordingVFS(self)

    def forget(self) -> None:
        """Take the VFS away."""
        self._vfs.unregister()

    def named(self, name: str, inode: int) -> None:
        """A file was made."""
        self._files[inode] = self._next
        self.events.append(Name(name, self._next))
        self._next += 1

    def number(self, fd: int) -> int:
        """Our number of an open file."""
        return self._files[os.fstat(fd).st_ino]

    def number_of(self, name: str) -> int:
        """Our number of a file."""
        return self._files[os.stat(self.path(name)).st_ino]

    def make_dir(self, name: str) -> None:
        """See `Disk`."""
        if name and not os.path.isdir(self.path(name)):
            self.events.append(Name(name, FOLDER))
        super().make_dir(name)

    def create(self, name: str) -> int:
        """See `Disk`."""
        fd = super().create(name)
        self.named(name, os.fstat(fd).st_ino)
        return fd

    def open_lock(self, name: str) -> int:
        """See `Disk`."""
        new = not os.path.exists(self.path(name))
        fd = super().open_lock(name)
        if new:
            self.named(name, os.fstat(fd).st_ino)
        return fd

    def write(self, fd: int, pieces: Sequence[Piece], position: int) -> int:
        """See `Disk`."""
        self.events.append(Write(self.number(fd), position, b"".join(map(bytes, pieces))))
        return super().write(fd, pieces, position)

    def truncate(self, fd: int, length: int) -> None:
        """See `Disk`."""
        self.events.append(Truncate(self.number(fd), length))
        super().truncate(fd, length)

    def sync(self, fd: int) -> None:
        """See `Disk`."""
        self.events.append(Sync(self.number(fd)))
        super().sync(fd)

    def sync_dir(self, name: str) -> None:
        """See `Disk`."""
        self.events.append(SyncFolder(name))
        super().sync_dir(name)

    def unlink(self, name: str) -> None:
        """See `Disk`."""
        if os.path.lexists(self.path(name)):
            self.events.append(Name(name, None))
        super().unlink(name)

    def rename(self, old: str, new: str) -> None:
        """See `Disk`."""
        self.events += [Name(new, self.number_of(old)), Name(old, None)]
        super().rename(old, new)


class RecordingVFS(apsw.VFS):
    """SQLite's own, with every change noted."""

    def __init__(self, disk: RecordingDisk) -> None:
        """Register it under the disk's name for it."""
        super().__init__(disk.vfs, "")
        self.disk = disk

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> RecordingFile:  # noqa: N802
        """Open a file."""
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        new = not os.path.exists(path)
        file = RecordingFile(self.disk, os.path.relpath(path, self.disk.root), name, flags)
        if new:
            self.disk.named(file.name, os.stat(path).st_ino)
        return file

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        """Remove a file."""
        super().xDelete(filename, syncdir)
        self.disk.events.append(Name(os.path.relpath(filename, self.disk.root), None))
        if syncdir:
            self.disk.events.append(SyncFolder(""))

    def xRandomness(self, numbytes: int) -> bytes:  # noqa: N802
        """The same every time."""
        return self.disk.random.randbytes(numbytes)


class RecordingFile(apsw.VFSFile):
    """A file of SQLite's."""

    def __init__(
        self, disk: RecordingDisk, name: str, filename: str | apsw.URIFilename | None, flags: list[int]
    ) -> None:
        """Open it."""
        super().__init__("", filename, flags)
        self.disk = disk
        self.name = name
        # SQLite's own VFS syncs the folder of a journal together with the file, once each time it is opened.
        self._folder_too = bool(flags[0] & apsw.SQLITE_OPEN_CREATE and flags[0] & _JOURNALS)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        """Write."""
        self.disk.events.append(Write(self.disk.number_of(self.name), offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        """Cut."""
        self.disk.events.append(Truncate(self.disk.number_of(self.name), newsize))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        """Sync."""
        super().xSync(flags)
        self.disk.events.append(Sync(self.disk.number_of(self.name)))
        if self._folder_too:
            self._folder_too = False
            self.disk.events.append(SyncFolder(""))


def lay_out(image: Image, root: str) -> None:
    """Make a directory of an image."""
    os.mkdir(root)
    for folder in sorted(image.folders):
        os.mkdir(os.path.join(root, folder))
    for name, data in image.files.items():
        with open(os.path.join(root, name), "wb", buffering=0) as file:
            file.write(data)
