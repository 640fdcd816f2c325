"""What goes wrong in a simulated cluster, and where: drawn from a seed, or said.

Each moment has a place, a text that is the same in each run of one seed. What happens there is drawn from
the seed and the place alone, so a fault that is taken away changes nothing before it.

>>> chaos = Chaos(seed=1, faults={"plan#2": "crash"})
>>> [chaos.at("plan", "crash", rate=1.0) for _ in range(3)]
[None, None, 'crash']
>>> chaos.schedule, chaos.fired
({'plan#2': 'crash'}, Counter({'crash': 1}))
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import TypeAlias, TypeVar

Schedule: TypeAlias = Mapping[str, str]  # of each place, what goes wrong there

FAULTS_MAX = 24  # in one run: it shall come to an end
_SWARM = (0.0, 0.3, 1.0, 4.0)  # how much of each kind one seed has: a run of few kinds goes deeper

T = TypeVar("T")


class Crash(Exception):
    """The driver is killed, and all its workers with it."""


class Failed(Exception):
    """A task fails, and is tried again."""


class Chaos:
    """Decides what goes wrong, and remembers what did."""

    def __init__(self, seed: int, faults: float | Schedule = 0.0) -> None:
        """`faults`: how likely one is at a place, on the average; or all there are, by their places."""
        self.fired: Counter[str] = Counter()
        self.schedule: dict[str, str] = {}
        self._seed = seed
        self._rate = faults if isinstance(faults, float | int) else 0.0
        self._given = None if isinstance(faults, float | int) else dict(faults)
        self._visits: Counter[str] = Counter()
        self._weights: dict[str, float] = {}

    def at(self, place: str, *kinds: str, rate: float | None = None) -> str | None:
        """Which of these kinds of faults happens at a place, if one does."""
        name = self._name(place)
        kind = self._drawn(name, kinds, rate) if self._given is None else self._given.get(name)
        if kind is None or kind not in kinds:
            return None
        self.fired[kind] += 1
        self.schedule[name] = kind
        return kind

    def crash(self, place: str, moment: str) -> None:
        """Perhaps the driver is killed here."""
        if self.at(place, f"crash {moment}"):
            raise Crash(moment)

    def pick(self, place: str, count: int) -> int:
        """One of so many numbers: for what may be so or so, without anything being wrong."""
        return self._chance(self._name(place)).randrange(count) if count > 1 else 0

    def shuffled(self, place: str, given: Sequence[T]) -> list[T]:
        """In another order."""
        found = list(given)
        self._chance(self._name(place)).shuffle(found)
        return found

    def _name(self, place: str) -> str:
        """A place, and how often it was visited before."""
        count = self._visits[place]
        self._visits[place] += 1
        return f"{place}#{count}"

    def _chance(self, name: str) -> Random:
        """What is drawn at a place: it follows from the seed."""
        return Random(f"{self._seed} {name}")  # noqa: S311 - it is to be the same again

    def _drawn(self, name: str, kinds: Sequence[str], rate: float | None) -> str | None:
        if not self._rate or len(self.schedule) >= FAULTS_MAX:
            return None
        chance = self._chance(name)
        kind = kinds[chance.randrange(len(kinds))]
        return kind if chance.random() < self._weight(kind) * (self._rate if rate is None else rate) else None

    def _weight(self, kind: str) -> float:
        if kind not in self._weights:
            self._weights[kind] = self._chance(f"weight of {kind}").choice(_SWARM)
        return self._weights[kind]
