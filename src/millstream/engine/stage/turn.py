"""A turn: what a task does for one epoch, and all that comes of it: what is written, sent on, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from operator import length_hint
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from millstream.codec import codec_of, key_codec
from millstream.engine.stage.block import Block, Key, Numbers
from millstream.engine.stage.recording import Notes
from millstream.errors import UsageError
from millstream.flow.failure import Origin, letter, step_failed
from millstream.flow.letter import Letter
from millstream.flow.node import DeadLetters, Node


class States(Protocol):
    """The states of one step, under the keys of a page."""

    def get(self, key: Key) -> bytes | None:
        """What is kept, None if nothing is."""

    def set(self, key: Key, data: bytes | None) -> None:
        """Keep another; None: nothing."""

    def all(self) -> Iterator[tuple[Key, bytes]]:
        """Every key that has one."""


class Origins:
    """Of which records the rows of a task's input are: for errors and letters."""

    def __init__(
        self, streams: list[str], stream: Numbers, shards: Numbers, seqs: Numbers, highs: Numbers
    ) -> None:
        """Take a column of each; `stream` are numbers into `streams`, `highs` maxima of timestamps so far."""
        self.streams = [*streams, "(end)"]
        self.stream = np.append(stream, len(streams))  # and one for what comes at the end of a run
        self.shards = np.append(shards, 0)
        self.seqs = np.append(seqs, 0)
        self.highs = np.append(highs, highs[-1] if len(highs) else 0)

    @property
    def end(self) -> int:
        """The row of what comes at the end of a run."""
        return len(self.seqs) - 1

    def of(self, row: int) -> Origin:
        """The record of a row."""
        return Origin(self.streams[self.stream[row]], int(self.shards[row]), int(self.seqs[row]))


class Write:
    """Records for a stream."""

    __slots__ = ("keys", "times", "values")

    def __init__(self, times: Numbers, keys: pa.Array, values: pa.Array) -> None:
        """Take columns as they go into the log."""
        self.times = times
        self.keys = keys
        self.values = values


class Live(Protocol):
    """The states of a step as objects, of keys that were touched."""

    def settle(self, turn: Turn) -> None:
        """Keep them."""


class Turn:
    """One task's work for one epoch."""

    def __init__(self, origins: Origins, *, seed: str, now: int, finish: Collection[str] = ()) -> None:
        """Nothing has come of it yet. `finish`: steps that are closed: what they have left over comes out."""
        self.origins = origins
        self.seed = seed
        self.now = now
        self.finish = frozenset(finish)
        self.parts = 0  # that have gone through the level: each has chance of its own
        self.states: dict[str, States] = {}
        self.writes: dict[str, list[Write]] = {}
        self.sent: dict[tuple[int, int], list[Block]] = {}
        self.live: dict[str, Live] = {}
        self.counts: Counter[str] = Counter()
        self.notes: Notes | None = None

    def settle(self) -> None:
        """Keep the states that are objects still."""
        while self.live:
            self.live.popitem()[1].settle(self)

    def write(self, stream: str, times: Numbers, keys: pa.Array, values: pa.Array) -> None:
        """Have records written when the turn is committed."""
        if len(times):
            self.writes.setdefault(stream, []).append(Write(times, keys, values))
            self.counts[f"out {stream}"] += len(times)

    def each(
        self,
        node: Node,
        block: Block,
        function: Callable[..., Any],
        *columns: list[Any],
        why: Callable[[Any], Any] | None = None,
    ) -> tuple[list[Any], list[int]]:
        """What a function makes of each row of some columns, and the rows that it failed on.

        `why` is the same function where it tells better why it failed, and takes longer.
        """
        found: list[Any] = []
        bad: list[int] = []
        given = columns[-1]
        left = iter(given)  # `map` asks it last, so it knows how far the function has come
        made = map(function, *columns[:-1], left)
        while True:
            try:
                found.extend(made)
            except Exception as error:  # noqa: BLE001 - whatever the user's function raises
                row = len(given) - length_hint(left) - 1
                self.fail_at(node, _explained(error, why, given[row]), block, row, given[row])
                bad.append(row)
                continue
            row = len(found) + len(bad)
            if row == len(given):
                return found, bad
            # `map` took it for its end: what an error of the user's would be lost with all that follows.
            self.fail_at(node, RuntimeError("the function raised StopIteration"), block, row, given[row])
            bad.append(row)

    def fail_at(self, node: Node, error: Exception, block: Block, row: int, value: Any) -> None:
        """Do what the step's policy says with a row that it failed on."""
        key = block.keys.unique[int(block.keys.codes[row])]
        origin = self.origins.of(int(block.rows[row]))
        if node.on_error == "fail":
            raise step_failed(node, error, origin, _shown(node, key), value) from error
        self.counts[f"skipped {node.label}"] += 1
        if isinstance(node.on_error, DeadLetters):
            data = _LETTERS.encode(letter(node, error, origin, value))
            times = block.times[row : row + 1]
            keys, values = pa.array([key], pa.binary()), pa.array([data], pa.binary())
            self.write(node.on_error.stream, times, keys, values)


def without(block: Block, rows: Iterable[int]) -> Block:
    """A block without some rows."""
    flags = np.ones(len(block), bool)
    flags[list(rows)] = False
    return block.take(np.flatnonzero(flags))


def _explained(error: Exception, why: Callable[[Any], Any] | None, value: Any) -> Exception:
    if why is not None:
        try:
            why(value)
        except Exception as better:  # noqa: BLE001 - as where it is used
            return better
    return error


def _shown(node: Node, key: Key) -> Any:
    """A key as people know it."""
    before = node.upstream[0] if node.upstream else node
    try:
        return None if key is None else key_codec(before.key).decode(key)
    except UsageError:  # it is the key that cannot be read
        return key


_LETTERS = codec_of(Letter)
