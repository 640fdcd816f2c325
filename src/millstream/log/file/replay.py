"""Replay: taking in a journal that may be damaged, with every commit in it that can still be read.

A frame that is damaged is passed over, and told. What comes after it stays at the seqs it has, and the
seqs that are missing before it are told too. An entry says what is so after it, not what to add to what
was: so the state is right again wherever later entries speak of the same things.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from zlib_ng.zlib_ng import crc32

from millstream.errors import Damaged, InvalidName, WrongVersion
from millstream.log.entry import Committed, Entry, Part
from millstream.log.file.books import Books
from millstream.log.file.disk import Disk
from millstream.log.file.journal import (
    FRAME,
    HEADER_BYTES,
    Journal,
    generation_of,
    header_vouches,
    journal_name,
)
from millstream.log.file.manifest import Start
from millstream.log.file.rebuild import widen
from millstream.log.file.segment import About
from millstream.log.file.sound import Unsound, judge_fence, judge_part
from millstream.log.file.tail import batch_of
from millstream.log.finding import Finding
from millstream.log.state import ShardKey, ShardRow, StreamRow
from millstream.log.stream import Settings
from millstream.names import check_name

_SEARCH_BYTES_MAX = 16 << 20  # where the head of a frame is damaged, so far the next one is looked for


def open_journal(disk: Disk, start: Start) -> Journal | None:
    """The journal that a manifest names, also if its header is damaged; None if it is gone."""
    try:
        return Journal.open(disk, start.generation, write=False)
    except FileNotFoundError:
        return None
    except WrongVersion:
        if header_vouches(disk, start.generation):
            raise
    except Damaged:
        pass
    return Journal(disk, start.generation, disk.open_read(journal_name(start.generation)), start.base)


def pick_journal(disk: Disk) -> Journal | None:
    """The journal to go on from when no manifest names one: the newest, or the one that it goes on from.

    A newest one that is empty was perhaps only begun; all that it goes on from is in the one before.
    """
    generations = sorted(filter(None, map(generation_of, disk.names(""))), reverse=True)
    found: Journal | None = None
    for generation in generations:
        journal = _with_base(disk, generation)
        if journal is None:
            continue
        if found is None:
            found = journal
            if _last(journal) is not None:
                break
        else:
            return journal if _last(journal) == found.base else found
    return found


def _with_base(disk: Disk, generation: int) -> Journal | None:
    """A journal, with the base that its first entry tells if its header is damaged."""
    journal = open_journal(disk, Start(generation, -1))
    if journal is None or journal.base >= 0:
        return journal
    first = next((entries[0] for entries in journal.read() if entries), None)
    if first is None:
        return None
    return open_journal(disk, Start(generation, first.id - 1))


def _last(journal: Journal) -> int | None:
    """The last entry of a journal that has one; it can be read afterwards as if it had not been."""
    last = None
    for entries in journal.read():
        last = entries[-1].id if entries else last
    journal.start = journal.end = HEADER_BYTES
    journal.closed = False
    return last


class Replay:
    """Takes a journal into books."""

    def __init__(self, books: Books, abouts: Mapping[int, About], remade: set[int], synced: int) -> None:
        """The books have begun the journal, and nothing of it was read; of `remade` the settings are old."""
        self._books = books
        self._abouts = abouts
        self._remade = set(remade)
        self._synced = synced
        self._name = journal_name(books.journal.generation)
        self._unknown: list[tuple[str, Part]] = []  # of streams that cannot be made again
        self.findings: list[Finding] = []

    def run(self) -> None:
        """Take in what can be taken in."""
        books, journal = self._books, self._books.journal
        try:
            Journal.open(books.disk, journal.generation, write=False)
        except Damaged:
            what = f"{self._name}: its header is damaged; its frames can be read"
            self.findings.append(Finding(what, segment=self._name, position=0))
        following: int | None = journal.end
        while following is not None:
            journal.start = journal.end = following
            for entries in journal.read():
                for entry in entries:
                    self._take(entry)
            following = self._after_damage(journal)
        widen(books.state, self._remade)
        for name, part in self._unknown:
            known = books.state.streams.get(name)
            if known is None or known.id < part.stream:  # else it was deleted, and made anew
                what = f"nothing is known any more of the stream '{name}' (number {part.stream})"
                self._lose(what, name, part.shard, part.first, part.next)
        if journal.end < self._synced:
            what = f"it is cut short: commits up to position {self._synced} were acknowledged as synced"
            self._tell(journal.end, what)

    def _after_damage(self, journal: Journal) -> int | None:
        """Where reading goes on after a frame that is damaged, which is told; None: nowhere."""
        if journal.damage is None:
            return None
        rest = journal.disk.read(journal.fd, journal.disk.size(journal.fd) - journal.end, journal.end)
        skipped = _next_frame(rest)
        lost = len(rest) if skipped is None else skipped
        self._tell(journal.end, f"{journal.damage}; {lost} bytes are lost, with the commits in them")
        if skipped is None:
            self._synced = 0
            return None
        return journal.end + skipped

    def _tell(self, position: int, what: str) -> None:
        what = f"{self._name}, position {position}: {what}"
        self.findings.append(Finding(what, segment=self._name, position=position))

    def _take(self, entry: Entry) -> None:
        books = self._books
        last = books.state.id
        if entry.id <= last:
            self._tell(books.journal.start, f"entry {entry.id} follows entry {last}, and is left out")
            return
        if entry.id > last + 1:
            self._tell(books.journal.start, f"entries {last + 1} to {entry.id - 1} are missing")
            books.state.id = entry.id - 1
        if isinstance(entry, Committed):
            try:
                for place, part in enumerate(entry.parts):
                    self._know(entry, place, part)
                    self._judge(part)
                if entry.fence is not None:
                    judge_fence(entry.fence.name, entry.fence)
            except (Unsound, InvalidName, Damaged) as error:
                self._tell(books.journal.start, f"entry {entry.id} makes no sense, and is left out: {error}")
                books.state.id = entry.id
                return
            joined: set[ShardKey] = set()
            for part in entry.parts:
                key = part.stream, part.shard
                if part.first < part.next and part.stream in books.state.names and key not in joined:
                    self._join(key, part.first)
                    joined.add(key)
        books.take(entry)

    def _judge(self, part: Part) -> None:
        """Refuse records that nobody can have written, or that cannot be read."""
        state = self._books.state
        name = state.names.get(part.stream)
        if name is not None:
            judge_part(part, state)
            if part.rows is not None or part.arrow is not None:
                batch_of([part], state.streams[name].settings)

    def _know(self, entry: Committed, place: int, part: Part) -> None:
        """A stream that only the journal knows is made again, if that can be."""
        state = self._books.state
        if part.stream in state.names or part.first == part.next or place >= len(entry.placed):
            return
        name = check_name("stream", entry.placed[place].stream)
        about = self._abouts.get(part.stream)
        other = state.streams.get(name)
        if (other is not None and other.id > part.stream) or (about is None and part.rows is None):
            self._unknown.append((name, part))
            return
        row = StreamRow(part.stream, Settings(), entry.at_ms)
        if about is not None:
            row = StreamRow(part.stream, about.settings, about.created_ms)
        state.load(*state.streams.change(name, row))
        self._remade.add(part.stream)
        fact = state.fact
        next_stream = max(fact.next_stream, part.stream + 1)
        state.load(*state.facts.change("log", msgspec.structs.replace(fact, next_stream=next_stream)))
        whence = "without its settings" if about is None else "with the settings that a segment tells"
        what = f"the stream '{name}' was made again {whence}"
        self.findings.append(Finding(what, stream=name))

    def _join(self, key: ShardKey, end: int) -> None:
        """Have a shard end where a part begins that comes next."""
        books = self._books
        state = books.state
        name = state.names[key[0]]
        stream = state.streams[name]
        if key[1] >= stream.settings.shards:
            wider = msgspec.structs.replace(stream.settings, shards=key[1] + 1)
            state.load(*state.streams.change(name, StreamRow(stream.id, wider, stream.created_ms)))
        row = state.shards.get(key, ShardRow())
        if end == row.end:
            return
        first = row.first
        if end > row.end:
            self._lose("no batch was found for these seqs", name, key[1], row.end, end)
            if key not in books.tail.parts and not books.manifest.extents(key, 0, 1)[0]:
                first = end
        else:
            self._take_back(key, end)
        state.load(*state.shards.change(key, ShardRow(min(first, end), end, row.marks)))

    def _take_back(self, key: ShardKey, end: int) -> None:
        """Batches beyond where a shard ended were never part of it."""
        manifest = self._books.manifest
        over = [kept.extent for kept in manifest.extents_from(key, end)]
        if over:
            manifest.replace(key, over, [])

    def _lose(self, what: str, stream: str, shard: int, first: int, after: int) -> None:
        found = Finding(what, stream=stream, shard=shard, first=first, next=after, lost=after - first)
        self.findings.append(found)


def _next_frame(data: bytes) -> int | None:
    """Where the next whole frame begins, after a damaged one at the beginning; None if there is none."""
    position = 1
    if len(data) >= FRAME.size and _length(data, 0) is not None:
        position = FRAME.size + (
            _length(data, 0) or 0
        )  # nothing inside it is a frame, whatever it looks like
    for start in range(position, min(position + _SEARCH_BYTES_MAX, len(data) - FRAME.size + 1)):
        length = _length(data, start)
        if length is not None and _payload_crc(data, start) == crc32(data[start + FRAME.size :][:length]):
            return start
    return None


def _length(data: bytes, start: int) -> int | None:
    """How long the payload is of a frame whose head vouches for itself, and that is all there."""
    length, _, head_crc = FRAME.unpack_from(data, start)
    if head_crc != crc32(data[start : start + 8]) or length > len(data) - start - FRAME.size:
        return None
    return int(length)


def _payload_crc(data: bytes, start: int) -> int:
    return int(FRAME.unpack_from(data, start)[1])
