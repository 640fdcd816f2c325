"""What user code may ask of the world: the time and chance, both from the engine's plan.

A step that asks here gives the same again when its epoch is done again, in another process perhaps.

>>> with given(now=1_000, seed="a flow"):
...     ctx.now, ctx.random.random() == Random("a flow").random()
(1000, True)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from random import Random, SystemRandom

from millstream.clock import SystemClock


class Given:
    """A time, and chance that follows from a seed."""

    __slots__ = ("_random", "now", "seed")

    def __init__(self, now: int, seed: str) -> None:
        """Chance is made when it is asked for."""
        self.now = now
        self.seed = seed
        self._random: Random | None = None

    @property
    def random(self) -> Random:
        """The numbers that follow from the seed."""
        if self._random is None:
            self._random = Random(self.seed)  # noqa: S311 - it must give the same again
        return self._random


_GIVEN: ContextVar[Given | None] = ContextVar("given", default=None)


class Context:
    """The time and chance for the functions of a flow; outside of a run, the machine's own."""

    @property
    def now(self) -> int:
        """The time of the epoch, in ms since 1970, UTC."""
        found = _GIVEN.get()
        return SystemClock().now_ms() if found is None else found.now

    @property
    def random(self) -> Random:
        """Chance that comes out the same when the epoch is done again."""
        found = _GIVEN.get()
        return SystemRandom() if found is None else found.random


ctx = Context()


@contextmanager
def given(now: int, seed: str) -> Iterator[None]:
    """Have functions that are called in here see this time and this chance."""
    token = _GIVEN.set(Given(now, seed))
    try:
        yield
    finally:
        _GIVEN.reset(token)
