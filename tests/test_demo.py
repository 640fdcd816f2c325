"""The demo runs to its end, and says what it promises to show."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_demo_runs_and_loses_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo"],
        cwd=ROOT,
        env={"TMPDIR": str(tmp_path), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for scene in ("1. A day of orders", "2. Another process", "3. What was ordered at noon", "4. Kill"):
        assert scene in done.stdout
    assert "0 missing, 0 double, in order" in done.stdout
    assert len(re.findall(r"killed", done.stdout)) == 5
    assert list(tmp_path.iterdir()) == []  # its directory is gone
