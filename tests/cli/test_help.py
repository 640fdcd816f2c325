"""What the commands say of themselves, and how quickly."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from millstream.cli.app import app
from tests.golden import assert_golden


@pytest.mark.parametrize("command", ["", "run", "check", "graph"])
def test_help_is_as_it_was_looked_at(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    done = CliRunner().invoke(app, [*command.split(), "--help"], prog_name="millstream")
    assert done.exit_code == 0
    text = "".join(f"{line.rstrip()}\n" for line in done.output.splitlines())
    assert_golden(f"tests/cli/golden/{command or 'millstream'}.txt", text)


def test_help_does_not_wait_for_spark() -> None:
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from millstream.cli.app import app\n"
        "assert CliRunner().invoke(app, ['run', '--help']).exit_code == 0\n"
        "print(sorted({'pyspark', 'pandas', 'millstream.flow'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
