"""A cursor: how far one shard was read, handed out, processed and committed.

>>> cursor = Cursor(("orders", 0), seq=5)
>>> cursor.hand_out(9)
>>> cursor.position.seq, cursor.done
(9, 5)
>>> cursor.settle()
>>> cursor.done
9
"""

from __future__ import annotations

import msgspec

from millstream.log.group import Place
from millstream.log.slice import Slice


class Position(msgspec.Struct, frozen=True):
    """Where reading goes on in a shard, and the log's history in which that was learned.

    A history of None is not known yet: nothing was read there.
    """

    seq: int
    history: int | None = None


class Cursor:
    """One shard's place in a consumer.

    What was handed out last is still being processed; `settle` says that it is done with, because
    more was asked for.
    """

    def __init__(
        self,
        place: Place,
        seq: int,
        *,
        generation: int = 0,
        committed: int | None = None,
        stop_at: int | None = None,
        unsaved: bool = False,
    ) -> None:
        """Begin at a seq; `unsaved`: where it begins is to be committed too."""
        self.place = place
        self.generation = generation
        self.committed = committed  # the group's offset, as far as is known
        self.stop_at = stop_at
        self.history: int | None = None
        self._next = seq
        self._done = seq
        self._slice: Slice | None = None
        self._saved = -1 if unsaved else seq

    @property
    def position(self) -> Position:
        """Where reading goes on."""
        piece = self._slice
        return Position(self._next if piece is None else piece.next_seq, self.history)

    @property
    def done(self) -> int:
        """All before this seq was processed."""
        piece = self._slice
        return self._done if piece is None else max(self._done, piece.done_seq)

    @property
    def finished(self) -> bool:
        """Whether there is nothing more that this cursor should read."""
        return self.stop_at is not None and self.position.seq >= self.stop_at

    @property
    def dirty(self) -> bool:
        """Whether there is something to commit."""
        return self.done != self._saved

    def hand_out(self, next_seq: int, piece: Slice | None = None) -> None:
        """Give out everything before `next_seq`, or a slice record by record."""
        self._next = next_seq
        self._slice = piece

    def acknowledge(self) -> None:
        """Everything that was handed out is done with, and what is being processed too."""
        self._done = self.position.seq

    def settle(self) -> None:
        """What was handed out is done with; what a slice has left was not handed out."""
        # In this order: another thread may ask how far the cursor is.
        self._next = self._done = self.position.seq
        self._slice = None

    def move(self, seq: int, history: int | None = None) -> None:
        """Go to a seq."""
        self._slice = None
        self._next = self._done = seq
        self.history = history

    def go_back(self) -> None:
        """What was handed out is to be handed out again."""
        self.move(self.done, self.history)

    def saved(self, seq: int) -> None:
        """Everything before this seq is committed."""
        self.committed = self._saved = seq
