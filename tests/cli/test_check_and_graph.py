"""`millstream check` and `millstream graph`."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import millstream
from millstream.cli.app import app
from tests.cli.flows import shop_in, written
from tests.cli.test_flow_file import modules  # noqa: F401 - a fixture that every test here uses


def command(*arguments: object) -> tuple[int, str]:
    """What a command says, and its code."""
    done = CliRunner().invoke(app, [str(one) for one in arguments], env={"COLUMNS": "200"})
    return done.exit_code, done.output


def test_a_right_flow_is_told_in_a_few_lines(tmp_path: Path) -> None:
    code, output = command("check", shop_in(tmp_path))
    assert code == 0
    assert output.splitlines() == [
        "flow 'shop' is right: 9 nodes, 1 job",
        "  shop.parity: reads orders; writes parity, shares, totals; 2 regroupings",
    ]


def test_all_that_is_wrong_is_told(tmp_path: Path) -> None:
    text = 'from millstream.flow import Flow\nflow = Flow("f")\nflow.source("a", value=str).sink("no good")\n'
    code, output = command("check", written(tmp_path, text))
    assert code == 2
    assert "flow.py:3" in output
    assert "Traceback" not in output
    assert "Traceback" in command("check", tmp_path / "flow.py", "--verbose")[1]


def test_with_a_log_missing_streams_are_told(tmp_path: Path) -> None:
    file, url = shop_in(tmp_path), f"file:{tmp_path}/log"
    assert command("check", file, url)[0] == 2
    with millstream.open(url) as log:
        log.create("orders")
    assert command("check", file, url)[0] == 0


@pytest.mark.parametrize(
    ("form", "begins"), [("text", "flow shop"), ("mermaid", "flowchart"), ("dot", "digraph")]
)
def test_a_flow_is_drawn(tmp_path: Path, form: str, begins: str) -> None:
    code, output = command("graph", shop_in(tmp_path), "--form", form)
    assert code == 0
    assert begins in output.splitlines()[0] or begins in output


def test_an_unknown_form_is_a_usage_error(tmp_path: Path) -> None:
    assert command("graph", shop_in(tmp_path), "--form", "svg")[0] == 2
