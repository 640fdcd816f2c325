"""One process at a time, and in turn: locks on files, which the system drops when a process ends.

To be woken for a lock costs more than a small commit takes. So who finds the lock held looks again a
few times, after pauses in which others get on, and may meanwhile be overtaken. Two locks keep that
within bounds: who has waited long enough queues for both, in order, holding the first while it waits
for the second; and who has slipped in often enough must pass the first one too, behind those who wait.

A fork shares its parent's open files, and with them its locks. It closes them, so that they end with
the parent.
"""

from __future__ import annotations

import fcntl
import os
import select
import weakref
from collections.abc import Callable

from millstream.errors import Conflict
from millstream.log.file.disk import Disk

_LOOKS = 12
_PAUSE_SECONDS_MAX = 0.005  # the first pause is a tenth of it
_SLIPS_MAX = 64


class Turnstile:
    """A lock among processes; the threads of this one must not use it at the same time."""

    def __init__(self, disk: Disk) -> None:
        """Open the two files."""
        self._disk = disk
        self._gate = disk.open_lock("gate.lock")
        try:
            self._writer = disk.open_lock("writer.lock")
        except BaseException:
            disk.close(self._gate)
            raise
        self._slips = 0  # since we last went through the gate
        _OPEN.add(self)

    def __enter__(self) -> None:
        """Wait for our turn."""
        self.enter()

    def enter(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Wait for our turn; where there are no files, and none can be made, nobody else has one.

        `meanwhile` is done again and again while others have it: before a wait, and before each further look.
        """
        if self._writer < 0 or self._gate < 0:
            return
        if self._slips < _SLIPS_MAX:
            self._slips += 1
            for look in range(_LOOKS):
                if not held_by_other(self._writer):
                    return
                if not look:
                    meanwhile()
                select.select((), (), (), _PAUSE_SECONDS_MAX if look else _PAUSE_SECONDS_MAX / 10)
                meanwhile()
        else:
            meanwhile()
        self._slips = 0
        fcntl.flock(self._gate, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._writer, fcntl.LOCK_EX)
        finally:
            fcntl.flock(self._gate, fcntl.LOCK_UN)

    def __exit__(self, *_: object) -> None:
        """Let the next one in."""
        if self._writer < 0:
            return
        fcntl.flock(self._writer, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the files."""
        _OPEN.discard(self)
        for fd in (self._gate, self._writer):
            if fd >= 0:
                self._disk.close(fd)


def hold(disk: Disk, *, alone: bool = False) -> int:
    """Hold a log as one of those that have it open, or alone; -1 where nothing can be written.

    The system lets go of it when the file is closed, or the process ends. `Conflict` if others have
    the log open, or one has it alone.
    """
    fd = disk.open_lock("open.lock")
    if fd < 0:
        return fd
    try:
        fcntl.flock(fd, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        disk.close(fd)
        if alone:
            what = "is open, here or in another process: close it everywhere, then try again"
        else:
            what = "is being repaired: open it when that is done"
        raise Conflict(f"the log file:{disk.root} {what}") from None
    return fd


def held_by_other(fd: int) -> bool:
    """Whether another open file holds the lock on this one; if not, this one holds it now."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _close_all() -> None:
    """Close what a fork has of its parent's locks, without unlocking them."""
    for turnstile in list(_OPEN):
        turnstile.close()


_OPEN: weakref.WeakSet[Turnstile] = weakref.WeakSet()
os.register_at_fork(after_in_child=_close_all)
