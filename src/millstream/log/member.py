"""A member of a group: it keeps its lease, and knows which shards are its share.

>>> from millstream.log.open import open
>>> log = open("memory:")
>>> log.create("orders", shards=2)
>>> ann = Member(log, "bills", "ann", Interest(log, "orders"), lease=10.0)
>>> bob = Member(log, "bills", "bob", Interest(log, "orders"), lease=10.0)
>>> ann.refresh(), bob.refresh(), ann.refresh()
(None, None, None)
>>> ann.release, dict(bob.owned)
((('orders', 1),), {})
>>> ann.give_back([("orders", 1)])
>>> bob.refresh()
>>> dict(bob.owned)
{('orders', 1): 2}

A lease is kept by the consumer when it asks for records, and by a `Pulse` while it does not.
"""

from __future__ import annotations

import os
import secrets
import threading
import weakref
from collections.abc import Callable, Collection

from millstream.errors import MillstreamError, UnknownStream
from millstream.log.group import Assignment, Place
from millstream.log.interest import Interest
from millstream.log.log import Log

BEATS_PER_LEASE = 4


def new_member() -> str:
    """A name that no other member has."""
    return f"member-{os.getpid()}-{secrets.token_hex(6)}"


class Member:
    """One member of a group; any thread may beat for it."""

    alone = False

    def __init__(self, log: Log, group: str, name: str, interest: Interest, *, lease: float) -> None:
        """Begin with nothing; the first beat joins the group."""
        self.group = group
        self.name = name
        self.owned: dict[Place, int] = {}
        self.release: Collection[Place] = ()
        self._log = log
        self._interest = interest
        self._lease = lease
        self._beat_at = log.clock.uptime()
        self._streams: list[str] = []
        self._lock = threading.RLock()  # answers are taken in the order in which they were given
        self._left = False
        self.error: MillstreamError | None = None  # of a beat that nobody was there to be told of

    @property
    def due(self) -> bool:
        """Whether it is time to beat."""
        return self._log.clock.uptime() >= self._beat_at

    def tend(self, *, idle: bool = False) -> None:
        """Beat if it is time to, or if there are new streams."""
        error, self.error = self.error, None
        if error is not None:
            raise error
        if self.due or (idle and self._interest.patterns and self._interest.streams() != self._streams):
            self.refresh()

    def refresh(self) -> None:
        """Beat now."""
        self.give_back(())

    def give_back(self, places: Collection[Place]) -> None:
        """Beat, and let others have these shards."""
        with self._lock:
            if self._left:
                return
            answer = self._beat(places)
            self._beat_at = self._log.clock.uptime() + self._lease / BEATS_PER_LEASE
            owned = {(each.stream, each.shard): each.generation for each in answer.owned}
            self.release = answer.release
            if owned != self.owned:
                self.owned = owned

    def beat_quietly(self) -> None:
        """Beat if it is time to; what goes wrong is told at the next `tend`.

        What may work later is not worth telling: the next beat tries again, and if the lease runs
        out, others take over and the log refuses this member's commits.
        """
        try:
            if self.due:
                self.refresh()
        except MillstreamError as error:
            if not getattr(error, "retriable", False):
                self.error = error

    def leave(self) -> None:
        """Leave the group: the others take over at once."""
        with self._lock:
            if not self._left:
                self._left = True
                self.owned, self.release = {}, ()
                self._log.leave(self.group, self.name)

    def _beat(self, places: Collection[Place]) -> Assignment:
        self._streams = self._interest.streams()
        try:
            return self._heartbeat(places)
        except UnknownStream:  # deleted just now: of those that were named it is told, others are dropped
            for stream in self._streams:
                self._interest.stream_ends(stream)
            self._streams = self._interest.streams()
            return self._heartbeat([place for place in places if place[0] in self._streams])

    def _heartbeat(self, places: Collection[Place]) -> Assignment:
        return self._log.heartbeat(
            self.group, self.name, self._streams, lease=self._lease, released=tuple(places)
        )


class Pulse:
    """A thread that calls a method every so many seconds, for as long as its object is in use."""

    def __init__(self, seconds: float, method: Callable[[], None]) -> None:
        """Start it."""
        self._over = threading.Event()
        thread_args = (self._over, seconds, weakref.WeakMethod(method))
        threading.Thread(target=_beat_until, args=thread_args, daemon=True).start()

    def stop(self) -> None:
        """No further call begins."""
        self._over.set()


def _beat_until(over: threading.Event, seconds: float, weak: weakref.WeakMethod[Callable[[], None]]) -> None:
    while not over.wait(seconds):
        method = weak()
        if method is None:
            return
        method()
        del method
