"""The calls that change a log's directory: the one seam between the store and the machine.

Paths are relative to the log's root, and no symbolic link below it is ever followed. Tests put a
recording or a failing disk in this place (and an SQLite VFS of theirs, by `vfs`), and so run the
production code over every crash and every error.
"""

from __future__ import annotations

import errno
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeAlias

import pyarrow as pa

from millstream.errors import Damaged, ReadOnly, StoreFailed, StoreFull, WrongType, shown

Piece: TypeAlias = bytes | memoryview | pa.Buffer

_PIECES_MAX = 1_000  # the system takes 1,024 in one call
_NO_LINKS = os.O_NOFOLLOW | os.O_CLOEXEC
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_BOOTED_ABOUT = str(round((time.time() - time.monotonic()) / 60))  # where the system gives no id
_READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM}
_NO_DIRECTORY = {errno.EEXIST, errno.ENOTDIR, errno.ELOOP}


class Disk:
    """Files below one directory."""

    vfs = ""  # the SQLite VFS that the manifest is opened with; "": SQLite's own

    def __init__(self, root: str) -> None:
        """Take the directory as it is; `make_dir("")` makes it."""
        try:
            self.root = os.path.abspath(root)
            os.lstat(self.root)
        except (TypeError, ValueError, OSError) as error:
            if not isinstance(error, OSError) or error.errno == errno.ENAMETOOLONG:
                raise WrongType(f"{shown(root)} is no path of a directory: {error}") from None

    @property
    def repair_call(self) -> str:
        """What to run when the log is damaged, for errors."""
        return f"millstream.repair('file:{self.root}')"

    def path(self, name: str) -> str:
        """The whole path of a file below the root."""
        return os.path.join(self.root, name)

    def writable(self) -> bool:
        """Whether files can be made below the root."""
        return os.access(self.root, os.W_OK | os.X_OK)

    def boot_id(self) -> str:
        """Which start of the machine this is: what was written under another may be lost."""
        try:
            with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
                return file.read().strip()
        except OSError:
            return _BOOTED_ABOUT

    def make_dir(self, name: str) -> None:
        """Make a directory (and, for the root, its parents), durably; fine if it is there."""
        with translated(name or self.root):
            if not name:
                self._make_root()
                return
            with suppress(FileExistsError):  # who made it may have been killed before it was durable
                os.mkdir(self.path(name), 0o755)
        self.sync_dir(os.path.dirname(name))

    def _make_root(self) -> None:
        try:
            os.makedirs(self.root, exist_ok=True)
        except OSError as error:
            if error.errno not in _NO_DIRECTORY:
                raise
            raise WrongType(
                f"{shown(self.root)} cannot be a directory ({error.strerror}): name one, or none yet"
            ) from None

    def new_name(self) -> str:
        """A name that no other open log has."""
        return secrets.token_hex(6)

    def create(self, name: str) -> int:
        """A new file, to be read and written; its name is not yet durable (`sync_dir`)."""
        return self._open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL)

    def open_write(self, name: str) -> int:
        """An existing file, to be read and written."""
        return self._open(name, os.O_RDWR)

    def open_read(self, name: str) -> int:
        """An existing file, to be read."""
        return self._open(name, os.O_RDONLY)

    def open_lock(self, name: str) -> int:
        """A file to be locked, made if it is not there; for reading, or -1, where nothing can be written."""
        try:
            return self._open(name, os.O_RDWR | os.O_CREAT)
        except ReadOnly:
            with suppress(FileNotFoundError):
                return self.open_read(name)
            return -1  # nobody has ever written there

    def names(self, folder: str) -> list[str]:
        """What is in a folder, sorted; nothing if there is no such folder."""
        with translated(folder or self.root), suppress(FileNotFoundError, NotADirectoryError):
            return sorted(os.listdir(self.path(folder)))
        return []

    def size(self, fd: int) -> int:
        """How long a file is."""
        return os.fstat(fd).st_size

    def modified_ms(self, fd: int) -> int:
        """When a file was written last."""
        return os.fstat(fd).st_mtime_ns // 1_000_000

    def read(self, fd: int, length: int, position: int) -> bytes:
        """Bytes of a file, fewer at its end."""
        try:
            return os.pread(fd, length, position)
        except OSError as error:
            raise store_error(error, fd) from error

    def write(self, fd: int, pieces: Sequence[Piece], position: int) -> int:
        """Write all pieces, one after the other, from a position on; give where they end."""
        try:
            for start in range(0, len(pieces), _PIECES_MAX):
                some = pieces[start : start + _PIECES_MAX]
                length = sum(map(len, some))
                written = self._write(fd, some, position)
                while written < length:
                    rest = memoryview(b"".join(some))[written:]
                    step = self._write(fd, [rest], position + written)
                    if step == 0:
                        raise OSError(errno.EIO, "the device takes no more bytes")
                    written += step
                position += length
        except OSError as error:
            raise store_error(error, fd) from error
        return position

    def _write(self, fd: int, pieces: Sequence[Piece], position: int) -> int:
        """The system's call, which may write less."""
        return os.pwritev(fd, pieces, position)

    def truncate(self, fd: int, length: int) -> None:
        """Cut a file to this length."""
        with translated(fd):
            os.ftruncate(fd, length)

    def sync(self, fd: int) -> None:
        """Make a file's bytes durable."""
        with translated(fd):
            os.fdatasync(fd)

    def sync_dir(self, name: str) -> None:
        """Make the names in a directory durable."""
        fd = self._open(name, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with translated(name):
                os.fsync(fd)
        finally:
            os.close(fd)

    def unlink(self, name: str) -> None:
        """Remove a file; fine if it is gone."""
        with translated(name):
            try:
                os.unlink(self.path(name))
            except FileNotFoundError:
                return

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, durably, in place of what has it; its bytes must be synced."""
        with translated(old):
            os.replace(self.path(old), self.path(new))
        for folder in {os.path.dirname(old), os.path.dirname(new)}:
            self.sync_dir(folder)

    def close(self, fd: int) -> None:
        """Close a file."""
        os.close(fd)

    def _open(self, name: str, flags: int) -> int:
        """Open each part of the path in turn, so that no link on the way is followed."""
        with translated(name):
            parts = name.split("/")
            folder = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                for part in parts[:-1]:
                    inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | _NO_LINKS, dir_fd=folder)
                    os.close(folder)
                    folder = inner
                return os.open(parts[-1] or ".", flags | _NO_LINKS, 0o644, dir_fd=folder)
            finally:
                os.close(folder)


@contextmanager
def translated(what: str | int) -> Iterator[None]:
    """An operating system's error, as one of ours; a missing file stays what it is."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise store_error(error, what) from error


def store_error(error: OSError, what: str | int) -> Exception:
    """The error of ours that an operating system's error means."""
    if error.errno in _FULL:
        return StoreFull(
            f"no room left on the device ({what}): {error}; make room, then send the commit again"
        )
    if error.errno in _READ_ONLY:
        return ReadOnly(f"cannot write ({what}): {error}; check the directory's owner and permissions")
    if error.errno in {errno.ELOOP, errno.ENOTDIR}:
        return Damaged(
            f"'{what}' goes through a symbolic link or a file: {error}; nothing outside of the log is touched"
        )
    return StoreFailed(f"an I/O call failed ({what}): {error}")
