"""Whatever the files of a log hold, damaged or forged: an error of ours, or what was committed, and soon.

Each run is a process of its own, for what is read could end it, and its memory is bounded. A failure
tells the command that repeats it; `python -m tests.fuzz --cases 20000` is the full check.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import SystemRandom

import pytest

ROOT = Path(__file__).parent.parent
SECONDS = 5
SECONDS_LONG = 300


def fuzz(*arguments: str | int | float) -> subprocess.CompletedProcess[str]:
    """Run it; the last case that was told is the one that ended the process, if one did."""
    command = [sys.executable, "-m", "tests.fuzz", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    told = [line for line in lines if not line.startswith("--seed")]
    print("\n".join(told if done.returncode >= 0 else lines[-3:]), done.stderr, sep="\n")
    return done


def fuzz_all(kind: str, seconds: float, cases: int, seen: Sequence[str]) -> None:
    """Many cases of a seed that is told; `seen` must have come of them."""
    seed = int(os.environ.get("FUZZ_SEED") or SystemRandom().randrange(1 << 32))
    print(f"FUZZ_SEED={seed}")
    done = fuzz("--seed", seed, "--kind", kind, "--seconds", seconds, "--cases", 10**6, "--tell")
    assert done.returncode == 0
    counts = {what: int(count) for what, count in re.findall(r"^(.*): (\d+)$", done.stdout, re.MULTILINE)}
    assert counts[kind] >= cases
    assert not [what for what in seen if not counts.get(what)]


DAMAGE = ("not opened", "read", "read in part", "seen whole", "told: Damaged", "told: ManifestLost")
FORGED = ("not opened", "read", "read in part", "told: Damaged")


@pytest.mark.parametrize(("kind", "seen"), [("damage", DAMAGE), ("forge", FORGED)])
def test_only_errors_of_ours_come_of_what_is_read(kind: str, seen: tuple[str, ...]) -> None:
    fuzz_all(kind, SECONDS, 30, seen)


@pytest.mark.long
@pytest.mark.timeout(2 * SECONDS_LONG)
@pytest.mark.parametrize(
    ("kind", "seen"),
    [("damage", (*DAMAGE, "seen less", "told: WrongVersion")), ("forge", (*FORGED, "told: WrongVersion"))],
)
def test_only_errors_of_ours_come_of_very_many_logs(kind: str, seen: tuple[str, ...]) -> None:
    fuzz_all(kind, SECONDS_LONG, 3_000, seen)


@pytest.mark.parametrize(
    ("canary", "kind", "what"),
    [
        ("journal-checksum", "damage", "journal"),
        ("segment-checksum", "damage", "segment"),
        ("messages-not-looked-over", "forge", "message"),
        ("rows-not-judged", "forge", "state"),
        pytest.param("row-checksum", "damage", "manifest.sqlite", marks=pytest.mark.long),
        pytest.param("entries-not-judged", "forge", "journal", marks=pytest.mark.long),
    ],
)
def test_a_check_that_is_taken_away_is_missed(canary: str, kind: str, what: str) -> None:
    done = fuzz("--canary", canary, "--kind", kind, "--what", what, "--seed", 1, "--seconds", 100)
    assert done.returncode < 0 or "failure: --seed" in done.stdout
