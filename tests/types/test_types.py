"""mypy lets right flows pass, with the types that they have, and tells what is wrong with others.

`right.txt` and `wrong.txt` are Python; they are no modules, because nothing but mypy should read them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent
WANTED = re.compile(r"# (error|reveal): (.*)$")
SAID = re.compile(r"^(?:.*[/\\])?(\w+\.py):(\d+): (error|note): (.*)$")
REVEALED = re.compile(r'Revealed type is "(.*)"')
MODULE = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z])")


@cache
def said_by_mypy() -> dict[str, dict[int, list[str]]]:
    """For each file and line what mypy says: errors, and types that were asked for."""
    command = [sys.executable, "-m", "mypy", "--strict", "--hide-error-codes", "--no-error-summary"]
    with tempfile.TemporaryDirectory() as folder:
        for name in ("right", "wrong"):
            shutil.copyfile(FOLDER / f"{name}.txt", Path(folder) / f"{name}.py")
        done = subprocess.run(
            [*command, f"{folder}/right.py", f"{folder}/wrong.py"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=110,
        )
    assert not done.stderr, done.stderr
    found: dict[str, dict[int, list[str]]] = {"right.py": {}, "wrong.py": {}}
    for line in done.stdout.splitlines():
        said = SAID.match(line)
        assert said is not None, line
        file, number, kind, text = said.groups()
        revealed = REVEALED.match(text)
        if kind == "error":
            found.setdefault(file, {}).setdefault(int(number), []).append(f"error: {text}")
        elif revealed:
            kinds = MODULE.sub("", revealed[1]).replace("None | ", "")
            found.setdefault(file, {}).setdefault(int(number), []).append(f"reveal: {kinds}")
    return found


def wanted_in(file: str) -> dict[int, tuple[str, str]]:
    """For each line with a comment what mypy should say of it."""
    lines = (FOLDER / file).with_suffix(".txt").read_text().splitlines()
    found = ((number, WANTED.search(line)) for number, line in enumerate(lines, 1))
    return {number: (wanted[1], wanted[2]) for number, wanted in found if wanted}


def test_no_other_file_is_told_anything() -> None:
    assert said_by_mypy().keys() == {"right.py", "wrong.py"}


@pytest.mark.parametrize("file", ["right.py", "wrong.py"])
def test_mypy_says_what_the_comments_say_and_nothing_else(file: str) -> None:
    wanted, said = wanted_in(file), said_by_mypy()[file]
    trouble = [
        f"{file}:{number}: not expected: {texts}" for number, texts in said.items() if number not in wanted
    ]
    for number, (kind, text) in wanted.items():
        texts = said.get(number, ["nothing"])
        if kind == "reveal" and texts != [f"reveal: {text}"]:
            trouble.append(f"{file}:{number}: expected the type {text}, found {texts}")
        if kind == "error" and not (texts[0].startswith("error") and any(text in one for one in texts)):
            trouble.append(f"{file}:{number}: expected the error {text}, found {texts}")
    assert not trouble, "\n" + "\n".join(trouble)
