"""A share: which shards a consumer reads. Alone it reads all, or those that were named.

>>> from millstream.log.open import open
>>> log = open("memory:")
>>> log.create("orders", shards=2)
>>> share = Whole(log, Interest(log, "orders"))
>>> share.tend()
>>> share.owned
{('orders', 0): 0, ('orders', 1): 0}

A group's member has a share of another kind: `millstream.log.member`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from millstream.log.check import check_shard
from millstream.log.group import Place
from millstream.log.interest import Interest
from millstream.log.log import Log

LOOK_SECONDS = 1.0  # how often a busy consumer looks for new streams and shards


class Share(Protocol):
    """Which shards to read, as it changes."""

    @property
    def owned(self) -> Mapping[Place, int]:
        """The shards, each with the generation that its offset commits must carry."""

    @property
    def release(self) -> Collection[Place]:
        """Those that should be given back soon."""

    @property
    def alone(self) -> bool:
        """Whether no other consumer is expected to read these shards for the same group."""

    def tend(self, *, idle: bool = False) -> None:
        """Bring it up to date, if it is time to; `idle`: there is nothing better to do."""

    def refresh(self) -> None:
        """Bring it up to date now."""

    def give_back(self, places: Collection[Place]) -> None:
        """Let others read these."""

    def leave(self) -> None:
        """Let others read all of them."""


class Manual:
    """The shards that were named."""

    release: Collection[Place] = ()
    alone = True

    def __init__(self, log: Log, places: Sequence[Place]) -> None:
        """Take shards that must exist."""
        for stream, shard in places:
            check_shard(stream, shard, len(log.ends(stream)))
        self.owned: dict[Place, int] = dict.fromkeys(places, 0)

    def tend(self, *, idle: bool = False) -> None:
        """Nothing changes."""

    def refresh(self) -> None:
        """Nothing changes."""

    def give_back(self, places: Collection[Place]) -> None:
        """Nobody asks for any."""

    def leave(self) -> None:
        """Nobody waits for them."""


class Whole:
    """All shards of the streams, new ones too."""

    release: Collection[Place] = ()
    alone = True

    def __init__(self, log: Log, interest: Interest) -> None:
        """Begin with none; `tend` finds them."""
        self._clock = log.clock
        self._interest = interest
        self._look_at = self._clock.uptime()
        self.owned: dict[Place, int] = {}

    def tend(self, *, idle: bool = False) -> None:
        """Look for new streams and shards."""
        if idle or self._clock.uptime() >= self._look_at:
            self.refresh()

    def refresh(self) -> None:
        """Look for them now."""
        self._look_at = self._clock.uptime() + LOOK_SECONDS
        found = dict.fromkeys(self._interest.ends(), 0)
        if found != self.owned:
            self.owned = found

    def give_back(self, places: Collection[Place]) -> None:
        """Nobody asks for any."""

    def leave(self) -> None:
        """Nobody waits for them."""
