"""The demos run to their ends, and say what they promise to show."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def demo(folder: Path, *arguments: str) -> str:
    """What a demo shows; its directory is gone afterwards."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env={"TMPDIR": str(folder), "COLUMNS": "200", "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not [path for path in folder.iterdir() if path.name.startswith("millstream-demo")]
    return done.stdout


@pytest.mark.timeout(400)  # Spark starts twice, perhaps on a machine that has much to do
def test_the_demo_kills_spark_and_counts_every_order_once(tmp_path: Path) -> None:
    shown = demo(tmp_path, "examples.demo", "30000", "5")
    assert "killed (SIGKILL)" in shown
    assert "30,000 orders came in, 30,000 were counted" in shown
    assert "Every order counted once." in shown


def test_the_demo_of_the_log_loses_nothing(tmp_path: Path) -> None:
    shown = demo(tmp_path, "examples.demo_log")
    for scene in ("1. A day of orders", "2. Another process", "3. What was ordered at noon", "4. Kill"):
        assert scene in shown
    assert "0 missing, 0 double, in order" in shown
    assert len(re.findall(r"killed", shown)) == 5
