"""Every Python block of the documents runs, and prints what it says it prints.

The blocks of one document share their names and an empty directory. What a block prints is compared,
line by line, with its comments `# ->`; a block without such a comment may print what it likes. A document
that starts Spark has a process of its own, where Spark ends with it.
"""

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"# -> ?(.*)$", re.MULTILINE)
SPARK = re.compile(r"\.run\(\"file:")
APART = "import sys; from tests.test_readme import run_document; run_document(*sys.argv[1:])"


class Block(NamedTuple):
    """A document's Python block, and the line it starts at."""

    line: int
    code: str

    @property
    def shown(self) -> list[str]:
        """The lines that it says it prints."""
        return [line.rstrip() for line in SHOWN.findall(self.code)]


def blocks_of(text: str) -> list[Block]:
    return [Block(text.count("\n", 0, found.start(1)) + 1, found[1]) for found in BLOCK.finditer(text)]


def run_document(text: str, name: str) -> None:
    """Run a document's blocks, and compare what they print with what they say."""
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks_of(text):
        printed = io.StringIO()
        code = compile("\n" * (block.line - 1) + block.code, name, "exec")
        with contextlib.redirect_stdout(printed):
            exec(code, names)  # noqa: S102 - the document is ours, and running it is the test
        if block.shown:
            lines = [line.rstrip() for line in printed.getvalue().splitlines()]
            assert lines == block.shown, f"{name}, line {block.line}: the block prints something else"


def documents() -> list[str]:
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return sorted(str(path.relative_to(ROOT)) for path in found if blocks_of(path.read_text()))


@pytest.mark.timeout(300)  # one of them starts Spark
@pytest.mark.parametrize("name", documents())
def test_a_document_runs_as_it_is_printed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / name).read_text()
    if any(SPARK.search(block.code) for block in blocks_of(text)):
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        command = [sys.executable, "-c", APART, text, name]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    else:
        monkeypatch.chdir(tmp_path)
        run_document(text, name)


def test_the_readme_has_blocks_that_run() -> None:
    assert "README.md" in documents()


def test_a_later_block_sees_the_names_of_an_earlier_one() -> None:
    run_document("```python\na = 1\n```\ntext\n```python\nprint(a + 1)  # -> 2\n```\n", "sample.md")


def test_a_block_that_prints_something_else_is_caught() -> None:
    for printed in ("2", "1\n1", ""):
        code = f"print({printed!r}, end='')  # -> 1"
        with pytest.raises(AssertionError, match="line 2"):
            run_document(f"```python\n{code}\n```\n", "sample.md")


def test_a_block_that_fails_names_the_line_of_the_document() -> None:
    with pytest.raises(ZeroDivisionError) as failure:
        run_document("text\n\n```python\n1 / 0\n```\n", "sample.md")
    assert failure.traceback[-1].lineno == 3  # counted from 0
