"""Waiting for a directory to change: inotify where the system has it, else a look every few milliseconds.

Python's library has no inotify, and the packages that bring it start a thread each; what is needed
here is three calls of the C library.
"""

from __future__ import annotations

import ctypes
import os
import select

_IN_MODIFY, _IN_CREATE = 0x2, 0x100
_LOOK_MS = 5  # without inotify
_EVENTS_BYTES = 64 << 10


class Watch:
    """Tells when something in a directory was written."""

    def __init__(self, folder: str, bell: int) -> None:
        """Watch a directory; `bell` is a file descriptor that wakes it too when it can be read."""
        self._poll = select.poll()
        self._poll.register(bell, select.POLLIN)
        self._fd = _inotify(folder)
        if self._fd >= 0:
            self._poll.register(self._fd, select.POLLIN)

    def wait(self, timeout_ms: float) -> None:
        """Sleep until something changed, or the time is over; it may wake for nothing."""
        self._poll.poll(timeout_ms if self._fd >= 0 else min(timeout_ms, _LOOK_MS))
        if self._fd >= 0:
            try:
                os.read(self._fd, _EVENTS_BYTES)
            except BlockingIOError:
                return

    def close(self) -> None:
        """Stop watching."""
        if self._fd >= 0:
            os.close(self._fd)


class Watches:
    """The watches of a log, for as many as wait at the same time.

    They are kept for the next wait: to end an inotify that has told something takes the system
    milliseconds, which is longer than all that a waiting reader may take.
    """

    def __init__(self, folder: str) -> None:
        """Nobody waits yet."""
        self._folder = folder
        self._bell = os.pipe()  # its end wakes who waits
        self._idle: list[Watch] = []
        self._taken = 0
        self._closed = False

    def take(self) -> Watch:
        """A watch of one's own, until it is given back; take and give under one lock."""
        watch = self._idle.pop() if self._idle else Watch(self._folder, self._bell[0])
        self._taken += 1
        return watch

    def give(self, watch: Watch) -> None:
        """Let the next one have it."""
        self._taken -= 1
        self._idle.append(watch)
        if self._closed:
            self._end()

    def close(self) -> None:
        """Wake who waits, and stop watching when they have given back what they took."""
        self._closed = True
        os.close(self._bell[1])
        self._end()

    def _end(self) -> None:
        while self._idle:
            self._idle.pop().close()
        if not self._taken:
            os.close(self._bell[0])


def _inotify(folder: str) -> int:
    """An inotify of this directory, or -1 where there is none."""
    try:
        library = ctypes.CDLL(None, use_errno=True)
        fd = int(library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    except (OSError, AttributeError):
        return -1
    if fd >= 0 and library.inotify_add_watch(fd, os.fsencode(folder), _IN_MODIFY | _IN_CREATE) < 0:
        os.close(fd)
        return -1
    return fd
