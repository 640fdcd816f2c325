"""The pace: how much an epoch takes, so that it is quick near the end of streams and large far from it."""

from __future__ import annotations

FIRST_RECORDS = 200_000
RECORDS_MAX = 8_000_000
EPOCH_BYTES_MAX = 512 << 20
BEHIND_S = 4.0  # of work in one epoch, where there is more than one could do in time


class Pace:
    """Learns from the epochs that were, how many records one may have."""

    def __init__(self, latency_ms: int = 500, records_max: int | None = None) -> None:
        """Aim at this latency; `records_max`: how many an epoch has where there are enough."""
        self._records_max = records_max
        self._latency_s = latency_ms / 1_000
        self._rate = 0.0  # records a second
        self._behind = False

    @property
    def records(self) -> int:
        """How far it is worth looking ahead."""
        if self._records_max is not None:
            return self._records_max
        if not self._rate:
            return FIRST_RECORDS
        return int(min(RECORDS_MAX, max(FIRST_RECORDS, self._rate * BEHIND_S)))

    def seen(self, records: int, *, more: bool) -> None:
        """So much lies ahead."""
        self._behind = more or (self._rate > 0 and records > 2 * self._rate * self._latency_s)

    def fitting(self, record_bytes: float) -> int:
        """How many records the next epoch may have."""
        by_memory = max(1, int(EPOCH_BYTES_MAX / max(record_bytes, 1)))
        by_time = self.records
        if not self._behind and self._rate:
            by_time = max(1_000, int(2 * self._rate * self._latency_s))
        return min(by_memory, by_time)

    def done(self, records: int, seconds: float) -> None:
        """An epoch of so many records took so long. Small ones say little: their time is not their own."""
        if records >= 10_000 and seconds > 0:
            rate = records / seconds
            self._rate = rate if not self._rate else 0.5 * self._rate + 0.5 * rate
