"""Nothing that was promised is lost when processes that write and read one log are killed at any moment."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.kills.driver import run


def kill(folder: Path, kills: int) -> None:
    """Run it with a seed of its own, that is told."""
    seed = int(os.environ.get("KILLS_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"python -m tests.kills --kills {kills} --seed {seed}")
    outcome = run(folder, kills=kills, seed=seed)
    print(dict(outcome.counts))
    assert outcome.anomalies == []
    assert outcome.counts["kills"] == kills
    assert outcome.counts["records"] > 100 * kills
    assert outcome.counts["outputs"] > 100 * kills
    assert outcome.counts["takeovers"] > 0


@pytest.mark.timeout(300)
def test_12_kills_lose_repeat_and_reorder_nothing(tmp_path: Path) -> None:
    kill(tmp_path, 12)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_60_kills_lose_repeat_and_reorder_nothing(tmp_path: Path) -> None:
    kill(tmp_path, 60)
