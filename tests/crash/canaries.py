"""Protections taken away, one at a time: a check that does not notice that each is missing checks nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

import msgspec

import millstream.log.file.fold as folding
import millstream.log.file.journal as journals
import millstream.log.file.log as file_log
import millstream.log.file.reader as readers
import millstream.log.file.recovery as recovering
from millstream.errors import Damaged
from millstream.log.entry import Committed, Entry
from millstream.log.file.books import Books
from millstream.log.file.journal import Journal, journal_name
from millstream.log.file.manifest import Fold, Manifest
from millstream.log.file.mark import SyncedMark
from millstream.log.file.reader import Reader
from millstream.log.file.segments import Segments
from tests.crash.recorder import RecordingDisk


def removed(name: str) -> AbstractContextManager[object]:
    """The library without one of its protections."""
    return CANARIES[name]()


class _Anything(int):
    """A checksum that fits everything."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


def fits(*_: object) -> int:
    """Whatever it is the checksum of."""
    return _Anything(0)


def _nothing(*_: object) -> None:
    return None


def _journal_not_synced() -> AbstractContextManager[object]:
    return mock.patch.object(Journal, "sync", _nothing)


@contextmanager
def _segments_not_synced_in_a_commit() -> Iterator[None]:
    whole = file_log.FileLog._sync

    def without(log: file_log.FileLog) -> None:
        with mock.patch.object(Segments, "sync", _nothing):
            whole(log)

    with mock.patch.object(file_log.FileLog, "_sync", without):
        yield


@contextmanager
def _segments_not_synced_before_the_fold() -> Iterator[None]:
    def without(books: Books, segments: Segments) -> set[str]:
        with mock.patch.object(Segments, "sync", _nothing):
            return folding.fold(books, segments)

    with mock.patch.object(file_log, "fold", without):
        yield


@contextmanager
def _folder_not_synced() -> Iterator[None]:
    whole = RecordingDisk.sync_dir

    def without(disk: RecordingDisk, name: str) -> None:
        if "/" not in name:
            whole(disk, name)

    with mock.patch.object(RecordingDisk, "sync_dir", without):
        yield


@contextmanager
def _old_journal_removed_too_early() -> Iterator[None]:
    whole = Manifest.fold

    def early(manifest: Manifest, fold: Fold) -> set[str]:
        manifest._disk.unlink(journal_name(fold.start.generation - 1))
        return whole(manifest, fold)

    with mock.patch.object(Manifest, "fold", early):
        yield


@contextmanager
def _only_the_bad_part_is_cut() -> Iterator[None]:
    def readable(entry: Entry, reader: Reader) -> Entry:
        if not isinstance(entry, Committed):
            return entry
        parts = []
        for part in entry.parts:
            try:
                for extent in part.extents:
                    reader.bytes_of(extent)
            except (Damaged, FileNotFoundError):
                continue
            parts.append(part)
        return msgspec.structs.replace(entry, parts=tuple(parts))

    def read(books: Books, reader: Reader) -> None:
        for entries in books.journal.read():
            for entry in entries:
                books.take(readable(entry, reader))
            books.whole = True

    with mock.patch.object(recovering, "_read_while_whole", read):
        yield


def _mark_ignored() -> AbstractContextManager[object]:
    return mock.patch.object(SyncedMark, "position", return_value=0)


def _history_not_raised() -> AbstractContextManager[object]:
    return mock.patch.object(recovering, "_raise_history", _nothing)


CANARIES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "journal-not-synced": _journal_not_synced,
    "segments-not-synced-in-a-commit": _segments_not_synced_in_a_commit,
    "segments-not-synced-before-the-fold": _segments_not_synced_before_the_fold,
    "folder-not-synced": _folder_not_synced,
    "journal-checksum": lambda: mock.patch.object(journals, "crc32", fits),
    "segment-checksum": lambda: mock.patch.object(readers, "message_crc", fits),
    "old-journal-removed-too-early": _old_journal_removed_too_early,
    "only-the-bad-part-is-cut": _only_the_bad_part_is_cut,
    "mark-ignored": _mark_ignored,
    "history-not-raised": _history_not_raised,
}
