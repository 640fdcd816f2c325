"""`millstream run`: a real run in a process of its own, and what a run is told and tells."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner, Result

import millstream
from millstream.cli.app import app
from millstream.errors import StepFailed
from millstream.flow import Flow
from tests.cli.flows import shop_in
from tests.cli.test_flow_file import modules  # noqa: F401 - a fixture that every test here uses

ROOT = Path(__file__).parent.parent.parent
SECONDS_MAX = 200


class Ended(NamedTuple):
    """As the engine tells of a run."""

    epochs: int = 3
    records: int = 1_500
    counts: Mapping[str, int] = MappingProxyType({})
    seconds: float = 2.0
    why: str = "end"


class Told(NamedTuple):
    """As the engine tells of an epoch."""

    job: str = "shop.parity"
    epoch: int = 7
    records: int = 1_500
    counts: Mapping[str, int] = MappingProxyType({"out totals": 1_500, "skipped map cents": 2})
    seconds: float = 0.5


END = Ended()


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A log with some orders, one of them of no cents."""
    url = f"file:{tmp_path}/log"
    with millstream.open(url) as log:
        log.create("orders", shards=2)
        for number in range(100):
            log.append("orders", b'{"cents":%d}' % number, key=b"k%d" % (number % 5))
    return url


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., tuple[Result, dict[str, Any]]]:
    """The command, with an engine that ends, or fails, as a test wants it to."""

    def command(*arguments: str, ended: Ended | BaseException = END) -> tuple[Result, dict[str, Any]]:
        given: dict[str, Any] = {}

        def engine(flow: Flow, url: str, *, on_epoch: Callable[[Told], None], **options: Any) -> Ended:
            assert (flow.name, url) == ("shop", f"file:{tmp_path}/log")
            given.update(options)
            if isinstance(ended, BaseException):
                raise ended
            on_epoch(Told())
            return ended

        monkeypatch.setattr(Flow, "run", engine)
        environ = {"COLUMNS": "100", "MILLSTREAM_LOG": f"file:{tmp_path}/log"}
        done = CliRunner().invoke(app, ["run", str(shop_in(tmp_path)), *arguments], env=environ)
        return done, given

    return command


Run = Callable[..., tuple[Result, dict[str, Any]]]


@pytest.mark.timeout(SECONDS_MAX + 60)
def test_a_flow_runs_until_ctrl_c_and_ends_at_the_edge_of_an_epoch(tmp_path: Path, url: str) -> None:
    command = [sys.executable, "-m", "millstream.cli", "run", str(shop_in(tmp_path)), url]
    environ = {**os.environ, "COLUMNS": "80", "TMPDIR": str(tmp_path)}
    # Elsewhere than the file: workers find nothing of the user's beside them.
    with subprocess.Popen(
        [*command, "--master", "local[2]"],
        cwd=ROOT,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            with millstream.open(url) as log:
                wait(process, lambda: sum(log.offsets("shop.parity").values()) == 100)
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does it
            output, errors = process.communicate(timeout=SECONDS_MAX)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert errors == ""
    assert process.returncode == 130
    assert "shop: interrupted; it ended at the edge of an epoch" in output
    assert "100 records in 1 epoch" in output
    assert "out  parity" in output
    assert "skipped  map cents 1" in output
    with millstream.open(url) as log:
        totals = [record.key for record in log.consumer("totals", until="end")]
        assert len(totals) == 100
        assert sum(1 for _ in log.consumer("shares", until="end")) == 99


def wait(process: subprocess.Popen[str], happens: Callable[[], bool]) -> None:
    """Until something happens, or the process ends."""
    end = time.monotonic() + SECONDS_MAX
    while not happens() and process.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.usefixtures("url")
def test_only_what_is_said_is_handed_on(run: Run) -> None:
    done, given = run()
    assert (done.exit_code, given) == (0, {"master": "local[*]", "latency_ms": 500})
    words = "--until 30s --master local[4] --pages 8 --latency 2s --fresh --rebuild --finish --accept-mixed"
    more = (
        "--max-epochs 9 --checkpoint here --skip orders/1/17 --skip orders/0/3 --drop-state a --drop-state b"
    )
    done, given = run(*words.split(), *more.split(), "--verbose")
    assert done.exit_code == 0
    assert given == {
        "until": 30.0,
        "master": "local[4]",
        "pages": 8,
        "latency_ms": 2_000,
        "fresh": True,
        "rebuild": True,
        "finish": True,
        "accept_mixed": True,
        "max_epochs": 9,
        "checkpoint": "here",
        "skip": [("orders", 1, 17), ("orders", 0, 3)],
        "drop_state": ["a", "b"],
        "verbose": True,
    }
    assert run("--until", "end")[1]["until"] == "end"


@pytest.mark.usefixtures("url")
def test_the_end_is_told_with_what_came_out(run: Run) -> None:
    done, _ = run("--until", "end")
    assert done.stdout.splitlines()[-5:] == [
        "shop: done, all that there was is read",
        "1,500 records in 3 epochs, 2.0 s with Spark's start, 750 a second",
        "out  totals 1,500",
        "skipped  map cents 2",
        "100 records are still to be read; the same command goes on from here",
    ]


@pytest.mark.parametrize(
    ("ended", "code", "says"),
    [
        (Ended(why="stopped"), 130, "it ended at the edge of an epoch"),
        (Ended(why="time"), 0, "the time is over"),
        (Ended(why="epochs"), 0, "the epochs asked for are done"),
        (KeyboardInterrupt(), 130, "interrupted at once"),
        (StepFailed("the step 'map cents' failed", step="map cents", record="r"), 1, "error: the step"),
        (millstream.errors.StoreFailed("the disk is gone"), 1, "error: the disk is gone"),
        (millstream.errors.UsageError("pages=0: expected more"), 2, "error: pages=0"),
        (
            RuntimeError("o1.start\n: java.io.IOException: no\n\tat a.b(C.java:1)"),
            1,
            "IOException: no (--verbose",
        ),
    ],
)
@pytest.mark.usefixtures("url")
def test_each_end_has_its_code(run: Run, ended: Ended | BaseException, code: int, says: str) -> None:
    done, _ = run(ended=ended)
    assert done.exit_code == code
    assert says in done.output
    assert "Traceback" not in done.output
    if isinstance(ended, Exception):
        assert "Traceback" in run("--verbose", ended=ended)[0].output


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--until soon", "'soon' is no time: expected one like 500ms"),
        ("--latency 0s", "'0s' is no time"),
        ("--skip orders/17", "'orders/17' names no record"),
        ("--pages 5000", "equal to 4096"),
        ("gopher:x", "names no log: expected file:PATH or memory:"),
    ],
)
@pytest.mark.usefixtures("url")
def test_a_wrong_word_is_a_usage_error(run: Run, words: str, says: str) -> None:
    done, given = run(*words.split())
    assert done.exit_code == 2
    assert says in " ".join(done.output.split())
    assert given == {}


def test_without_a_log_it_asks_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MILLSTREAM_LOG", raising=False)
    done = CliRunner().invoke(app, ["run", str(shop_in(tmp_path))], env={"COLUMNS": "100"})
    assert done.exit_code == 2
    assert "which log?" in done.output


def test_a_stream_that_is_not_there_is_told_before_spark_starts(run: Run, tmp_path: Path) -> None:
    millstream.open(f"file:{tmp_path}/log").close()
    done, given = run()
    assert (done.exit_code, given) == (2, {})
    assert "orders" in done.output
