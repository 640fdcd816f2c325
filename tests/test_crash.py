"""The crash check, small enough for every day: each promise holds at every cut, and each canary is caught.

`python -m tests.crash --runs 20000 --seed 1` is the full one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from random import SystemRandom

import pytest

from millstream.clock import ManualClock
from millstream.errors import HistoryChanged
from millstream.log.file.log import FileLog
from millstream.log.file.manifest import NAME
from millstream.record import VALUE_BYTES, rows_to_batch
from tests.crash.canaries import CANARIES, removed
from tests.crash.check import open_log
from tests.crash.events import Event, Machine, Name, Sync, Truncate, Write
from tests.crash.recorder import RecordingDisk, lay_out
from tests.crash.runner import Result, Runner

RUNS = 500
STEPS = 14
CANARY_WORKLOADS = range(3, 40)  # from one on that catches most canaries early
FAULTS = {  # and what they must meet
    "all unsynced lost",
    "bit of synced bytes flipped",
    "commit with offsets",
    "cut again",
    "dropped",
    "flipped bit told",
    "garbled",
    "killed",
    "killed in a write",
    "name back",
    "name lost",
    "reordered",
    "something taken back",
    "take_over",
    "torn",
    "truncate dropped",
    "truncate kept",
}


def crash(folder: Path, runs: int, steps: int) -> None:
    """Cut workloads of a seed that is told, until there were so many cuts and each of `FAULTS` has fired."""
    seed = int(os.environ.get("CRASH_SEED") or SystemRandom().randrange(1 << 32))
    print(f"CRASH_SEED={seed}")
    result = Result()
    number = seed
    while result.runs < runs or not (fired := set(result.faults) | set(result.done)) >= FAULTS:
        assert result.runs < 10 * runs, f"never fired: {sorted(FAULTS - fired)}"
        result.add(Runner(str(folder), number).run(steps))
        assert result.violations == []
        number += 1
    print(f"{result.runs} runs", dict(result.faults))


@pytest.mark.timeout(300)
def test_whatever_a_crash_leaves_each_promise_holds(memory_path: Path) -> None:
    crash(memory_path, RUNS, STEPS)


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_whatever_a_crash_leaves_of_a_long_history_each_promise_holds(memory_path: Path) -> None:
    crash(memory_path, 10_000, 60)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("canary", sorted(CANARIES))
def test_a_protection_that_is_taken_away_is_missed(canary: str, memory_path: Path) -> None:
    for seed in CANARY_WORKLOADS:
        with removed(canary):
            violations = Runner(str(memory_path), seed, violations_max=1).run(STEPS).violations
        if violations:
            print(f"workload {seed}: {violations[0]}")
            return
    pytest.fail(f"{len(CANARY_WORKLOADS)} workloads went by without {canary}, and nothing was noticed")


# -- what the check has found: a process is killed, another commits as synced, and then the power goes


def recorded(
    root: Path, machine: Machine, act: Callable[[FileLog], object], *, boot: str = "boot"
) -> list[Event]:
    """The calls of a process that does this, after a start on what the machine holds."""
    disk = RecordingDisk(str(root), boot, machine, seed=1)
    log = FileLog(str(root), clock=ManualClock(), disk=disk)
    act(log)
    events = list(disk.events)
    log.close()
    disk.forget()
    return events


def opened_after(folder: Path, killed: Sequence[Event]) -> FileLog:
    """The log that a power cut leaves after one process was killed, and another has committed as synced."""
    machine = Machine()
    for event in killed:
        machine.apply(event)
    lay_out(machine.now(), str(folder / "log"))
    for event in recorded(folder / "log", machine, lambda log: log.append("s", b"2", durability="synced")):
        machine.apply(event)
    lay_out(machine.durable(), str(folder / "left"))
    return open_log(str(folder / "left"), "another boot")


def values(log: FileLog) -> list[bytes]:
    return [record.value for record in log.read("s", 0, 0).records()]


def test_a_fold_that_was_killed_as_it_ended_is_durable_before_the_next_commit_that_is_synced(
    memory_path: Path,
) -> None:
    def fold(log: FileLog) -> None:
        log.create("s")
        log.append("s", b"1", durability="synced")
        log.merge()  # folds

    events = recorded(memory_path / "first", Machine(), fold)
    journal = next(e.file for e in events if isinstance(e, Name) and e.name == f"{NAME}-journal")
    assert journal is not None
    last = max(number for number, e in enumerate(events) if isinstance(e, Truncate) and e.file == journal)
    assert events[last + 1] == Sync(journal)
    with opened_after(memory_path, events[: last + 1]) as log:
        assert values(log) == [b"1", b"2"]


def test_staging_that_was_killed_before_its_sync_takes_no_later_commit_with_it(memory_path: Path) -> None:
    def stage(log: FileLog) -> None:
        log.create("s")
        log.append("s", b"1", durability="synced")
        log.stage("s", 0, [rows_to_batch([(0, None, b"staged", None)], VALUE_BYTES)])

    events = recorded(memory_path / "first", Machine(), stage)
    written = max(number for number, e in enumerate(events) if isinstance(e, Sync))
    while not isinstance(events[written], Write):  # of the frame that says what is staged
        written -= 1
    with opened_after(memory_path, events[: written + 1]) as log:
        assert values(log) == [b"1", b"2"]
        assert len(log._books.state.staged) == 1
        assert log.verify() == []


def test_a_history_whose_beginning_was_killed_is_not_begun_again_after_the_next_power_cut(
    memory_path: Path,
) -> None:
    def act(log: FileLog) -> None:
        log.create("s")
        log.append("s", b"1", durability="synced")

    machine = Machine()
    for event in recorded(memory_path / "first", machine, act):
        machine.apply(event)
    machine = Machine.of(machine.durable())
    lay_out(machine.now(), str(memory_path / "second"))
    opening = recorded(memory_path / "second", machine, FileLog.streams, boot="boot 2")
    written = next(number for number, e in enumerate(opening) if isinstance(e, Write))
    for event in opening[: written + 1]:  # killed before the sync
        machine.apply(event)
    lay_out(machine.now(), str(memory_path / "third"))
    histories = []

    def note(log: FileLog) -> None:
        log.append("s", b"2")
        histories.append(log.read("s", 0, 0).history)

    for event in recorded(memory_path / "third", machine, note, boot="boot 2"):
        machine.apply(event)
    lay_out(machine.durable(), str(memory_path / "left"))
    with open_log(str(memory_path / "left"), "boot 3") as log:
        assert values(log) == [b"1"]
        with pytest.raises(HistoryChanged):
            log.read("s", 0, 2, history=histories[0])
