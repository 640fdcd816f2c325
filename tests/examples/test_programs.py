"""The programs themselves: they are small, they say what they compute, and they print what they should."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden import assert_golden

ROOT = Path(__file__).parent.parent.parent
NOT_FLOWS = {"__init__", "demo", "demo_log", "orders", "shop"}  # the demos, and what they run
PROGRAMS = sorted(path.stem for path in (ROOT / "examples").glob("*.py") if path.stem not in NOT_FLOWS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_short(name: str) -> None:
    assert len((ROOT / f"examples/{name}.py").read_text().splitlines()) < 60


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_its_graph_and_its_result(name: str) -> None:
    printed = subprocess.run(
        [sys.executable, "-m", f"examples.{name}"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "random"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert_golden(f"tests/examples/golden/{name}.txt", printed)


def test_make_runs_them_all() -> None:
    listed = re.findall(r"^EXAMPLES := (.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert len(listed) == 1
    assert sorted(listed[0].split()) == PROGRAMS
