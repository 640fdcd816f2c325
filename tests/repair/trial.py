"""A trial: a random log, damaged at random and repaired, compared with what was committed to it.

What must hold, whatever the damage:

- repair ends without an error (`WrongVersion` excepted, when the damage looks like one), the log opens,
  verifies clean, can be written on, and a second repair finds nothing;
- a record that is there was committed at that seq, with that value;
- a record that is not there any more is named by a finding, unless nothing is left to know it from;
- what a finding says is lost, is not there.
"""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TypeAlias
from unittest import mock

import pytest

from millstream.clock import ManualClock
from millstream.errors import HistoryChanged, StoreFailed, WrongVersion
from millstream.log import Append, Commit, Finding
from millstream.log.entry import Extent
from millstream.log.file.journal import Journal
from millstream.log.file.log import FileLog
from millstream.log.file.repair import repair
from millstream.log.file.scan import Scan
from millstream.log.file.segment import Kind
from tests.crash.events import Machine
from tests.crash.oracle import Row, View, view_of
from tests.crash.recorder import SeededDisk
from tests.crash.workload import Workload, small_limits
from tests.repair.damage import harm, manifest

BOOT = "boot-0"
Place: TypeAlias = tuple[str, int]  # stream, shard


@dataclass(frozen=True)
class Home:
    """Where a record lies: in a segment, or (None) in the journal."""

    extent: Extent | None
    entry: bool  # the journal says where
    staged: bool = False  # only the manifest or the journal knows which commit published it


class Interrupted(Workload):
    """A workload with commits that are stopped after their batches were written, before they count."""

    def __init__(self, root: str, seed: int) -> None:
        super().__init__(root, seed, machine=Machine(), boot=BOOT, durable=True)
        self.stopped: dict[tuple[str, int, int], set[Row]] = defaultdict(set)

    def stop_a_commit(self) -> None:
        """Nothing is seen of it; what it has written stays."""
        after = self.view.copy()
        commit = Commit(self._commit_of(after).records)
        failing = mock.patch.object(Journal, "append", side_effect=StoreFailed("stopped as planned"))
        with failing, suppress(StoreFailed):
            self.log.commit(commit)
        assert view_of(self.log) == self.view
        for name, number in after.places():
            known = len(self.view.streams[name].shards[number].records)
            for seq, row in after.streams[name].shards[number].records[known:]:
                self.stopped[name, number, seq].add(hashable(row))


