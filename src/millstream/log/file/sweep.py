"""The sweep: segments that nothing names any more are removed, and those whose writer is gone are sealed.

A segment is locked by the process that writes it. One that is not, and is not sealed, was left by a
process that was killed: it is cut to its last batch, and ended as any Arrow tool likes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from millstream.log.file.books import Books
from millstream.log.file.disk import Disk
from millstream.log.file.lock import held_by_other
from millstream.log.file.segment import END, FOLDER, SUFFIX, segment_path

ORPHAN_MS = 86_400_000  # staged records may wait so long in a segment that nothing names yet


def segments_on(disk: Disk) -> Iterator[str]:
    """All segments that there are files of."""
    for stream in disk.names(FOLDER):
        for name in disk.names(f"{FOLDER}/{stream}"):
            if name.endswith(SUFFIX):
                yield f"{stream}/{name.removesuffix(SUFFIX)}"


def sweep(disk: Disk, books: Books, segments: Iterable[str]) -> int:
    """Remove those of the segments that nothing names; gives how many. Call it alone, after a fold."""
    staged = _staged_ends(books)
    removed = 0
    for segment in sorted(segments):
        if segment in staged or segment in books.tail.segments or books.manifest.names_segment(segment):
            continue
        with _unwritten(disk, segment) as fd:
            if fd is not None:
                disk.unlink(segment_path(segment))
                removed += 1
    return removed


def tend(disk: Disk, books: Books, segments: Iterable[str], now_ms: int) -> tuple[int, int]:
    """Seal what gone processes have left, or remove it if nothing names it; gives how many of each."""
    staged = _staged_ends(books)
    sealed = removed = 0
    for segment in segments:
        end = max(books.manifest.end_of_segment(segment), staged.get(segment, 0))
        with _unwritten(disk, segment) as fd:
            if fd is None or segment in books.tail.segments:
                continue
            if end == 0:
                if now_ms - disk.modified_ms(fd) > ORPHAN_MS:
                    books.manifest.settle()  # or a power cut brings back a row that names it
                    disk.unlink(segment_path(segment))
                    removed += 1
            elif not _sealed(disk, fd):
                disk.truncate(fd, end)
                disk.write(fd, [END], end)
                sealed += 1
    return sealed, removed


def _sealed(disk: Disk, fd: int) -> bool:
    """Whether its writer ended it; after what is named, records may lie there that are just being staged."""
    return disk.read(fd, len(END), max(0, disk.size(fd) - len(END))) == END


@contextmanager
def _unwritten(disk: Disk, segment: str) -> Iterator[int | None]:
    """The open segment, locked, if it is there and no process writes to it."""
    try:
        fd = disk.open_write(segment_path(segment))
    except FileNotFoundError:
        yield None
        return
    try:
        yield None if held_by_other(fd) else fd
    finally:
        disk.close(fd)


def _staged_ends(books: Books) -> dict[str, int]:
    """Where the last staged batch of each segment ends."""
    ends: dict[str, int] = {}
    for row in books.state.staged.values():
        for extent in row.extents:
            ends[extent.segment] = max(extent.position + extent.length, ends.get(extent.segment, 0))
    return ends
