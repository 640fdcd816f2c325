"""The pytest plugin: its fixtures, and that it costs nothing before one of them is asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

USER_TESTS = """
import pytest

from millstream.flow import Flow
from millstream.testing import run


def test_logs(memory_log, file_log, manual_clock):
    for log in (memory_log, file_log):
        log.create("orders")
        log.append("orders", b"apples")
        records = [record for record in log.consumer("orders", until="end")]
        assert [record.timestamp for record in records] == [manual_clock.now_ms()]
        manual_clock.advance(1)


def test_outputs(golden):
    flow = Flow("sums")
    flow.source("numbers", key=str, value=int).group_by_key().sum().sink("sums")
    golden(run(flow, {"numbers": [("b", 1), ("a", 2), ("b", NUMBER)]}))
    golden(flow.describe(), "picture")


@pytest.mark.parametrize("name", ["any / thing"])
def test_values(golden, name):
    golden({"numbers": list(range(NUMBER))})


def test_seed(flow_seed):
    assert flow_seed == SEED
"""


def user_tests(pytester: pytest.Pytester, *, number: int = 3, seed: int = 7) -> None:
    """A user's test module."""
    text = USER_TESTS.replace("NUMBER", str(number)).replace("SEED", str(seed))
    pytester.makepyfile(test_shop=text)


def run_pytest(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """In this process, with none of the other plugins of this project."""
    others = ("randomly", "timeout", "hypothesispytest", "cacheprovider")
    return pytester.runpytest(*arguments, *(f"-pno:{name}" for name in others))


def test_what_is_compared_for_the_first_time_is_shown_and_not_taken_for_right(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MILLSTREAM_UPDATE", raising=False)
    user_tests(pytester)
    done = run_pytest(pytester, "--flow-seed=7")
    done.assert_outcomes(passed=2, failed=2)
    done.stdout.fnmatch_lines(
        ["*there is no golden/test_shop/test_outputs.txt yet: run pytest with --update-*"]
    )


@pytest.mark.parametrize("how", ["option", "variable"])
def test_golden_outputs_are_kept_compared_and_updated(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.delenv("MILLSTREAM_UPDATE", raising=False)
    user_tests(pytester)
    if how == "variable":
        monkeypatch.setenv("MILLSTREAM_UPDATE", "1")
    run_pytest(pytester, "--flow-seed=7", *["--update-golden"] * (how == "option")).assert_outcomes(passed=4)
    monkeypatch.delenv("MILLSTREAM_UPDATE", raising=False)
    kept = pytester.path / "golden" / "test_shop"
    assert sorted(path.name for path in kept.iterdir()) == [
        "test_outputs.picture.txt",
        "test_outputs.txt",
        "test_values-any-thing.txt",
    ]
    assert (kept / "test_outputs.txt").read_text() == "[sums]\n  'a'\n    2\n  'b'\n    1\n    4\n"
    assert (kept / "test_values-any-thing.txt").read_text() == "{'numbers': [0, 1, 2]}\n"
    run_pytest(pytester, "--flow-seed=7").assert_outcomes(passed=4)
    user_tests(pytester, number=5)
    done = run_pytest(pytester, "--flow-seed=7")
    done.assert_outcomes(passed=2, failed=2)
    done.stdout.fnmatch_lines(
        ["golden/test_shop/test_outputs.txt is not what is made now: look at the change*", "-    4", "+    6"]
    )


def test_the_seed_of_a_test_that_failed_is_told(pytester: pytest.Pytester) -> None:
    user_tests(pytester, seed=-1)
    done = run_pytest(pytester, "-k", "test_seed")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*again with the same: --flow-seed=[0-9]*"])


def test_the_fixtures_and_options_are_listed(pytester: pytest.Pytester) -> None:
    user_tests(pytester)
    done = run_pytest(pytester, "--fixtures")
    done.stdout.fnmatch_lines(["memory_log*", "file_log*", "golden*"])
    done = run_pytest(pytester, "--help")
    done.stdout.fnmatch_lines(["millstream:", "*--update-golden*", "*--flow-seed=FLOW_SEED*"])


SETS = """
import dataclasses
import msgspec

class Room(msgspec.Struct):
    people: set[str]

@dataclasses.dataclass
class House:
    rooms: tuple[Room, ...]

def test_sets(golden):
    house = House((Room({f"p{number}" for number in range(9)}),))
    golden([house, {"empty": set(), 1: frozenset({(1, 2), (1,)})}])
"""


@pytest.mark.parametrize("seed", ["1", "2"])
def test_sets_are_shown_in_one_order_in_every_process(pytester: pytest.Pytester, seed: str) -> None:
    pytester.makepyfile(test_sets=SETS)
    command = [sys.executable, "-m", "pytest", "-q", "--update-golden"]
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    subprocess.run(command, cwd=pytester.path, env=environment, check=True, capture_output=True)
    people = ", ".join(f"'p{number}'" for number in range(9))
    assert (pytester.path / "golden" / "test_sets" / "test_sets.txt").read_text() == (
        f"[House(rooms=(Room(people={{{people}}}),)), {{'empty': set(), 1: frozenset({{(1, 2), (1,)}})}}]\n"
    )


PROGRAM = """
import sys
import pytest
sys.path.insert(0, ".")
without = ["-p", "no:hypothesispytest", "-p", "no:cacheprovider"]
code = pytest.main([*without, "test_other.py", *sys.argv[1:]])
loaded = sorted({name.partition(".")[0] for name in sys.modules} & {"millstream", "pyarrow", "hypothesis"})
print("loaded", code, loaded, "pytest_millstream" in sys.modules)
"""


@pytest.mark.parametrize("arguments", [["--collect-only"], []])
def test_nothing_is_imported_before_a_fixture_is_asked_for(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "test_other.py").write_text("def test_other():\n    pass\n")
    # The plugin that Hypothesis brings along would import Hypothesis: it is left out.
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.splitlines()[-1].startswith("loaded")
    assert done.stdout.splitlines()[-1].endswith("[] True"), done.stdout
