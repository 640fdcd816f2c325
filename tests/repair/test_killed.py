"""Repair is killed at each of its calls, or the power is cut there: run again, it comes to the same."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import SystemRandom

import pytest

from millstream.log.file.repair import repair
from tests.crash.events import Event, Image, Machine, Name
from tests.crash.oracle import View, difference, view_of
from tests.crash.recorder import RecordingDisk, SeededDisk, lay_out
from tests.repair.damage import flip, journals, manifest, segments
from tests.repair.trial import BOOT, files_of, make, opened

STEP = 3  # every call in turn takes a minute, see the long test
SEED = 6  # a log with several streams and shards, a fence, offsets, and much in its journal


def largest(root: Path) -> Path:
    return max(segments(root), key=lambda path: path.stat().st_size)


def leave_segments(root: Path) -> None:
    for path in (manifest(root), *journals(root)):
        path.unlink()


DAMAGE: dict[str, Callable[[Path], None]] = {
    "a bit in a segment": lambda root: flip(largest(root), -600),
    "a bit in the manifest": lambda root: flip(manifest(root), -20),
    "the manifest is gone": lambda root: manifest(root).unlink(),
    "a bit in the journal": lambda root: flip(journals(root)[0], 60),
    "the journal is gone": lambda root: journals(root)[0].unlink(),
    "only segments are left": leave_segments,
}


def image_of(root: Path) -> Image:
    folders = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_dir()}
    return Image(files_of(root), folders)


def state_of(root: Path) -> tuple[View, int]:
    """What a log shows, and the number of its history."""
    with closing(opened(root)) as log:
        assert log.verify() == []
        return view_of(log), log._books.state.fact.history


def stopped(image: Image, folder: Path, *, power_cut: bool, step: int) -> Iterator[tuple[int, Path]]:
    """The directory as each `step`-th call of a repair leaves it."""
    machine = Machine.of(image)
    root = folder / "recorded"
    lay_out(image, str(root))
    disk = RecordingDisk(str(root), BOOT, machine, 1)
    try:
        repair(disk)
    finally:
        disk.forget()
    shutil.rmtree(root)
    assert len(disk.events) > 20
    before: Event | None = None
    first = SystemRandom().randrange(step)
    for number, event in enumerate(disk.events):
        renaming = isinstance(before, Name) and isinstance(event, Name) and before.file is not None
        before = event
        if renaming or number % step != first:  # to give another name is one call
            machine.apply(event)
            continue
        root = folder / f"stopped-{number}"
        lay_out(machine.durable() if power_cut else machine.now(), str(root))
        yield number, root
        shutil.rmtree(root)
        machine.apply(event)


WHEN = pytest.mark.parametrize("power_cut", [False, True], ids=["killed", "power cut"])


@WHEN
@pytest.mark.parametrize("kind", DAMAGE)
def test_a_repair_that_was_stopped_is_run_again(kind: str, power_cut: bool, memory_path: Path) -> None:
    stop_and_repair(kind, memory_path, power_cut=power_cut, step=STEP)


@pytest.mark.long
@WHEN
@pytest.mark.parametrize("kind", DAMAGE)
def test_a_repair_that_was_stopped_at_each_call(kind: str, power_cut: bool, memory_path: Path) -> None:
    stop_and_repair(kind, memory_path, power_cut=power_cut, step=1)


def stop_and_repair(kind: str, memory_path: Path, *, power_cut: bool, step: int) -> None:
    make(memory_path / "log", SEED, steps=20, killed=True)
    DAMAGE[kind](memory_path / "log")
    image = image_of(memory_path / "log")
    whole = repair(SeededDisk(str(memory_path / "log"), BOOT))
    assert whole
    wanted, history = state_of(memory_path / "log")
    for number, root in stopped(image, memory_path, power_cut=power_cut, step=step):
        findings = repair(SeededDisk(str(root), BOOT))
        assert {found.what.replace(str(root), "") for found in findings} in (
            set(),  # it had come to its end, but for tidying up
            {found.what.replace(str(memory_path / "log"), "") for found in whole},
        )
        found, number_of_history = state_of(root)
        assert found == wanted, f"call {number}: {difference(found, wanted)}"
        assert number_of_history == history, f"call {number}"
        assert repair(SeededDisk(str(root), BOOT)) == []
        assert (root / "damaged" / "1-findings.json").exists()
