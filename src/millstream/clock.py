"""The clocks: the one seam through which the library reads time.

>>> SystemClock().now_ms() > 1_700_000_000_000
True
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What the library asks of time."""

    def now_ms(self) -> int:
        """The time of day: milliseconds since 1970, UTC; may go backwards."""

    def uptime(self) -> float:
        """Seconds that never go backwards and count the machine's sleep (for leases)."""


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        """The machine's time of day."""
        return time.time_ns() // 1_000_000

    def uptime(self) -> float:
        """Seconds since the machine started, its sleep included where the system counts it."""
        return time.clock_gettime(_UPTIME)


class ManualClock:
    """A clock that stands still until it is told to go on, for tests.

    >>> clock = ManualClock(now_ms=1_000)
    >>> clock.advance(1.5)
    >>> clock.now_ms(), clock.uptime()
    (2500, 1.5)
    """

    def __init__(self, now_ms: int = 1_700_000_000_000, uptime: float = 0.0) -> None:
        """Start at this time of day, so many seconds after the machine did."""
        self._now_ms = now_ms
        self._uptime = uptime

    def now_ms(self) -> int:
        """The time of day that it was told."""
        return self._now_ms

    def uptime(self) -> float:
        """The seconds that it was told have passed."""
        return self._uptime

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now_ms += round(seconds * 1_000)
        self._uptime += seconds

    def set_back(self, seconds: float) -> None:
        """Turn the time of day back, as an administrator may; the uptime goes on."""
        self._now_ms -= round(seconds * 1_000)


_UPTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