@dataclass
class Known:
    """A log as it was before the damage, and all that was ever committed to it."""

    view: View
    history: int
    homes: dict[Place, dict[int, Home]]
    ever: dict[Place, dict[int, set[Row]]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    stopped: dict[tuple[str, int, int], set[Row]] = field(default_factory=dict)  # by commits that never were

    @classmethod
    def of(cls, workload: Interrupted) -> Known:
        """Ask a log that is still open."""
        log = workload.log
        view = view_of(log)
        known = cls(view, log._books.state.fact.history, dict(_homes(log, view)), stopped=workload.stopped)
        for step in workload.trace.steps:
            for place in step.view.places():
                rows = known.ever.setdefault(place, defaultdict(set))
                for seq, row in step.view.streams[place[0]].shards[place[1]].records:
                    rows[seq].add(hashable(row))
        return known


def hashable(row: Row) -> Row:
    timestamp, key, value, headers = row
    return timestamp, key, repr(value), headers


def _homes(log: FileLog, view: View) -> Iterator[tuple[Place, dict[int, Home]]]:
    books = log._books
    for name, number in view.places():
        key = books.state.streams[name].id, number
        found: dict[int, Home] = {}
        for kept in books.manifest.extents_from(key, 0):
            _put(found, kept.extent, Home(kept.extent, False, _is_staged(log, kept.extent)))
        for part in books.tail.parts.get(key, ()):
            found.update(dict.fromkeys(range(part.first, part.next), Home(None, True)))
            for extent in part.extents:
                _put(found, extent, Home(extent, True, _is_staged(log, extent)))
        yield (name, number), found


def _put(found: dict[int, Home], extent: Extent, home: Home) -> None:
    found.update(dict.fromkeys(range(extent.first, extent.next), home))


def _is_staged(log: FileLog, extent: Extent) -> bool:
    scan = Scan(log._disk, extent.segment)
    batches = [batch for batch in scan.batches() if batch.extent.position == extent.position]
    return bool(batches) and batches[0].note.kind is Kind.STAGED


def files_of(root: Path) -> dict[str, bytes]:
    """Every file of a log outside of `damaged`, with what it holds."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and "damaged" not in path.parts
    }


def make(root: Path, seed: int, *, steps: int = 30, killed: bool = False) -> Known:
    """A random log; a killed one was never closed."""
    root.mkdir()
    open_root = root.with_name(f"{root.name}-open") if killed else root
    open_root.mkdir(exist_ok=True)
    with small_limits():
        workload = Interrupted(str(open_root), seed)
        try:
            for _ in range(steps // 10):
                workload.run(10)
                workload.stop_a_commit()
            known = Known.of(workload)
            if killed:
                shutil.copytree(open_root, root, dirs_exist_ok=True)
        finally:
            workload.stop()
    if not killed:  # closing may have folded
        with closing(opened(root)) as log:
            known.homes = dict(_homes(log, known.view))
    known.files = files_of(root)
    return known


def opened(root: Path, boot: str = BOOT) -> FileLog:
    return FileLog(str(root), clock=ManualClock(), disk=SeededDisk(str(root), boot), upkeep=False)


class Trial:
    """One log, damaged once."""

    def __init__(self, root: Path, known: Known, seed: int) -> None:
        self.root = root
        self.known = known
        self.random = Random(seed)
        self.done: Counter[str] = Counter()
        self.damage: list[str] = []
        self.findings: list[Finding] = []

    def run(self) -> Counter[str]:
        self.damage = [harm(self.random, self.root) for _ in range(self.random.choice((1, 1, 1, 2, 3, 5)))]
        try:
            self._judge()
        except BaseException as error:
            error.add_note("damage: " + "; ".join(self.damage))
            error.add_note("findings:\n  " + "\n  ".join(map(str, self.findings)))
            raise
        return self.done

    def _judge(self) -> None:
        now = files_of(self.root)
        self.hurt = {name for name, data in self.known.files.items() if now.get(name) != data}
        self.bytes_now = now
        try:
            self.findings = self._repair()
        except WrongVersion:
            self.done["wrong version"] += 1
            return
        with closing(opened(self.root)) as log:
            view = view_of(log)
            self._judge_records(view)
            self._judge_state(log, view)
            assert log.verify() == []
            self._write_on(log)
            assert log.verify() == []
        assert self._repair() == []
        self.done["with findings" if self.findings else "without findings"] += 1

    def _repair(self) -> list[Finding]:
        with small_limits():
            return repair(SeededDisk(str(self.root), BOOT))

    @property
    def manifest_hurt(self) -> bool:
        return manifest(self.root).name in self.hurt

    @property
    def journal_hurt(self) -> bool:
        return any(name.startswith("journal-") for name in self.hurt)

    def _judge_records(self, view: View) -> None:
        lost: dict[Place, list[tuple[int, int]]] = defaultdict(list)
        for finding in self.findings:
            if finding.lost:
                assert finding.stream is not None
                assert finding.shard is not None
                assert finding.first is not None
                assert finding.next is not None
                lost[finding.stream, finding.shard].append((finding.first, finding.next))
        for place in {*view.places(), *self.known.view.places()}:
            self._judge_shard(place, view, lost[place])

    def _judge_shard(self, place: Place, view: View, lost: list[tuple[int, int]]) -> None:
        there = _records(view, place)
        before = _records(self.known.view, place)
        ever = self.known.ever.get(place, {})
        for seq, row in there.items():
            stopped = self.known.stopped.get((*place, seq), set()) if self.manifest_hurt else set()
            assert hashable(row) in ever.get(seq, set()) | stopped, f"{place}, seq {seq}: never committed"
            assert self.manifest_hurt or self.journal_hurt or seq in before, f"{place}, seq {seq} came back"
            assert not any(first <= seq < after for first, after in lost), f"{place}, seq {seq} is there"
            if seq in before:
                assert hashable(before[seq]) == hashable(row) or hashable(row) in stopped, (
                    f"{place}, seq {seq} is an older one"
                )
        for seq in before.keys() - there.keys():
            self.done["lost"] += 1
            named = any(first <= seq < after for first, after in lost)
            assert named or self._unknowable(place, seq), f"{place}, seq {seq} is lost, and nothing says so"
            home = self.known.homes[place][seq]
            assert self._left_out(place, seq) or self._hurt(place[0], home), (
                f"{place}, seq {seq} is lost, and need not be: {home}"
            )
        for first, after in lost:
            if not self.manifest_hurt and not self.journal_hurt:
                assert any(first <= seq < after for seq in before), (
                    f"{place}: {first} to {after} were not there"
                )

    def _unknowable(self, place: Place, seq: int) -> bool:
        home = self.known.homes[place][seq]
        if home.entry and self.journal_hurt:
            return True
        return self.manifest_hurt and self._hurt(place[0], home)

    def _hurt(self, stream: str, home: Home) -> bool:
        """Whether what it takes to bring a record back was damaged."""
        if home.entry and self.journal_hurt:
            return True
        if home.staged and self.manifest_hurt:
            return True
        if home.extent is None:  # the journal has the records of a columnar stream, and not their type
            return (
                self.manifest_hurt and f"nothing is known any more of the stream '{stream}'" in self._said()
            )
        name = f"streams/{home.extent.segment}.arrow"
        before, now = self.known.files[name], self.bytes_now.get(name, b"")
        where = slice(home.extent.position, home.extent.position + home.extent.length)
        if before[where] != now[where]:
            return True
        if self.manifest_hurt and self.journal_hurt:  # nothing says which commits were folded
            return True
        return self.manifest_hurt and any(segment.startswith("streams/") for segment in self.hurt)

    def _left_out(self, place: Place, seq: int) -> bool:
        """Whether it is said that its commit may have been stopped: others of its batches are gone."""
        return self.manifest_hurt and any(
            found.what.startswith("a batch is left out")
            and (found.stream, found.shard) == place
            and (found.first or 0) <= seq < (found.next or 0)
            for found in self.findings
        )

    def _said(self) -> str:
        return "\n".join(finding.what for finding in self.findings)

    def _judge_state(self, log: FileLog, view: View) -> None:
        before = self.known.view
        if not self.manifest_hurt and not self.journal_hurt:
            assert (view.offsets, view.fences, view.pins) == (before.offsets, before.fences, before.pins)
            assert view.staged.keys() <= before.staged.keys()
        if not self.findings:
            # What a kill leaves at the end of the journal looks like a journal that was cut there.
            assert view == before or self.journal_hurt
            return
        history = log._books.state.fact.history
        changed = False
        for place in before.places():
            old = before.streams[place[0]].shards[place[1]].end
            shards = view.streams[place[0]].shards if place[0] in view.streams else []
            if place[1] >= len(shards):
                changed = True
                continue
            new = shards[place[1]].end
            changed |= new < old or not _records(before, place).keys() <= _records(view, place).keys()
            if new < old:
                with pytest.raises(HistoryChanged) as told:
                    log.read(*place, old, history=self.known.history)
                assert told.value.end <= new
        if changed:
            assert history > self.known.history, "something is lost, and the history is the same"

    def _write_on(self, log: FileLog) -> None:
        """Write a record into every shard, and see that nothing else comes or goes by that."""
        ends = {
            place: log.ends(place[0])[place[1]][1] for name in log.streams() for place in _places(log, name)
        }
        for (name, shard), end in ends.items():
            columnar = log.settings(name).value is not None
            value = {"item": "new", "price": 1} if columnar else b"new"
            receipt = log.commit(Commit((Append(name, shard, [(1, None, value, None)]),)))
            assert receipt.placed[0].first == end
            assert next(iter(log.read(name, shard, end).records())).value == value
        log.create("after")
        log.append("after", b"x")


def _places(log: FileLog, name: str) -> list[Place]:
    return [(name, shard) for shard in range(log.settings(name).shards)]


def _records(view: View, place: Place) -> dict[int, Row]:
    if place[0] not in view.streams or place[1] >= len(view.streams[place[0]].shards):
        return {}
    return dict(view.streams[place[0]].shards[place[1]].records)
