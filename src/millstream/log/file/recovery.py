"""Opening a log: making a new one, and finding out what a power cut has left of an old one.

A process that was killed leaves at most a torn frame at the end of the journal, which the next writer
cuts off. After a start of the machine more may be missing. The commits since the last fold are then
checked one after the other, with the batches they name; from the first that is not all there on they
are undone. Everything of a commit is in its frame, so cutting the journal undoes all of it: records
of every shard, offsets, fences, marks.
"""

from __future__ import annotations

import msgspec

from millstream.errors import Damaged, ManifestLost
from millstream.log.file.books import Books
from millstream.log.file.disk import Disk
from millstream.log.file.journal import HEADER_BYTES, Journal, generation_of, journal_name
from millstream.log.file.manifest import NAME, Manifest
from millstream.log.file.mark import SyncedMark
from millstream.log.file.reader import Reader
from millstream.log.file.segment import FOLDER
from millstream.log.file.tail import extents_of
from millstream.log.state import Change, CutRow, FactRow, State

HISTORIES_MAX = 100  # older ones are told by the oldest that is kept


def begin(disk: Disk) -> None:
    """Make a new log where there is none; call it in turn."""
    names = disk.names("")
    unused = FOLDER not in names and _nothing_written(disk, names)
    if NAME in names and not (unused and Manifest.unfinished(disk)):
        return
    if not unused:
        raise ManifestLost(
            f"{disk.root} holds streams, and {NAME} is gone: {disk.repair_call} brings back the commits "
            "whose records are all there"
        )
    Journal.create(disk, 1, 0)
    Manifest.create(disk)


def _nothing_written(disk: Disk, names: list[str]) -> bool:
    """Whether no journal holds an entry: not even the first process has come to the end of opening."""
    for name in names:
        generation = generation_of(name)
        if generation is not None:
            fd = disk.open_read(name)
            try:
                if generation > 1 or disk.size(fd) > HEADER_BYTES:
                    return False
            finally:
                disk.close(fd)
    return True


def recover(books: Books, reader: Reader, mark: SyncedMark, *, write: bool) -> int | None:
    """Bring the books up to date; gives where the journal was cut after a start of the machine."""
    books.load()
    generation, folded = books.journal.generation, books.state.fact
    synced = mark.position(generation)  # before reading on: others may write meanwhile
    books.read()
    boot = books.disk.boot_id()
    if books.state.fact.boot == boot or not write:
        books.refresh(alone=write)
        if books.journal.generation == generation:
            if books.journal.end < synced:
                raise _not_all_there(books, synced)
            if write and books.journal.end > synced and books.state.fact != folded:
                books.journal.sync()  # who began this history may have been killed before it was durable
        return None
    if not books.state.fact.boot:
        fact = msgspec.structs.replace(books.state.fact, boot=boot)
        books.change(books.state.facts.change("log", fact))
        books.journal.sync()
        return None
    books.load()
    _read_while_whole(books, reader)
    journal = books.journal
    if journal.end < synced:
        raise _not_all_there(books, synced)
    if journal.closed:  # a fold was cut short; what is noted now would be lost after the closing frame
        journal.reopen()
    journal.cut()
    _raise_history(books, boot)
    mark.write(journal.generation, journal.end)
    return journal.end


def _not_all_there(books: Books, synced: int) -> Damaged:
    journal = books.journal
    return Damaged(
        f"{journal_name(journal.generation)}, position {journal.end}: a commit that was acknowledged as "
        f"synced (up to position {synced}) is not all there: {journal.damage or 'it is cut short'}. "
        f"Run {books.disk.repair_call} to go on without it"
    )


def _read_while_whole(books: Books, reader: Reader) -> None:
    """Take in the commits that are all there, up to the first one that is not."""
    journal = books.journal
    for entries in journal.read():
        try:
            for extent in (extent for entry in entries for extent in extents_of(entry)):
                reader.bytes_of(extent)
        except (Damaged, FileNotFoundError) as error:
            journal.end, journal.damage = journal.start, str(error)
            journal.closed = False
            return
        for entry in entries:
            books.accept(entry)


def _raise_history(books: Books, boot: str) -> None:
    """Begin a new history, in which every shard ends where it ends now."""
    books.change(*next_history(books.state, boot))
    books.journal.sync()


def next_history(state: State, boot: str) -> list[Change]:
    """The rows that begin a new history, in which every shard ends where it ends now."""
    number = state.fact.history + 1
    ends = {key: row.end for key, row in state.shards.items()}
    cuts = {**state.cuts, number: CutRow(ends)}
    while len(cuts) > HISTORIES_MAX:
        oldest, second = sorted(cuts)[:2]
        both = cuts[oldest].ends.keys() & cuts[second].ends.keys()
        cuts[second] = CutRow({key: min(cuts[oldest].ends[key], cuts[second].ends[key]) for key in both})
        del cuts[oldest]
    # Where entries were lost, an older one may have been the last to say which number is free.
    next_stream = max([state.fact.next_stream, *(stream + 1 for stream in state.names)])
    rows = [state.facts.change("log", FactRow(number, boot, next_stream))]
    rows += [state.cuts.change(number, None) for number in state.cuts if number not in cuts]
    rows += [state.cuts.change(number, cut) for number, cut in cuts.items() if state.cuts.get(number) != cut]
    return rows
