"""Offsets: where a consumer begins, and how what it has done with is committed for its group.

>>> from millstream.log.open import open
>>> log = open("memory:")
>>> log.create("orders")
>>> _ = log.append("orders", b"3 apples")
>>> cursor = Cursor(("orders", 0), seq=0)
>>> cursor.hand_out(1)
>>> cursor.settle()
>>> Offsets(log, Options(group="bills"), {}).commit([(cursor, 1)])
>>> log.offsets("bills"), cursor.dirty
({('orders', 0): 1}, False)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from millstream.errors import Conflict, Fenced, UsageError
from millstream.log.commit import Append, Commit, Offset
from millstream.log.cursor import Cursor
from millstream.log.group import Place
from millstream.log.log import Log
from millstream.log.options import Deliver, Options, Start


class Offsets:
    """The offsets of a consumer's group; without a group there are none."""

    def __init__(self, log: Log, options: Options, at_first: Mapping[Place, tuple[int, int]]) -> None:
        """Take the shards that there were when the consumer was made, and how far they went."""
        self._log = log
        self._options = options
        self._at_first = at_first
        # The latest are at the end, wherever the group was.
        self.kept = options.group is not None and options.deliver is not Deliver.LATEST

    def cursors(self, owned: Mapping[Place, int], ends: Mapping[Place, tuple[int, int]]) -> Iterable[Cursor]:
        """A cursor for each shard: at the group's offset, or where the options say."""
        committed = self._log.offsets(self._options.group or "") if self.kept else {}
        for place, generation in owned.items():
            if place in ends:  # else it was deleted just now
                yield self._cursor(place, generation, committed.get(place), ends[place])

    def _cursor(self, place: Place, generation: int, offset: int | None, ends: tuple[int, int]) -> Cursor:
        stop_at = None
        if self._options.until == "end":
            stop_at = self._at_first.get(place, (0, 0))[1]
        start = self._options.start
        if offset is None and start is Start.COMMITTED:
            raise UsageError(
                f"start='committed': group '{self._options.group}' has no offset in stream '{place[0]}', "
                f"shard {place[1]}: use start='beginning' or 'end', or commit one"
            )
        # What is written to a shard that came later must not be missed.
        from_end = start is Start.END and place in self._at_first
        seq = offset if offset is not None else ends[from_end]
        # Where the group began at the end has to be known to whoever takes the shard over.
        unsaved = self.kept and offset is None and from_end
        return Cursor(place, seq, generation=generation, committed=offset, stop_at=stop_at, unsaved=unsaved)

    def commit(self, moves: Sequence[tuple[Cursor, int]], appends: tuple[Append, ...] = ()) -> None:
        """Move the offsets of shards to these seqs, and write records, together or not at all."""
        offsets = tuple(
            Offset(
                self._options.group or "",
                *cursor.place,
                expected=cursor.committed,
                next=seq,
                generation=cursor.generation,
            )
            for cursor, seq in moves
        )
        self._log.commit(Commit(records=appends, offsets=offsets), self._options.durability)
        for cursor, seq in moves:
            cursor.saved(seq)

    def commit_each(self, cursors: Sequence[Cursor]) -> list[Cursor]:
        """Move every offset that can be moved; those of others are given back."""
        refused = []
        for cursor in cursors:
            try:
                self.commit([(cursor, cursor.done)])
            except (Fenced, Conflict):
                refused.append(cursor)
        return refused
