"""What came of a run: the records of each stream that was written, and the choices that were made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from millstream.errors import WrongType, shown
from millstream.testing.record import Out, hashable
from millstream.testing.world import Move, World


class Choice(msgspec.Struct, frozen=True):
    """What was taken next at a place where there was a choice: a node, a key, and the way it came."""

    node: int
    key: bytes | None
    took: Any  # of a merge (branch, lane), of a group (old key, lane), of an aggregate 0 or "emit"


class Result:
    """What came of one run."""

    def __init__(self, world: World, streams: Iterable[str], schedule: Iterable[Move] = ()) -> None:
        """Take it as it is at the end."""
        self._records = {stream: world.outputs.get(stream, []) for stream in streams}
        self.schedule = [Choice(*move.place, move.label) for move in schedule]
        self.skipped = dict(world.skipped)
        self.steps = world.moves

    def records(self, stream: str) -> list[Out]:
        """All records of a stream that was written, in the order in which they came."""
        return [out for _, out in self._of(stream)]

    def values(self, stream: str) -> list[Any]:
        """Their values."""
        return [out.value for out in self.records(stream)]

    def per_key(self, stream: str) -> dict[Any, list[Any]]:
        """The values under each key, in order: what two runs are compared by."""
        found: dict[Any, list[Any]] = {}
        names: dict[bytes | None, Any] = {}
        for key_bytes, out in self._of(stream):
            key = names.setdefault(key_bytes, hashable(out.key))
            found.setdefault(key, []).append(out.value)
        return found

    def table(self, stream: str) -> dict[Any, Any]:
        """The latest value of each key; keys that were taken away are not there."""
        return {key: values[-1] for key, values in self.per_key(stream).items() if values[-1] is not None}

    def outputs(self) -> dict[str, dict[Any, list[Any]]]:
        """`per_key` of every stream."""
        return {stream: self.per_key(stream) for stream in self._records}

    def _of(self, stream: str) -> list[tuple[bytes | None, Out]]:
        if stream not in self._records:
            raise WrongType(
                f"the flow does not write {shown(stream)}: it writes {', '.join(map(repr, self._records))}"
            )
        return self._records[stream]

    def __eq__(self, other: object) -> bool:
        """Whether the same came out under each key."""
        return isinstance(other, Result) and self.outputs() == other.outputs()

    __hash__ = None  # type: ignore[assignment]  # it is compared by what it holds

    def __repr__(self) -> str:
        """How much came out."""
        counts = ", ".join(f"{stream}: {len(records)}" for stream, records in self._records.items())
        return f"<Result {counts}>"
