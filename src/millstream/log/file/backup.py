"""Backup: a copy of a log as it is at one moment, made while others go on writing to it.

The manifest is copied alone, right after a fold, and so names everything there is; what it names in
segments never changes. A segment that upkeep removes before it was copied makes the copy begin again
with a newer manifest, and what was copied already is not copied twice.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from millstream.errors import StoreFailed, WrongType
from millstream.log.file.books import Books
from millstream.log.file.disk import Disk
from millstream.log.file.journal import Journal
from millstream.log.file.manifest import NAME
from millstream.log.file.segment import END, FOLDER, segment_path
from millstream.log.finding import Report, Step
from millstream.log.state import State

_TRIES = 10
_COPY_BYTES = 8 << 20


def backup(
    books: Books, turn: Callable[[], AbstractContextManager[State]], target: Disk, report: Report | None
) -> None:
    """Copy the log into an empty directory, or one that is not there; `turn` folds before it gives way."""
    if target.names(""):
        raise WrongType(
            f"the backup's target {target.root!r} is not empty: name a directory that is, or none yet"
        )
    target.make_dir("")
    copied: dict[str, int] = {}
    for _ in range(_TRIES):
        with turn() as state:
            manifest = _content(books.disk, NAME)
            segments = books.manifest.segment_ends()
            for row in state.staged.values():
                for extent in row.extents:
                    end = extent.position + extent.length
                    segments[extent.segment] = max(end, segments.get(extent.segment, 0))
            start = books.manifest.start()
        try:
            for done, (segment, end) in enumerate(sorted(segments.items())):
                if report is not None:
                    report(Step("backup", done, len(segments)))
                if copied.get(segment) != end:
                    _copy_segment(books.disk, target, segment, end)
                    copied[segment] = end
        except FileNotFoundError:
            continue
        for segment in copied.keys() - segments.keys():
            target.unlink(segment_path(segment))
        Journal.create(target, start.generation, start.base)
        _put(target, NAME, manifest)
        if report is not None:
            report(Step("backup", len(segments), len(segments)))
        return
    raise StoreFailed(f"segments went away {_TRIES} times while they were copied: run the backup again")


def _content(disk: Disk, name: str) -> bytes:
    fd = disk.open_read(name)
    try:
        return disk.read(fd, disk.size(fd), 0)
    finally:
        disk.close(fd)


def _copy_segment(disk: Disk, target: Disk, segment: str, end: int) -> None:
    """Copy a segment up to where its last batch ends, and end it there."""
    path = segment_path(segment)
    target.make_dir(FOLDER)
    target.make_dir(path.rpartition("/")[0])
    source = disk.open_read(path)
    try:
        target.unlink(path)
        copy = target.create(path)
        try:
            position = 0
            while position < end:
                piece = disk.read(source, min(_COPY_BYTES, end - position), position)
                if not piece:
                    raise StoreFailed(f"segment {segment} is cut short at {position}: run {disk.repair_call}")
                position = target.write(copy, [piece], position)
            target.write(copy, [END], position)
            target.sync(copy)
        finally:
            target.close(copy)
    finally:
        disk.close(source)
    target.sync_dir(path.rpartition("/")[0])


def _put(disk: Disk, name: str, content: bytes) -> None:
    fd = disk.create(name)
    try:
        disk.write(fd, [content], 0)
        disk.sync(fd)
    finally:
        disk.close(fd)
    disk.sync_dir("")
