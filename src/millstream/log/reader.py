"""A reader: the cursors of a consumer, and whose turn it is.

Shards take turns, a batch each; inside a shard the order is that of the seqs.

>>> from millstream.log.open import open
>>> from millstream.log.options import Options
>>> log = open("memory:")
>>> log.create("orders", shards=2)
>>> for shard, value in ((0, b"a"), (0, b"b"), (1, b"c")):
...     _ = log.append("orders", value, shard=shard)
>>> reader = Reader(log, Options(limits=Limits(records=1)), log.ends)
>>> for shard in (0, 1):
...     reader.add(Cursor(("orders", shard), seq=0))
>>> [record.value for _ in range(3) for record in reader.take_batch().records()]
[b'a', b'c', b'b']
>>> reader.take_batch() is None
True
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import TypeAlias

import msgspec
import pyarrow as pa

from millstream.errors import HistoryChanged, SeqTrimmed
from millstream.log.batch import Batch, Limits
from millstream.log.cursor import Cursor
from millstream.log.group import Place
from millstream.log.log import Log
from millstream.log.options import Changed, Deliver, Options, Trimmed
from millstream.log.slice import Slice
from millstream.record import RECORDS_PER_SLICE, Record

StreamEnds: TypeAlias = Callable[[str], "list[tuple[int, int]] | None"]  # None: it is to be forgotten


class Reader:
    """Reads shards in turn."""

    def __init__(self, log: Log, options: Options, stream_ends: StreamEnds) -> None:
        """Begin with no shard."""
        self.cursors: dict[Place, Cursor] = {}
        self.counts: Counter[str] = Counter()
        self._log = log
        self._options = options
        self._stream_ends = stream_ends
        self._round: deque[Cursor] = deque()  # who has a turn before it is seen who has something to read
        self.held: Cursor | None = None  # whose records were handed out last
        self._slice: Slice | None = None  # what is being handed out record by record,
        self._rest: deque[pa.RecordBatch] = deque()  # what of its batch comes after that,
        self._rest_end = 0  # and where to read on after all of it

    # -- the shards

    def add(self, cursor: Cursor) -> None:
        """Read this shard too."""
        self.cursors[cursor.place] = cursor

    def drop(self, place: Place) -> None:
        """Read this shard no more."""
        cursor = self.cursors.pop(place, None)
        if cursor is not None and cursor is self.held:
            self.settle()
            self._rest.clear()
            self.held = None

    def move(self, place: Place, seq: int, history: int | None = None) -> None:
        """Go on from this seq in a shard."""
        cursor = self.cursors[place]
        if cursor is self.held:
            self.settle()
            self._rest.clear()
        cursor.move(seq, history)

    @property
    def finished(self) -> bool:
        """Whether all shards were read as far as they should be."""
        return all(cursor.finished for cursor in self.cursors.values())

    @property
    def given(self) -> int:
        """How many records were handed out."""
        return self.counts["records"] + (self._slice.given if self._slice is not None else 0)

    def waiting_for(self) -> dict[Place, int]:
        """Where new records would be read."""
        return {place: c.position.seq for place, c in self.cursors.items() if not c.finished}

    # -- handing out

    def settle(self) -> None:
        """What was handed out is done with."""
        if self.held is not None:
            self.held.settle()
        if self._slice is not None:
            self._slice.cut()
            self.counts["records"] += self._slice.given
            if self._slice.rest.num_rows:
                self._rest.appendleft(self._slice.rest)
            self._slice = None

    def cut(self) -> None:
        """Hand out no more records before somebody has asked; any thread may call this."""
        piece = self._slice
        if piece is not None:
            piece.cut()

    def take_back(self) -> None:
        """Hand out again what was handed out last."""
        if self.held is not None:
            self.held.go_back()
            self._round.appendleft(self.held)  # it is still its turn
            self.held = None
        self._rest.clear()

    def take_batch(self) -> Batch | None:
        """The next batch of the shard whose turn it is; None: there is nothing to read now."""
        self.settle()
        self._rest.clear()
        found = self._next()
        if found is None:
            return None
        self.held, batch = found
        self.held.hand_out(batch.next_seq)
        self.counts["records"] += batch.num_records
        return batch

    def take_slice(self, most: int | None = None) -> Iterator[Record] | None:
        """The same, record by record, at most so many."""
        self.settle()
        if not self._rest:
            found = self._next()
            if found is None:
                return None
            self.held, batch = found
            self._rest.extend(part for part in batch.batches if part.num_rows)
            self._rest_end = batch.next_seq
        return self._next_slice(min(most or RECORDS_PER_SLICE, RECORDS_PER_SLICE))

    def _next_slice(self, most: int) -> Iterator[Record]:
        part = self._rest.popleft()
        if part.num_rows > most:
            self._rest.appendleft(part.slice(most))
            part = part.slice(0, most)
        end = self._rest_end if not self._rest else part.column(0)[-1].as_py() + 1
        assert self.held is not None  # noqa: S101 - there is no rest without it
        self._slice = Slice(part, end, *self.held.place)
        self.held.hand_out(end, self._slice)
        return self._slice.records

    # -- reading

    def _next(self) -> tuple[Cursor, Batch] | None:
        found = self._read_round()
        if found is None:
            self.look()
            found = self._read_round()
        return found

    def _read_round(self) -> tuple[Cursor, Batch] | None:
        """Let the next one read who finds something."""
        while self._round:
            cursor = self._round.popleft()
            batch = self._read(cursor) if self.cursors.get(cursor.place) is cursor else None
            if batch is None:
                continue
            if batch.num_records:
                self.counts["batches"] += 1
                return cursor, batch
            cursor.move(batch.next_seq, batch.history)  # past a gap
        return None

    def look(self) -> None:
        """See who has something to read: a new round."""
        ready = []
        ends = {stream: self._stream_ends(stream) for stream in sorted({place[0] for place in self.cursors})}
        for place, cursor in list(self.cursors.items()):
            shards = ends[place[0]]
            if shards is None:
                self.drop(place)
                continue
            end = shards[place[1]][1]
            if cursor.stop_at is not None:
                cursor.stop_at = min(cursor.stop_at, end)  # a power cut may have taken back the rest
            if self._options.deliver is Deliver.LATEST:
                self._keep_up(cursor, end)
            if cursor.position.seq != end and not cursor.finished:
                ready.append(cursor)
        self._round = deque(ready)

    def _keep_up(self, cursor: Cursor, end: int) -> None:
        seq, history = cursor.position.seq, cursor.position.history
        if end - seq > self._options.behind:
            self.counts["skipped"] += end - self._options.behind - seq
            self.move(cursor.place, end - self._options.behind, history)

    def _read(self, cursor: Cursor) -> Batch | None:
        """A batch from where the cursor is, or, where the options say so, from where there is one."""
        while not cursor.finished:
            seq, stop_at, limits = cursor.position.seq, cursor.stop_at, self._options.limits
            if stop_at is not None:
                limits = Limits(min(limits.records, stop_at - seq), limits.bytes)
            try:
                batch = self._log.read(*cursor.place, seq, limits, history=cursor.history)
            except SeqTrimmed as error:
                if self._options.on_trimmed is Trimmed.RAISE:
                    raise
                self.counts["skipped"] += error.missing
                cursor.move(error.first, cursor.history)
            except HistoryChanged as error:
                if self._options.on_history is Changed.RAISE:
                    raise
                self.counts["rewound"] += seq - error.end
                cursor.move(error.end)
            else:
                cursor.history = batch.history
                return batch if stop_at is None or batch.next_seq <= stop_at else _until(batch, stop_at)
        return None


def _until(batch: Batch, seq: int) -> Batch:
    """What of a batch lies before a seq; the marks at its end do not hold there."""
    before = (part.slice(0, int(part.column(0).to_numpy().searchsorted(seq))) for part in batch.batches)
    kept = tuple(part for part in before if part.num_rows)
    return msgspec.structs.replace(batch, batches=kept, next_seq=seq, marks=())
