"""Random logs with random damage: repair brings back what is there, and says what is not.

What must hold is said in `trial.py`. A failure prints the seed, the damage and the findings.
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from random import SystemRandom

import pytest

from tests.repair.trial import Trial, make

TRIALS = 8  # of each log


def try_logs(folder: Path, first: int, count: int) -> Counter[str]:
    done: Counter[str] = Counter()
    for seed in range(first, first + count):
        known = make(folder / "intact", seed, steps=10 * (1 + seed % 4), killed=seed % 2 == 0)
        for number in range(TRIALS):
            root = folder / "log"
            shutil.copytree(folder / "intact", root)
            try:
                done += Trial(root, known, seed * TRIALS + number).run()
            except BaseException as error:
                error.add_note(f"log {seed}, damage {seed * TRIALS + number}")
                raise
            shutil.rmtree(root)
        for path in folder.iterdir():
            shutil.rmtree(path)
    print(f"logs {first} to {first + count - 1}: {dict(done)}")
    return done


def test_a_random_log_with_random_damage_keeps_all_that_is_there(memory_path: Path) -> None:
    done = try_logs(memory_path, SystemRandom().randrange(1 << 40), 12)
    assert done["with findings"] > 20
    assert done["lost"] > 50


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_thousands_of_random_damages(memory_path: Path) -> None:
    try_logs(memory_path, SystemRandom().randrange(1 << 40), 2_000)
