"""What a simulated cluster keeps when it is killed: for each job what Spark's checkpoint has, and states.

>>> disk = Checkpoint()
>>> disk.offsets[0] = b"digest of the plan"
>>> disk.epoch, disk.commits.add(0), disk.epoch
(0, None, 1)
>>> state = Attempt(disk.before(1, 0, epoch=0))
>>> state[7] = b"chunk"
>>> disk.commit(1, 0, 0, state)
>>> disk.before(1, 0, epoch=1)
{7: b'chunk'}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field

from millstream.engine.stage.state import Cache
from millstream.errors import Damaged

KEPT = 6  # versions of each page


@dataclass
class Checkpoint:
    """One job's logs of offsets and commits, and the states of its pages after each epoch."""

    offsets: dict[int, bytes] = field(default_factory=dict)
    commits: set[int] = field(default_factory=set)
    states: dict[tuple[int, int], dict[int, dict[int, bytes]]] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)  # steps, by epochs that were committed

    @property
    def epoch(self) -> int:
        """The epoch that is to be done next, perhaps again: what Spark makes of its logs."""
        newest = max(self.offsets, default=-1)
        return newest + 1 if newest in self.commits or newest < 0 else newest

    def before(self, level: int, page: int, epoch: int) -> dict[int, bytes]:
        """A page's state before an epoch."""
        versions = self.states.get((level, page), {})
        if epoch and epoch - 1 not in versions:
            raise Damaged(f"level {level}, page {page}: there is no state of epoch {epoch - 1}")
        return versions.get(epoch - 1, {})

    def commit(self, level: int, page: int, epoch: int, attempt: Attempt) -> None:
        """Keep a page's state after an epoch; what was kept of it before is replaced."""
        versions = self.states.setdefault((level, page), {})
        versions[epoch] = attempt.whole
        for old in [one for one in versions if one <= epoch - KEPT]:
            del versions[old]

    def lose_newest(self, count: int, *, offsets: bool) -> None:
        """The newest entries of the commits are gone, and with `offsets` of the offsets too."""
        newest = sorted(self.offsets)[-count:]
        self.commits.difference_update(newest)
        for epoch in newest if offsets else ():
            del self.offsets[epoch]


class Attempt:
    """The state of a page as one attempt of a task sees it: what it writes is its own."""

    def __init__(self, base: dict[int, bytes]) -> None:
        """On top of a version that was committed."""
        self._base = base
        self._own: dict[int, bytes] = {}

    @property
    def whole(self) -> dict[int, bytes]:
        """All chunks, if this attempt counts."""
        return {**self._base, **self._own} if self._own else self._base

    def get(self, number: int) -> bytes | None:
        """A chunk."""
        return self._own.get(number, self._base.get(number))

    def __setitem__(self, number: int, data: bytes) -> None:
        """Keep a chunk."""
        self._own[number] = data


class CountingCache(Cache):
    """A worker's cache that tells how often it could be used."""

    def __init__(self, counts: Counter[str]) -> None:
        """Count there."""
        super().__init__()
        self._counts = counts

    def take(self, page: Hashable, version: int) -> dict[int, bytes]:
        """See `Cache.take`."""
        found = super().take(page, version)
        if version:
            self._counts["state from the cache" if found else "state from the store"] += 1
        return found
