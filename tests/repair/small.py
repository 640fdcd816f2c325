"""A small log in which it is known what lies where, for damage at a place that a test names."""

from __future__ import annotations

from pathlib import Path

import apsw

import millstream
from millstream.clock import ManualClock
from millstream.log import Append, Commit, Fence, Finding, Log, Offset
from millstream.log.file.log import FileLog
from tests.repair.damage import manifest

SMALL = [(number, b"k", b"small %d" % number, None) for number in range(3)]
LARGE = [(number, b"k", b"%03d" % number * 400, None) for number in range(40)]
FIRST = [row[2] for row in SMALL]  # what the shards of "a" hold: folded, from commit 1
SECOND = [row[2] for row in LARGE]  # in a segment of the commit itself, commit 2; then folded
THIRD = [b"in the journal 1", b"in the journal 2"]  # commits 3 and 4, each a frame


def open_log(root: Path) -> FileLog:
    return FileLog(str(root), clock=ManualClock(), upkeep=False)


def make_log(root: Path) -> None:
    """A stream of two shards, with a group's offset and a fence; two commits are only in the journal."""
    with open_log(root) as log:
        log.create("a", shards=2)
        log.commit(
            Commit(
                (Append("a", 0, SMALL), Append("a", 1, SMALL)),
                offsets=(Offset("group", "a", 0, None, 2),),
                fence=Fence("sink", 1, 7, b"digest", b"here"),
            ),
            "synced",
        )
        with log._folded():
            pass
        log.commit(Commit((Append("a", 0, LARGE),)), "synced")
        with log._folded():
            pass
        for value in THIRD:
            log.append("a", value, shard=0, durability="synced")


def repair(root: Path) -> list[Finding]:
    return millstream.repair(f"file:{root}")


def values(log: Log, shard: int = 0) -> list[object]:
    first, end = log.ends("a")[shard]
    found: list[object] = []
    while first < end:
        batch = log.read("a", shard, first)
        found += [record.value for record in batch.records()]
        first = batch.next_seq
    return found


def history(log: FileLog) -> int:
    return log._books.state.fact.history


def lost(findings: list[Finding]) -> list[tuple[str | None, int | None, int | None, int | None]]:
    """What findings say is lost: stream, shard, first seq, the seq after the last."""
    return [(found.stream, found.shard, found.first, found.next) for found in findings if found.lost]


def assert_mended(root: Path, shard_0: list[bytes], *, end: int = 45) -> None:
    """The log opens, verifies, is written on at new seqs, and has nothing left to repair."""
    with open_log(root) as log:
        assert values(log) == shard_0
        assert log.ends("a")[0][1] == end
        assert log.verify() == []
        assert history(log) == 1
        assert log.append("a", b"new", shard=0, durability="synced").placed[0].first == end
    with open_log(root) as log:
        assert values(log) == [*shard_0, b"new"]
        assert log.verify() == []
    assert repair(root) == []


def place_of_row(root: Path, table: str, where: str) -> int:
    """Where in the manifest's file the data of a row lie."""
    db = apsw.Connection(str(manifest(root)), flags=apsw.SQLITE_OPEN_READONLY)
    ((data,),) = db.execute(f"SELECT data FROM {table} WHERE {where}").fetchall()  # noqa: S608
    db.close()
    assert isinstance(data, bytes)
    return manifest(root).read_bytes().index(data)
