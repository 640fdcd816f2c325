"""Recording: the order that a run took wherever there was a choice, so that it can be judged afterwards.

What is taken at a merge, a group or an aggregate is noted with its moment: who orders records later orders
them by the same, so a task that is done again notes the same again. It is meant for tests: while it is on,
aggregates are not combined before they travel. It wants each key in one shard, one source for each stream,
and merges before the first grouping to be read by steps after it.

>>> recorder = Recorder()
>>> for when, took in ((2,), "b"), ((1,), "a"), ((2,), "b"):
...     recorder.take(7, b"key", when, took)
>>> recorder.choices()
[(7, b'key', 'a'), (7, b'key', 'b')]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from millstream.engine.stage.block import Block, Key
from millstream.flow.node import Node

EMIT = "emit"  # an update of an aggregate is let go


class Recorder:
    """What was taken at each place, a node and a key."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._taken: dict[tuple[int, Key], dict[tuple[Any, ...], Any]] = {}

    def take(self, node: int, key: Key, when: tuple[Any, ...], took: Any) -> None:
        """Note what was taken at a moment, which is the same if it is done again."""
        self._taken.setdefault((node, key), {})[when] = took

    def choices(self) -> list[tuple[int, Key, Any]]:
        """Node, key and what was taken, for each place in the order of its moments."""
        return [
            (node, key, found[when]) for (node, key), found in self._taken.items() for when in sorted(found)
        ]


class Notes:
    """What one task notes in one epoch."""

    def __init__(self, recorder: Recorder, epoch: int, level: int) -> None:
        """`level`: where the task is; at 0 it reads."""
        self._recorder = recorder
        self._epoch = epoch
        self._level = level
        self._count = 0
        self._keys: dict[int, Key] = {}  # of the task's input records

    def came(self, blocks: Iterable[Block]) -> None:
        """Know the key that each record came by."""
        self._keys = {}
        for block in blocks:
            self._keys.update(zip(block.rows.tolist(), block.keys.plain(), strict=True))

    def merged(self, node: Node, blocks: Sequence[tuple[int, Block]], origins: Any) -> None:
        """Blocks became one, each record in its place."""
        rows = np.concatenate([block.rows for _, block in blocks])
        places = [place for place, block in blocks for _ in range(len(block))]
        keys = [key for _, block in blocks for key in block.keys.plain()]
        for at in np.argsort(rows, kind="stable").tolist():
            row = int(rows[at])
            shard = (int(origins.highs[row]), *origins.of(row)) if self._level == 0 else ()
            self._take(node, keys[at], shard, (places[at], 0))

    def combined(self, node: Node, block: Block) -> None:
        """An aggregate took each record of a block, and gave one update for each key."""
        for key in block.keys.plain():
            self._take(node, key, (), 0)
        for key in dict.fromkeys(block.keys.plain()):
            self._take(node, key, (), EMIT)

    def grouped(self, node: Node, block: Block, moment: Sequence[Any]) -> None:
        """Records go on under new keys, in a parcel that is put in order by this."""
        at, *parcel = moment
        for number, (row, key) in enumerate(zip(block.rows.tolist(), block.keys.plain(), strict=True)):
            high = at if isinstance(at, int) else int(at[number])
            when = (self._epoch, high, *parcel, number)
            self._recorder.take(node.id, key, when, (self._keys[row], 0))

    def _take(self, node: Node, key: Key, when: tuple[Any, ...], took: Any) -> None:
        self._count += 1
        self._recorder.take(node.id, key, (self._epoch, *when, self._count), took)


def notes_of(recorder: Recorder | None, epoch: int, level: int) -> Notes | None:
    """Notes for a task, if there is somebody to read them."""
    return None if recorder is None else Notes(recorder, epoch, level)
