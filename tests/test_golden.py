"""Golden files: what is not as it is made is found, and written anew when that is asked for."""

from pathlib import Path

import pytest

from tests import golden
from tests.golden import UPDATE, assert_golden, with_section

DOCUMENT = "# Title\n\n<!-- list: begin -->\n\nold\n\n<!-- list: end -->\n\nlast\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(golden, "ROOT", tmp_path)
    monkeypatch.delenv(UPDATE, raising=False)
    return tmp_path


def test_a_file_that_is_not_as_it_is_made_is_found(root: Path) -> None:
    with pytest.raises(AssertionError, match=rf"^a\.txt is not what is made now: .* {UPDATE}=1"):
        assert_golden("a.txt", "made\n")
    (root / "a.txt").write_text("made\n")
    assert_golden("a.txt", "made\n")
    with pytest.raises(AssertionError):
        assert_golden("a.txt", "made otherwise\n")


def test_a_file_is_written_anew_when_that_is_asked_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "a.md").write_text(DOCUMENT)
    monkeypatch.setenv(UPDATE, "1")
    assert_golden("folder/b.txt", "made\n")
    assert_golden("a.md", "new", section="list")
    monkeypatch.delenv(UPDATE)
    assert_golden("folder/b.txt", "made\n")
    assert_golden("a.md", "new", section="list")
    assert (root / "a.md").read_text() == DOCUMENT.replace("old", "new")


def test_only_the_section_is_replaced() -> None:
    assert with_section(DOCUMENT, "list", "old") == DOCUMENT
    assert with_section(DOCUMENT, "list", "\n1\n2\n") == DOCUMENT.replace("old", "1\n2")
    for broken in ("", DOCUMENT * 2, DOCUMENT.replace("end", "no")):
        with pytest.raises(AssertionError, match="expected one <!-- list: begin -->"):
            with_section(broken, "list", "new")
