"""Repair: a log that is damaged made one that works, with all that is still there of it.

What is damaged is worked out first, from the files as they are, and written down. Then whatever is
needed is written beside what there is, and one step makes it so: a transaction of the manifest, or a
new manifest that takes the old one's name. So repair can be killed at any moment and run again.
Nothing is thrown away: damaged files and bytes go to the folder `damaged`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from millstream.errors import Damaged, ManifestLost, MillstreamError, ReadOnly, WrongType
from millstream.log.entry import Changed, Extent
from millstream.log.file.aside import Aside
from millstream.log.file.books import Books
from millstream.log.file.disk import Disk
from millstream.log.file.fold import folded
from millstream.log.file.journal import Journal, generation_of, journal_name
from millstream.log.file.lock import hold
from millstream.log.file.manifest import NAME, Fold, Manifest, Start
from millstream.log.file.mark import SyncedMark
from millstream.log.file.reader import Reader
from millstream.log.file.rebuild import Rebuilt, look, rebuild, strays
from millstream.log.file.recovery import next_history, recover
from millstream.log.file.replay import Replay, open_journal, pick_journal
from millstream.log.file.salvage import Salvage, open_damaged
from millstream.log.file.segment import FOLDER, About, Kind, segment_path
from millstream.log.file.segments import Segments
from millstream.log.file.sound import unsound_rows
from millstream.log.file.sweep import segments_on
from millstream.log.file.tail import Tail, batch_of, stretches
from millstream.log.file.verify import finding_of, wrong_staged, wrong_with
from millstream.log.finding import Finding, Report, Step
from millstream.log.state import ShardKey, ShardRow, State

_NEW = "manifest.new"
_NO_END = 1 << 62
_NO_START = Start(0, 0)  # of a new manifest that no journal goes on from yet


def repair(disk: Disk, report: Report | None = None) -> list[Finding]:
    """Mend a log that nobody has open; gives what was wrong, nothing if nothing was."""
    names = disk.names("")
    if NAME not in names and FOLDER not in names and not any(generation_of(name) for name in names):
        raise WrongType(f"{disk.root!r} holds no log: name the directory of one")
    if not disk.writable():
        raise ReadOnly(f"{disk.root!r} cannot be written: check the directory's owner and permissions")
    held = hold(disk, alone=True)
    try:
        return _Repair(disk, report).run()
    finally:
        disk.close(held)


class _Repair:
    """One run of it."""

    def __init__(self, disk: Disk, report: Report | None) -> None:
        self.disk = disk
        self.report = report
        self.aside = Aside(disk)
        self.findings: list[Finding] = []

    def run(self) -> list[Finding]:
        self._forget_begun()
        salvage = self._salvage()
        if salvage is not None and not salvage.findings and not salvage.missing:
            books = Books(self.disk, write=True)
            if self._recover(books):
                self._mend(books, new=False)
                return self.findings
            books.close()
        self._rebuild(salvage)
        return self.findings

    def _forget_begun(self) -> None:
        """Remove what a repair has begun that was killed before it came to count."""
        if _NEW in self.disk.names(""):
            with suppress(MillstreamError):
                begun = Manifest(self.disk, write=True, name=_NEW)
                generation = begun.start().generation
                begun.close()
                if generation:
                    self.disk.unlink(journal_name(generation))
        for left in (_NEW, f"{_NEW}-journal"):
            self.disk.unlink(left)

    def _salvage(self) -> Salvage | None:
        """What can be read of the manifest, all of it looked at; None if there is nothing to read."""
        try:
            db = open_damaged(self.disk)
        except ManifestLost as error:
            self.findings.append(Finding(str(error).partition(":")[0], segment=NAME))
            return None
        salvage = Salvage(db)
        self._tell("manifest")
        return salvage

    def _recover(self, books: Books) -> bool:
        """Let the log open as it always does, if it can."""
        mark = SyncedMark(self.disk, write=True)
        try:
            recover(books, Reader(self.disk), mark, write=True)
            for (stream, _), parts in books.tail.parts.items():
                for stretch in stretches(parts):
                    if isinstance(stretch, list) and stream in books.state.names:
                        batch_of(stretch, books.state.streams[books.state.names[stream]].settings)
        except (Damaged, FileNotFoundError):
            return False
        finally:
            mark.close()
        return True

    def _rebuild(self, salvage: Salvage | None) -> None:
        """Make a new manifest beside what there is of the old one, and go on with it."""
        known = None if salvage is None else salvage.start
        journal = open_journal(self.disk, known) if known is not None else pick_journal(self.disk)
        start = known
        if known is None and journal is not None:
            start = Start(journal.generation, journal.base)
        generations = [generation_of(name) or 0 for name in self.disk.names("")]
        synced, position = self._synced()
        found = look(self.disk, self.report)
        rebuilt = rebuild(found, salvage, start, max([1, synced, *generations]))
        Manifest.create(self.disk, _NEW)
        books = Books(self.disk, write=True, name=_NEW)
        books.manifest.fold(msgspec.structs.replace(rebuilt.fold, start=_NO_START))
        books.state = rebuilt.state
        books.state.id = rebuilt.fold.start.base
        if journal is None or journal.generation != synced:
            position = 0
        findings = self._replay(books, rebuilt, journal, found.abouts, position)
        self._tell_rebuilt(rebuilt, salvage, books.tail)
        self.findings += findings
        self._mend(books, new=True)

    def _tell_rebuilt(self, rebuilt: Rebuilt, salvage: Salvage | None, tail: Tail) -> None:
        """Say what was not found, as far as the journal has not brought it back."""
        self.findings += rebuilt.findings
        if salvage is None:
            what = "fences, offsets, pins, leases and marks that were only in the manifest are gone"
            self.findings.append(Finding(f"{what}; so are streams that had no segment", segment=NAME))
        names = rebuilt.state.names  # without those that the journal has deleted
        for hole in rebuilt.holes:
            what = "no batch was found for these seqs: they were trimmed or compacted, or are lost"
            end = min(tail.first(hole.key, hole.next), hole.next)
            if hole.first < end and hole.key[0] in names:
                self._lost(what, names[hole.key[0]], hole.key[1], hole.first, end)
        parts = [part for some in tail.parts.values() for part in some]
        extents = [extent for part in parts for extent in part.extents]
        extents += [extent for row in rebuilt.state.staged.values() for extent in row.extents]
        named = {(extent.segment, extent.position) for extent in extents}
        for key, batch, why in rebuilt.left_out:
            extent = batch.extent
            staged = batch.note.kind is Kind.STAGED
            if (extent.segment, extent.position) in named or key[0] not in names:
                continue
            if tail.first(key, _NO_END) < (1 if staged else extent.next):
                continue  # others were given its seqs, and so its commit never came to be
            name = names[key[0]]
            if staged:
                found = Finding(why, name, key[1], extent.segment, extent.position)
            else:
                found = finding_of(name, key, extent, f"a batch is left out: {why}")
            self.findings.append(found)
            self.aside.bytes_of(extent.segment, extent.position, extent.position + extent.length)

    def _replay(
        self, books: Books, rebuilt: Rebuilt, journal: Journal | None, abouts: dict[int, About], synced: int
    ) -> list[Finding]:
        """Take in the journal, as far as it can be read; gives what is wrong with it."""
        start = rebuilt.fold.start
        if journal is None:
            what = f"{journal_name(start.generation)} is gone, and with it every commit since the last fold"
            nothing = self.disk.open_read(_NEW)  # it is never read: no commit goes on from here
            books.begin(Journal(self.disk, start.generation, nothing, start.base))
            return [Finding(what, segment=journal_name(start.generation))]
        books.begin(journal)
        replay = Replay(books, abouts, rebuilt.remade, synced)
        replay.run()
        return replay.findings

    def _synced(self) -> tuple[int, int]:
        """Which generation of the journal was synced last, and how far."""
        mark = SyncedMark(self.disk, write=False)
        try:
            return mark.place()
        finally:
            mark.close()

    def _mend(self, books: Books, *, new: bool) -> None:
        """Take out what is damaged, and write what is left."""
        bad = self._bad_extents(books)
        self._drop_staged(books)
        if not self.findings and not new:
            books.close()
            return
        self.aside.findings(self.findings)
        folded = []
        for key, extent in bad:
            self.aside.bytes_of(extent.segment, extent.position, extent.position + extent.length)
            if not self._in_tail(books, key, extent):
                folded.append((key, extent))
        books.take(Changed(books.state.id + 1, tuple(next_history(books.state, self.disk.boot_id()))))
        self._write(books, folded, new=new)

    def _bad_extents(self, books: Books) -> list[tuple[ShardKey, Extent]]:
        bad = []
        reader = Reader(self.disk)
        keys = [
            (row.id, shard, name, row.settings)
            for name, row in sorted(books.state.streams.items())
            for shard in range(row.settings.shards)
        ]
        for done, (number, shard, name, settings) in enumerate(keys):
            self._tell("batches", done, len(keys))
            key = number, shard
            for extent in self._extents(books, key):
                what = wrong_with(reader, extent, settings)
                if what is not None:
                    bad.append((key, extent))
                    self.findings.append(finding_of(name, key, extent, what))
        return bad

    def _extents(self, books: Books, key: ShardKey) -> list[Extent]:
        parts = books.tail.parts.get(key, ())
        folded = [kept.extent for kept in books.manifest.extents_from(key, 0)]
        return folded + [extent for part in parts for extent in part.extents]

    def _in_tail(self, books: Books, key: ShardKey, bad: Extent) -> bool:
        """Take a damaged extent out of the tail, if it is there."""
        for place, part in enumerate(books.tail.parts.get(key, ())):
            if bad in part.extents:
                left = tuple(extent for extent in part.extents if extent != bad)
                if left:
                    books.tail.parts[key][place] = msgspec.structs.replace(part, extents=left)
                else:
                    del books.tail.parts[key][place]
                return True
        return False

    def _drop_staged(self, books: Books) -> None:
        """Staged records that are damaged can be committed no more."""
        rows = strays(books.state)
        if rows:
            books.take(Changed(books.state.id + 1, tuple(rows)))
        unsound = unsound_rows(books.state)
        for _, why in unsound:
            self.findings.append(Finding(f"a row of the state makes no sense: {why}", segment=NAME))
        if unsound:
            books.take(Changed(books.state.id + 1, tuple(change for change, _ in unsound)))
            self._make_shards_again(books)
        wrong = wrong_staged(Reader(self.disk), books.state)
        for _, finding, extent in wrong:
            self.findings.append(finding)
            self.aside.bytes_of(extent.segment, extent.position, extent.position + extent.length)
        rows = [books.state.staged.change(token, None) for token in {token for token, _, _ in wrong}]
        if rows:
            books.take(Changed(books.state.id + 1, tuple(rows)))

    def _make_shards_again(self, books: Books) -> None:
        """A shard whose row made no sense is what its batches say; what is in none of the stream's goes."""
        state = books.state
        for key in [key for key in state.shards.dirty if key not in state.shards and key[0] in state.names]:
            spans = [(kept.extent.first, kept.extent.next) for kept in books.manifest.extents_from(key, 0)]
            spans += [(part.first, part.next) for part in books.tail.parts.get(key, ())]
            if key[1] >= state.streams[state.names[key[0]]].settings.shards:
                books.tail.parts.pop(key, None)
            elif spans:
                state.load(*state.shards.change(key, ShardRow(spans[0][0], spans[-1][1])))

    def _write(self, books: Books, bad: Sequence[tuple[ShardKey, Extent]], *, new: bool) -> None:
        """Make it so, and set aside what the log is better without."""
        segments = Segments(self.disk)
        content = _without_shards(folded(books, segments), books.state)
        segments.seal()
        if new:
            self.aside.copy(NAME)
            self.aside.copy(f"{NAME}-journal")
        else:
            Journal.create(self.disk, content.start.generation, content.start.base)
        with books.manifest.db:
            for key, extent in bad:
                books.manifest.replace(key, [extent], [])
            books.manifest.fold(content)
        ends = books.manifest.segment_ends()
        books.close()
        if new:
            Journal.create(self.disk, content.start.generation, content.start.base)
            self.disk.unlink(f"{NAME}-journal")
            self.disk.rename(_NEW, NAME)
            self.disk.unlink(f"{_NEW}-journal")
        for row in books.state.staged.values():
            for extent in row.extents:
                ends[extent.segment] = max(extent.position + extent.length, ends.get(extent.segment, 0))
        self._tidy(ends, content.start.generation)

    def _tidy(self, ends: dict[str, int], generation: int) -> None:
        """Set aside what the log does not name."""
        for name in self.disk.names(""):
            if generation_of(name) not in {None, generation}:
                self.aside.move(name)
        for segment in segments_on(self.disk):
            if segment in ends:
                self.aside.bytes_of(segment, ends[segment])
            else:
                self._move_segment(segment)

    def _move_segment(self, segment: str) -> None:
        try:
            self.disk.close(self.disk.open_read(segment_path(segment)))
        except (Damaged, FileNotFoundError):
            return  # a symbolic link, or behind one: it is none of ours
        self.aside.move(segment_path(segment))

    def _lost(self, what: str, stream: str, shard: int, first: int, after: int) -> None:
        found = Finding(what, stream=stream, shard=shard, first=first, next=after, lost=after - first)
        self.findings.append(found)

    def _tell(self, step: str, done: int = 0, total: int = 1) -> None:
        if self.report is not None:
            self.report(Step(f"repair: {step}", done, total))


def _without_shards(content: Fold, state: State) -> Fold:
    """Only shards go whose rows made no sense: in a fold a stream goes with each of its shards."""
    gone = [key for key in state.shards.dirty if key not in state.shards and key[0] in state.names]
    return msgspec.structs.replace(
        content,
        firsts={**content.firsts, **dict.fromkeys(gone, _NO_END)},
        streams_gone=[number for number in content.streams_gone if number not in state.names],
    )
