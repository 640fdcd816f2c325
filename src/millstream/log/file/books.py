"""The books of a log: the manifest, the journal that goes on from it, and the state they add up to.

Every process that has the log open keeps them up to date by reading what others have added to the
journal. When the journal is folded into the manifest, a new generation of it begins, and the old one
ends with a frame that says so: nothing is lost on the way over.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from millstream.errors import Damaged
from millstream.log.entry import Changed, Entry, encode_entries
from millstream.log.file.disk import Disk
from millstream.log.file.journal import Journal, journal_name
from millstream.log.file.manifest import NAME, Manifest, Start
from millstream.log.file.sound import Unsound, judge_entry, judge_rows
from millstream.log.file.tail import Tail
from millstream.log.state import Change, State

_LOOKS = 10  # at what looks damaged, and may be a frame that another process is just writing


class Books:
    """What is known of a log, and the means to know more."""

    def __init__(self, disk: Disk, *, write: bool, name: str = NAME) -> None:
        """Open the manifest; `load` does the rest."""
        self.disk = disk
        self.write = write
        self.manifest = Manifest(disk, write=write, name=name)
        self.journal: Journal
        self.state = State()
        self.tail = Tail()
        self.whole = False  # they are what the journal says; not so within a change, or when one was stopped
        self.settled = False  # whether the manifest that this journal goes on from is known to be durable

    def load(self) -> None:
        """Read the manifest, and open the journal that goes on from it, none of it read yet."""
        self.whole = False
        while True:
            start, rows = self.manifest.load()
            try:
                self.journal = Journal.open(self.disk, start.generation, write=self.write)
                break
            except FileNotFoundError:
                if self.manifest.start() == start:
                    raise Damaged(
                        f"{journal_name(start.generation)} is gone, and with it every commit since the last "
                        f"fold; run {self.disk.repair_call}"
                    ) from None
        self.state = State()
        try:
            for kind, key, row in rows:
                self.state.load(kind, key, row)
            judge_rows(self.state)
        except (msgspec.DecodeError, Unsound) as error:
            raise Damaged(
                f"{NAME}: a row of the state makes no sense: {error}; run {self.disk.repair_call}"
            ) from error
        self.state.id = start.base
        self._begin(settled=False)

    def refresh(self, *, alone: bool) -> None:
        """Take in what was added since; with nobody else writing, a torn end is cut off."""
        if not self.whole:
            self.load()
        for look in range(_LOOKS):
            self.read()
            if self.journal.closed and self._follow():
                continue
            if self.journal.damage is None:
                break
            if alone or look == _LOOKS - 1:
                raise Damaged(
                    f"{journal_name(self.journal.generation)}, position {self.journal.end}: "
                    f"{self.journal.damage}; commits after entry {self.state.id} cannot be read. "
                    f"Run {self.disk.repair_call}"
                )
        if alone and self.journal.torn:
            self.journal.cut()

    def read(self) -> None:
        """Take in whole frames; whatever comes after them stays as it is."""
        self.whole = False
        for entries in self.journal.read():
            for entry in entries:
                self.accept(entry)
        self.whole = True

    def accept(self, entry: Entry) -> None:
        """Apply an entry that was read; `Damaged` if it makes no sense."""
        try:
            judge_entry(entry, self.state)
            self._take(entry, self.journal.start)
            if isinstance(entry, Changed):
                judge_rows(self.state, entry)
        except (msgspec.DecodeError, Unsound) as error:
            raise Damaged(
                f"{journal_name(self.journal.generation)}, position {self.journal.start}: entry {entry.id} "
                f"makes no sense: {error}; run {self.disk.repair_call}"
            ) from error

    def take(self, entry: Entry) -> None:
        """Apply an entry that is to be written next; `Damaged` if it could not be read again."""
        self.whole = False
        try:
            self._take(entry, self.journal.end)
        except msgspec.DecodeError as error:
            raise Damaged(
                f"entry {entry.id} cannot be written, for what is there makes no sense: {error}; "
                f"run {self.disk.repair_call}"
            ) from error

    def _take(self, entry: Entry, position: int) -> None:
        if entry.id != self.state.id + 1:
            raise Damaged(
                f"{journal_name(self.journal.generation)}, position {self.journal.end}: entry {entry.id} "
                f"follows entry {self.state.id}; run {self.disk.repair_call}"
            )
        self.tail.add(entry, self.state, position)
        self.state.apply(entry)

    def _follow(self) -> bool:
        """Go over to the next generation, if the manifest has; the books must not be ahead of it."""
        start = self.manifest.start()
        if start.generation == self.journal.generation:
            return False
        try:
            if start.base == self.state.id:
                self.begin(Journal.open(self.disk, start.generation, write=self.write))
                return True
        except FileNotFoundError:
            pass
        self.load()
        return True

    def begin(self, journal: Journal, *, settled: bool = False) -> None:
        """Go on in a generation that begins with what is known."""
        self.whole = False
        self.journal = journal
        self._begin(settled=settled)

    def _begin(self, *, settled: bool) -> None:
        self.settled = settled
        self.tail = Tail()
        for table in self.state.tables.values():
            table.dirty.clear()
        self.whole = True

    def append(self, entries: Sequence[Entry]) -> None:
        """Write entries that were taken already, as one frame; call it alone."""
        self.journal.append(encode_entries(entries))
        self.whole = True

    def change(self, *rows: Change) -> None:
        """Write new rows of the state; call it alone."""
        entry = Changed(self.state.id + 1, rows)
        self.take(entry)
        self.append([entry])

    def next_start(self) -> Start:
        """How a manifest that holds all of this will say where to go on."""
        return Start(self.journal.generation + 1, self.state.id)

    def close(self) -> None:
        """Close the manifest."""
        self.manifest.close()
