"""The benchmark of flows knows every figure that was promised; what can be exact is."""

import json
import subprocess
import sys
from pathlib import Path

from bench.figure import at_least, at_most, exactly
from bench.flow import FLOW

ROOT = Path(__file__).parent.parent
PROMISED = {
    "build_1000_steps_vs_100k_dataclasses": at_most(3),
    "explore_252": exactly(252),
    "import_millstream_vs_pyarrow": at_most(1.5),
    "model_records_per_second": at_least(50_000),
}


def test_every_promised_figure_has_its_bar() -> None:
    bars = {name: bar for measure in FLOW.measures for name, bar in measure.bars.items()}
    assert {name: bar for name, bar in bars.items() if bar} == PROMISED


def test_the_figures_are_measured(tmp_path: Path) -> None:
    names = ["build_1000_steps_vs_100k_dataclasses", "explore_252"]
    command = [sys.executable, "-m", "bench", "flow", "--quick", "--json", "--only", ",".join(names)]
    done = subprocess.run(
        [*command, "--dir", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert list(figures) == names
    assert figures["explore_252"] == 252
    assert 0 < figures["build_1000_steps_vs_100k_dataclasses"] < 10  # the bar is for a quiet machine


def test_a_bar_may_want_one_number_exactly() -> None:
    assert exactly(252).reached(252)
    assert not exactly(252).reached(251)


def said_by(program: str) -> str:
    """What a program of its own prints."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_importing_the_library_imports_nothing_that_is_not_needed() -> None:
    loaded = set(said_by("import sys, millstream; print(*sorted(sys.modules))").split())
    needless = {"pyspark", "hypothesis", "pytest", "millstream.flow", "millstream.testing", "typer", "rich"}
    assert not loaded & needless


def test_flows_are_imported_when_they_are_asked_for() -> None:
    program = "import millstream; print(millstream.Flow('f'), hasattr(millstream, 'Flows'))"
    assert said_by(program) == "<Flow f: 0 nodes> False\n"
