"""A log that is written to for long stays small: few files, few rows, and nobody has to tend it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

import millstream
from millstream.clock import ManualClock
from millstream.log.commit import Append, Commit
from millstream.log.file import log as file_log
from millstream.log.file.log import FileLog
from millstream.log.stream import Retention

ROW = (0, b"key", b"." * 100, None)


@dataclass(frozen=True)
class Size:
    """How large a log is, beside its records."""

    files: int
    extents: int
    manifest_bytes: int
    journal_bytes: int

    @classmethod
    def of(cls, log: FileLog, root: Path) -> Size:
        """As it is now."""
        paths = [Path(folder) / name for folder, _, names in os.walk(root) for name in names]
        ((extents,),) = log._books.manifest.db.execute("SELECT count(*) FROM extents")
        assert isinstance(extents, int)
        journals = sum(path.stat().st_size for path in paths if path.name.startswith("journal-"))
        return cls(len(paths), extents, (root / "manifest.sqlite").stat().st_size, journals)


def most(root: Path, commits: int, *, looks: int) -> Size:
    """Commit one record at a time; the largest of each size that was ever seen."""
    clock = ManualClock()
    sizes = []
    with millstream.open(f"file:{root}", clock=clock) as log:
        assert isinstance(log, FileLog)
        log.create("s", shards=2)
        for number in range(commits):
            log.commit(Commit((Append("s", number % 2, [ROW]),)))
            clock.advance(0.001)
            if number % (commits // looks) == 0:
                sizes.append(Size.of(log, root))
        sizes.append(Size.of(log, root))
        assert sum(end for _, end in log.ends("s")) == commits
        assert log.counts["folds"] > commits // 20_000
        assert log.counts["upkeep_failed"] == log.counts["folds_failed"] == 0
        assert log.verify() == []
    print(sizes[-1])
    return Size(
        max(size.files for size in sizes),
        max(size.extents for size in sizes),
        max(size.manifest_bytes for size in sizes),
        max(size.journal_bytes for size in sizes),
    )


def test_files_and_rows_stay_few_however_many_commits_there_are(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_log, "FOLD_ENTRIES", 100)  # as many folds as ten million commits make
    size = most(memory_path / "log", 30_000, looks=100)
    assert size.files <= 20
    assert size.extents <= 60
    assert size.manifest_bytes <= 64 << 10
    assert size.journal_bytes <= 64 << 10


def test_without_merging_the_rows_would_be_many(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_log, "FOLD_ENTRIES", 100)
    monkeypatch.setattr("millstream.log.file.upkeep.Upkeep._merge_step", lambda _: None)
    assert most(memory_path / "log", 10_000, looks=10).extents > 150


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_a_million_commits_of_one_record_leave_few_files_and_rows(memory_path: Path) -> None:
    size = most(memory_path / "log", 1_000_000, looks=200)
    assert size.files <= 20
    assert size.extents <= 200
    assert size.manifest_bytes <= 256 << 10
    assert size.journal_bytes <= 8 << 20


def test_retention_comes_by_itself_between_commits_and_removes_files(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millstream.log.file.segments.SEGMENT_BYTES_MAX", 100_000)
    root = memory_path / "log"
    clock = ManualClock()
    kept = Retention(records=500)
    with millstream.open(f"file:{root}", clock=clock) as log:
        log.create("s", retention=kept)
        sizes = []
        for _ in range(200):
            log.commit(Commit((Append("s", 0, [ROW] * 400),)))
            clock.advance(1)
            sizes.append(sum(path.stat().st_size for path in root.rglob("*.arrow")))
        ((first, end),) = log.ends("s")
        assert end == 200 * 400
        assert end - first <= 10 * 400  # between two rounds of upkeep there are a few more
        assert max(sizes) <= 2_000_000
        assert len(list(root.rglob("*.arrow"))) <= 20


def test_files_stay_few_when_every_process_writes_one_large_commit(memory_path: Path) -> None:
    root = memory_path / "log"
    clock = ManualClock()
    for number in range(60):
        with millstream.open(f"file:{root}", clock=clock) as log:
            if not number:
                log.create("s")
            for _ in range(12):  # a process that lives long enough for each kind of upkeep to come by
                log.commit(Commit((Append("s", 0, [ROW] * 400),)))
                clock.advance(1)
    assert len(list(root.rglob("*"))) <= 40
