"""The fold: what is in the journal goes into large Arrow batches and the manifest, and a new journal begins.

The order makes it safe at every step: records first and synced, then the empty next generation, then
the frame that closes this one, then the manifest in one transaction. Only that transaction makes it
so; who finds a closed journal that the manifest still names does the fold again.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from millstream.log.file.books import Books
from millstream.log.file.journal import Journal, journal_name
from millstream.log.file.manifest import Fold, Kept
from millstream.log.file.segment import About, Kind, Note
from millstream.log.file.segments import Segments
from millstream.log.file.tail import batch_of, stretches
from millstream.log.state import ShardKey, State
from millstream.record import with_seqs

BATCH_RECORDS_MAX = 100_000
BATCH_BYTES_MAX = 8 << 20


def fold(books: Books, segments: Segments) -> set[str]:
    """Fold the journal; gives the segments in which records may have gone. Call it alone."""
    old = books.journal
    content = folded(books, segments)
    journal = Journal.create(books.disk, old.generation + 1, books.state.id)
    if not old.closed:
        books.whole = False  # who is stopped between here and the next generation reads both again
        old.close_generation()
    touched = books.manifest.fold(content)
    touched |= books.tail.segments  # of what was trimmed already, nothing comes into the manifest
    books.begin(journal, settled=True)
    books.disk.unlink(journal_name(old.generation))
    segments.seal([stream for stream in segments.streams() if stream not in books.state.names])
    return touched


def folded(books: Books, segments: Segments) -> Fold:
    """Write the records that only the journal holds, and sync all; gives what the manifest is to have."""
    state, tail = books.state, books.tail
    new_batches = list(_batches(books))
    written: dict[tuple[ShardKey, int], list[Kept]] = {}
    for number, (key, first, batch) in enumerate(new_batches):
        seq = batch.column(0)[0].as_py()
        note = Note(state.fact.history, state.id, number, len(new_batches), key[1], seq, Kind.FOLD)
        extent = segments.write(about(state, key[0]), batch, note)
        marks = tail.marks_at(key, extent.next, _marks(state, key))
        written.setdefault((key, first), []).append(Kept(extent, marks))
        tail.unsynced.add(extent.segment)
    segments.sync(sorted(tail.unsynced))
    return Fold(
        start=books.next_start(),
        rows=[row for table in state.tables.values() for row in table.changes()],
        extents=list(_extents(books, written)),
        firsts={key: state.shards[key].first for key in state.shards.dirty if key in state.shards},
        streams_gone=sorted({key[0] for key in state.shards.dirty if key[0] not in state.names}),
    )


def about(state: State, stream: int) -> About:
    """What the segments of a stream say of it."""
    name = state.names[stream]
    row = state.streams[name]
    return About(name, stream, row.created_ms, row.settings)


def split(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in pieces that are not too large to be read at once."""
    count = max(1, batch.num_rows)
    step = min(BATCH_RECORDS_MAX, max(1, BATCH_BYTES_MAX * count // max(1, batch.nbytes)))
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)


def _batches(books: Books) -> Iterator[tuple[ShardKey, int, pa.RecordBatch]]:
    """The records that only the journal holds, as batches with seqs, and where their stretch began."""
    state = books.state
    for key, parts in books.tail.parts.items():
        name = state.names.get(key[0])
        if name is None:
            continue
        settings = state.streams[name].settings
        alive = [part for part in parts if part.next > state.shards[key].first]
        for stretch in stretches(alive):
            if isinstance(stretch, list):
                batch = with_seqs(batch_of(stretch, settings), stretch[0].first)
                for piece in split(batch):
                    yield key, stretch[0].first, piece


def _extents(
    books: Books, written: dict[tuple[ShardKey, int], list[Kept]]
) -> Iterator[tuple[ShardKey, Kept]]:
    """Every extent that the manifest is to have: those just written, and those that commits wrote."""
    state, tail = books.state, books.tail
    for (key, _), kepts in written.items():
        for kept in kepts:
            yield key, kept
    for key, parts in tail.parts.items():
        if key[0] in state.names:
            for part in parts:
                for extent in part.extents:
                    if extent.next > state.shards[key].first:
                        yield key, Kept(extent, tail.marks_at(key, extent.next, _marks(state, key)))


def _marks(state: State, key: ShardKey) -> dict[str, int]:
    return state.shards[key].marks
