"""A small log with something of everything in its files, and what each prefix of its journal shows."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

import pyarrow as pa

from millstream.clock import ManualClock
from millstream.log.commit import Append, Commit, Fence, Mark, Offset
from millstream.log.file.journal import HEADER_BYTES
from millstream.log.file.log import FileLog
from millstream.log.stream import Retention
from millstream.record import Row, rows_to_batch
from tests.crash.events import Image
from tests.crash.oracle import COLUMNS, View, view_of
from tests.crash.recorder import SeededDisk, lay_out
from tests.crash.workload import small_limits

BOOT = "boot"
LEASE_S = 10.0


@dataclass
class Template:
    """Files, and what may be seen of them: after all of the journal, or less of it."""

    image: Image
    journal: str
    views: list[View]

    def records(self, stream: str, shard: int) -> dict[int, Row]:
        """Everything that was ever committed to a shard."""
        found: dict[int, Row] = {}
        for view in self.views:
            if stream in view.streams and shard < len(view.streams[stream].shards):
                found.update(view.streams[stream].shards[shard].records)
        return found


def rows(count: int, start: int = 0) -> list[Row]:
    """Some records of bytes."""
    headers = (("h", b"1"),)
    return [(n, b"k%d" % (n % 3), b"value %d" % n, headers) for n in range(start, start + count)]


def columns(count: int) -> pa.RecordBatch:
    """Some records of a columnar stream."""
    return rows_to_batch([(n, b"k", {"item": f"i{n}", "price": n}, None) for n in range(count)], COLUMNS)


def open_at(root: str, boot: str = BOOT) -> FileLog:
    """The log in a folder; nothing happens in it by itself."""
    return FileLog(root, clock=ManualClock(), disk=SeededDisk(root, boot), upkeep=False)


def _write(log: FileLog) -> None:
    """A part that is folded into the manifest, and a part that stays in the journal."""
    log.create("b", shards=2, retention=Retention(records=10**6))
    log.create("c", value=COLUMNS)
    log.create("latest", cleanup="compact")
    run = log.take_over("sink")
    log.heartbeat("group", "member", ["b"], lease=LEASE_S)
    for number in range(3):
        _commit(log, run, number)
        log.commit(Commit((Append("latest", 0, rows(3)),), marks=(Mark("b", 1, "writer", number),)))
    log.pin("job", {("b", 0): 2})
    log.stage("b", 1, [rows_to_batch(rows(12), pa.binary())])
    log.trim("b", 1, 1, force=True)
    log.merge()
    log.stage("c", 0, [columns(3)])
    for number in range(3, 5):
        _commit(log, run, number)
    log.append("b", b"last", durability="synced")


def _commit(log: FileLog, run: int, number: int) -> None:
    small = Append("b", 0, rows(3, number))
    large = Append("b", 1, rows(10, number))
    expected = log.offsets("other").get(("b", 0))
    offset = Offset("other", "b", 0, expected, number)
    fence = Fence("sink", run, number, b"digest", b"position")
    log.commit(Commit((small, large, Append("c", 0, columns(2))), offsets=(offset,), fence=fence))
    log.commit(Commit((Append("c", 0, columns(9)),)))


def make(folder: str) -> Template:
    """Make it."""
    root = os.path.join(folder, "template")
    with small_limits(), open_at(root) as log:
        log._after_commit = lambda: None  # type: ignore[method-assign] # it folds when this says so
        _write(log)
        image = _image(root)
        journal = f"journal-{log._books.journal.generation:08d}"
        starts = sorted({HEADER_BYTES, *_frames(image.files[journal])})
    shutil.rmtree(root)
    views = []
    for length in starts:
        less = Image({**image.files, journal: image.files[journal][:length], "synced": b""}, image.folders)
        lay_out(less, root)
        with small_limits(), open_at(root) as log:
            views.append(view_of(log))
        shutil.rmtree(root)
    return Template(image, journal, views)


def _frames(data: bytes) -> list[int]:
    """Where the frames of a journal end."""
    ends, at = [], HEADER_BYTES
    while at < len(data):
        at += 12 + int.from_bytes(data[at : at + 4], "little")
        ends.append(at)
    return ends


def _image(root: str) -> Image:
    image = Image({}, set())
    for folder, folders, files in os.walk(root):
        image.folders |= {os.path.relpath(os.path.join(folder, name), root) for name in folders}
        for name in files:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                image.files[os.path.relpath(path, root)] = file.read()
    return image
