"""The line in which the threads of a process wait to change a log: the first one works for all.

A thread that finds somebody at work does not wait for its turn but for its result. Who has worked
wakes the first of those that came meanwhile, to work for the next group. So a group grows while the
one before it is synced, and nobody works for others for ever.

Those it has worked for are woken by the next one, when that is about to sleep: in its sync, or because
it must wait. Woken at once they would only get in its way, for one thread at a time runs Python.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Generic, TypeVar

_GROUP_MAX = 1_000


class Request:
    """Something to be done, and whether it is."""

    __slots__ = ("_waiting", "_woken", "done")

    def __init__(self) -> None:
        """It is not done, and nobody was woken for it."""
        self.done = False
        self._woken = False
        self._waiting = Lock()
        self._waiting.acquire()

    def wait(self) -> None:
        """Sleep until it is done, or it is our turn."""
        self._waiting.acquire()

    def wake(self) -> None:
        """Wake who waits for it; only the first in the line may do that."""
        if not self._woken:
            self._woken = True
            self._waiting.release()


R = TypeVar("R", bound=Request)


class Line(Generic[R]):
    """One thread at a time: by `turn` for itself, or by `submit` for all that wait.

    The lock is only ever taken by `with`: where a signal handler raises, that alone lets go of it surely.
    """

    def __init__(self, work: Callable[[Sequence[R]], None]) -> None:
        """Take what does the work for a group; it must not leave any of it undone in silence.

        It calls `wake_done` when it is about to sleep.
        """
        self._work = work
        self._turn = Lock()
        self._done: deque[R] = deque()  # and not woken yet
        self._door = Lock()  # around the two below
        self._queue: deque[R] = deque()
        self._first: R | None = None  # who works for all, or is about to

    def submit(self, request: R) -> None:
        """Have a request done, by this thread or by another."""
        try:
            with self._door:
                self._queue.append(request)
                if self._first is None or self._first.done:  # done: it was stopped before it could pass on
                    self._first = request
            if self._first is not request:
                request.wait()
            if not request.done:
                if self._turn.locked():  # by one who may keep it for long
                    self.wake_done()
                with self._turn:
                    while not request.done:
                        self._work_for_all()
        except BaseException:
            with suppress(ValueError):  # at work on it, or done
                self._queue.remove(request)  # else it would be woken, with nobody there to work for the rest
            request.done = True
            raise
        finally:
            self._pass_on(request)

    def _work_for_all(self) -> None:
        requests = [self._queue.popleft() for _ in range(min(len(self._queue), _GROUP_MAX))]
        try:
            self._work(requests)
        finally:
            self.wake_done()
            for request in requests:
                request.done = True
                self._done.append(request)

    def wake_done(self) -> None:
        """Wake those whom the ones before have worked for."""
        with suppress(IndexError):  # another wakes them too
            while self._done:
                self._done.popleft().wake()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Have a turn; who submits meanwhile waits for it to end."""
        with self._turn:
            self.wake_done()
            yield

    def _pass_on(self, request: R) -> None:
        """Who was the first lets the next one work for those that wait, and wake those that are done."""
        if self._first is not request:
            return
        with self._door:
            if self._first is not request:  # another has taken over, as this one is done
                return
            self._first = self._queue[0] if self._queue else None
            if self._first is not None:
                self._first.wake()
                return
        self.wake_done()
