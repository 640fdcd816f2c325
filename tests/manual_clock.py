"""A clock that tests move by hand."""

from dataclasses import dataclass


@dataclass
class ManualClock:
    """A `millstream.clock.Clock` that stands still until it is told otherwise."""

    now: int = 1_700_000_000_000  # milliseconds since 1970
    up: float = 1_000.0  # seconds

    def now_ms(self) -> int:
        """The time of day."""
        return self.now

    def uptime(self) -> float:
        """Seconds since the machine started."""
        return self.up

    def forward(self, seconds: float) -> None:
        """Let time pass, for both readings."""
        self.now += int(seconds * 1_000)
        self.up += seconds
