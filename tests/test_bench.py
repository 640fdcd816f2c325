"""The benchmark knows every figure that was promised, and prints them as asked."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.figure import at_least, at_most
from bench.log import LOG

ROOT = Path(__file__).parent.parent
PROMISED = {
    "commit_written_vs_sqlite": at_least(0.25),
    "commit_synced_vs_sqlite_full": at_least(0.35),
    "group_commit_vs_sqlite_full": at_least(1.5),
    "commit_4_processes_vs_1": at_least(0.8),
    "batch_write_vs_os_write": at_least(0.35),
    "arrow_read_vs_pyarrow": at_least(0.5),
    "record_read_vs_bare_loop": at_least(0.15),
    "send_vs_batch": at_least(0.2),
    "open_full_vs_empty": at_most(3),
    "tail_wake_p50_ms": at_most(2),
    "tail_idle_cpu_percent": at_most(1),
    "read_10gb_rss_mb": at_most(200),
}


def bench(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", *arguments, "--dir", str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=100)


def test_every_promised_figure_has_its_bar() -> None:
    bars = {name: bar for measure in LOG.measures for name, bar in measure.bars.items()}
    assert {name: bar for name, bar in bars.items() if bar} == PROMISED


def test_json_is_one_object_of_the_figures_asked_for(tmp_path: Path) -> None:
    names = ["commit_written_vs_sqlite", "batch_write_vs_os_write", "record_read_vs_bare_loop"]
    done = bench(tmp_path, "log", "--quick", "--json", "--only", ",".join(names))
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert list(figures) == names
    assert all(value > 0 for value in figures.values())
    assert list(tmp_path.iterdir()) == []  # it leaves nothing


def test_without_json_the_figures_are_a_table(tmp_path: Path) -> None:
    done = bench(tmp_path, "log", "--quick", "--only", "commit_written_vs_sqlite")
    assert done.returncode == 0, done.stderr
    assert "commit_written_vs_sqlite" in done.stdout
    assert ">= 0.25" in done.stdout


def test_without_a_name_the_benchmarks_are_listed(tmp_path: Path) -> None:
    listed = bench(tmp_path).stdout
    assert all(name in listed for name in PROMISED)


@pytest.mark.parametrize(
    ("arguments", "known"), [(("nothing",), "log"), (("log", "--only", "nothing"), "send_vs_batch")]
)
def test_an_unknown_name_is_refused_with_those_there_are(
    arguments: tuple[str, ...], known: str, tmp_path: Path
) -> None:
    done = bench(tmp_path, *arguments)
    assert done.returncode != 0
    assert "nothing" in done.stderr
    assert known in done.stderr
