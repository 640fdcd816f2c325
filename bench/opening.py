"""How soon a log can be used, however much it holds."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec

import millstream
from bench.figure import Figure, Room
from bench.payload import batch_of, fresh_log, same
from bench.rounds import rate_for, side_by_side
from millstream import Limits
from millstream.log.entry import Extent
from millstream.log.file.books import Books
from millstream.log.file.disk import Disk
from millstream.log.file.fold import about
from millstream.log.file.manifest import Fold, Kept
from millstream.log.file.segment import Note, SegmentWriter, segment_path
from millstream.log.state import ShardKey, ShardRow
from millstream.record import with_seqs

SEGMENTS = 10_000
BATCHES = 100  # in a segment, of one record each


def full(room: Room) -> Iterator[Figure]:
    """Opening a log of 10,000 segments and a million batches, beside opening an empty one.

    Opening ends when the ends of a stream are known.
    """
    name = "open_full_vs_empty"
    empty, filled = room.folder / f"{name}-empty", room.folder / f"{name}-full"
    with fresh_log(empty):
        pass
    fill(filled)
    ratio = side_by_side(
        lambda: 1 / rate_for(room.seconds, lambda: opened(filled)),
        lambda: 1 / rate_for(room.seconds, lambda: opened(empty)),
        room.rounds,
    )
    shutil.rmtree(filled)
    yield Figure(name, ratio.value, f"{ratio.ours * 1e3:.3g} ms", f"{ratio.theirs * 1e3:.3g} ms, empty")


def opened(folder: Path) -> int:
    """Open it, learn where its stream ends, and close it."""
    with millstream.open(f"file:{folder}") as log:
        log.ends("bench")
    return 1


def fill(folder: Path) -> None:
    """Make the full log: one segment as the store writes it, its copies, and a manifest that names all.

    To write a million batches one by one would take many minutes. So the store's own parts are put
    together by hand; what comes out is a log like any other, and it is looked at as such in the end.
    """
    with fresh_log(folder):
        pass
    disk = Disk(str(folder))
    books = Books(disk, write=True)
    with closing(books):
        books.load()
        books.refresh(alone=True)
        state = books.state
        key = state.stream("bench").id, 0
        extents = one_segment(SegmentWriter(disk, "first", about(state, key[0])))
        original = folder / segment_path(extents[0].segment)
        for number in range(1, SEGMENTS):
            shutil.copyfile(original, original.with_name(copy_of(original.stem, number) + original.suffix))
        rows = [
            state.streams.change("bench", state.stream("bench")),
            state.shards.change(key, ShardRow(0, SEGMENTS * BATCHES)),
        ]
        start = books.manifest.start()
        books.manifest.fold(Fold(start, rows, list(all_extents(key, extents)), firsts={}, streams_gone=[]))
    with millstream.open(f"file:{folder}") as log:
        [shard] = log.describe("bench").shards
        same((shard.end, shard.batches), (SEGMENTS * BATCHES, SEGMENTS * BATCHES))
        last = log.read("bench", 0, shard.end - BATCHES, Limits(records=1))
        same([record.seq for record in last.records()], [shard.end - BATCHES])


def one_segment(writer: SegmentWriter) -> list[Extent]:
    """A sealed segment of tiny batches."""
    tiny = batch_of(b"v", records=1)
    extents = [writer.write(with_seqs(tiny, seq), Note(0, 1, 0, 1, 0, seq)) for seq in range(BATCHES)]
    writer.seal()
    return extents


def copy_of(name: str, number: int) -> str:
    """The name of a copy."""
    return f"{name}-{number:05d}" if number else name


def all_extents(key: ShardKey, extents: list[Extent]) -> Iterator[tuple[ShardKey, Kept]]:
    """The batches of the original and of its copies, each copy's seqs after those of the one before."""
    for number in range(SEGMENTS):
        for extent in extents:
            moved = msgspec.structs.replace(
                extent,
                segment=copy_of(extent.segment, number),
                first=extent.first + number * BATCHES,
                next=extent.next + number * BATCHES,
            )
            yield key, Kept(moved, {})
