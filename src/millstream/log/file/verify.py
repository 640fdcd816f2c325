"""Verification: everything that is stored is read and compared with its checksum.

What is found wrong is told, not mended: `repair` does that. Nothing that is damaged stops it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from millstream.errors import Damaged, ReadOnly
from millstream.log.entry import Extent
from millstream.log.file.books import Books
from millstream.log.file.journal import Journal, journal_name
from millstream.log.file.manifest import NAME
from millstream.log.file.reader import Reader
from millstream.log.file.salvage import Salvage
from millstream.log.finding import Finding, Report, Step
from millstream.log.state import ShardKey, State
from millstream.log.stream import Settings

_EXTENTS_AT_ONCE = 64


def verify(
    books: Books, turn: Callable[[], AbstractContextManager[State]], stream: str | None, report: Report | None
) -> Iterator[Finding]:
    """What is wrong with a stream, or with all of them; readers and writers go on meanwhile."""
    with _in_turn(books, turn) as (state, wrong):
        if stream is not None:
            state.stream(stream)
        yield from wrong
        yield from check_journal(books)
        names = {row.id: name for name, row in state.streams.items() if stream in {None, name}}
        salvage = Salvage(books.manifest.db)
        extents: dict[ShardKey, list[Extent]] = {
            (number, shard): []
            for number, name in names.items()
            for shard in range(state.streams[name].settings.shards)
        }
        for key, kept in salvage.extents:
            if key[0] in names:
                extents.setdefault(key, []).append(kept.extent)
        for key, parts in books.tail.parts.items():
            if key[0] in names:
                extents.setdefault(key, []).extend(extent for part in parts for extent in part.extents)
    yield from salvage.findings
    for (number, shard), first, after in salvage.missing:
        if number in names:
            yield Finding(
                f"{NAME}: rows of extents are missing",
                stream=names[number],
                shard=shard,
                segment=NAME,
                first=first,
                next=after,
                lost=after - first,
            )
    for done, (key, known) in enumerate(sorted(extents.items())):
        if report is not None:
            report(Step("verify", done, len(extents)))
        for start in range(0, len(known), _EXTENTS_AT_ONCE):
            some = known[start : start + _EXTENTS_AT_ONCE]
            yield from _check_extents(books, turn, names[key[0]], key, some)
    with _in_turn(books, turn) as (state, _):
        staged = wrong_staged(Reader(books.disk), state)
    yield from (finding for _, finding, _ in staged if finding.stream in names.values())
    if report is not None:
        report(Step("verify", len(extents), len(extents)))


@contextmanager
def _in_turn(
    books: Books, turn: Callable[[], AbstractContextManager[State]]
) -> Iterator[tuple[State, list[Finding]]]:
    """Alone, if the log can be brought up to date; if it cannot, with what is wrong with it."""
    entered = False
    try:
        with turn() as state:
            entered = True
            yield state, []
    except (Damaged, ReadOnly) as error:
        if entered:
            raise
        wrong = [Finding(str(error), segment=journal_name(books.journal.generation))]
        yield books.state, wrong if isinstance(error, Damaged) else []


def check_journal(books: Books) -> Iterator[Finding]:
    """Whether the journal can still be read up to where the books have read it."""
    number = books.journal.generation
    name = journal_name(number)
    try:
        journal = Journal.open(books.disk, number, write=False)
        for _ in journal.read():
            pass
    except FileNotFoundError:
        yield Finding(f"{name} is gone, and with it every commit since the last fold", segment=name)
        return
    except Damaged as error:
        yield Finding(str(error), segment=name, position=0)
        return
    if journal.damage is not None or journal.end < books.journal.end:
        what = journal.damage or f"it is cut short: it should go on to {books.journal.end} at least"
        yield Finding(f"{name}, position {journal.end}: {what}", segment=name, position=journal.end)


def _check_extents(
    books: Books,
    turn: Callable[[], AbstractContextManager[State]],
    stream: str,
    key: ShardKey,
    extents: Sequence[Extent],
) -> Iterator[Finding]:
    """What is wrong with some extents of a shard; those that upkeep has replaced meanwhile are left out."""
    reader = Reader(books.disk)
    with _in_turn(books, turn) as (state, _):
        if key[0] not in state.names:
            return
        settings = state.streams[stream].settings
        first = state.shards[key].first if key in state.shards else 0
        wrong = [
            (extent, what)
            for extent in extents
            if extent.next > first and (what := wrong_with(reader, extent, settings)) is not None
        ]
        wrong = [(extent, what) for extent, what in wrong if _is_named(books, key, extent)]
    for extent, what in wrong:
        yield finding_of(stream, key, extent, what)


def finding_of(stream: str, key: ShardKey, extent: Extent, what: str) -> Finding:
    """What is wrong with an extent, as a finding."""
    return Finding(
        what,
        stream=stream,
        shard=key[1],
        segment=extent.segment,
        position=extent.position,
        first=extent.first,
        next=extent.next,
        lost=extent.count,
    )


def wrong_with(reader: Reader, extent: Extent, settings: Settings) -> str | None:
    """What is wrong with an extent; None if it is as it was written."""
    try:
        batch = reader.read(extent, settings.schema)
    except Damaged as error:
        return str(error)
    except FileNotFoundError:
        return f"segment {extent.segment} is gone"
    if batch.column(0)[0].as_py() != extent.first or batch.column(0)[-1].as_py() + 1 != extent.next:
        return f"segment {extent.segment}, position {extent.position}: the seqs are not those of the manifest"
    return None


def wrong_staged(reader: Reader, state: State) -> list[tuple[str, Finding, Extent]]:
    """What is wrong with records that wait to be committed, by their tokens."""
    found = []
    for token, row in state.staged.items():
        name = state.names[row.stream]
        for extent in row.extents:
            what = wrong_with(reader, extent, state.streams[name].settings)
            if what is not None:
                what = f"staged records {token}: {what}"
                finding = Finding(what, name, row.shard, extent.segment, extent.position)
                found.append((token, finding, extent))
    return found


def _is_named(books: Books, key: ShardKey, extent: Extent) -> bool:
    """Whether the books still name an extent."""
    for part in books.tail.parts.get(key, ()):
        if extent in part.extents:
            return True
    row = (*key, extent.first)
    query = "SELECT segment FROM extents WHERE stream = ? AND shard = ? AND first = ?"
    found = books.manifest.db.execute(query, row).fetchone()
    return found is not None and found[0] == extent.segment
