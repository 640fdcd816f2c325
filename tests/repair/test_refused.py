"""When repair has nothing to do, or must not do anything; and what it reports meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

import millstream
from millstream.errors import Conflict, Damaged, ReadOnly, Unsupported, WrongType
from millstream.log import Step
from millstream.log.file import repair as repairing
from millstream.log.file.aside import Aside
from millstream.log.file.disk import Disk
from millstream.log.file.lock import hold
from tests.repair.damage import flip, manifest, segments
from tests.repair.small import assert_mended, make_log, open_log, repair, values
from tests.repair.test_manifest import ALL
from tests.repair.trial import files_of


def test_nothing_is_found_in_a_healthy_log_and_nothing_is_changed(tmp_path: Path) -> None:
    make_log(tmp_path)
    before = files_of(tmp_path)
    assert repair(tmp_path) == []
    assert files_of(tmp_path) == before
    assert not (tmp_path / "damaged").exists()
    with open_log(tmp_path) as log:
        assert log._books.state.fact.history == 0
        assert values(log) == ALL


def test_a_log_that_is_open_is_not_repaired_and_one_under_repair_is_not_opened(tmp_path: Path) -> None:
    make_log(tmp_path)
    flip(segments(tmp_path)[0], -900)
    with open_log(tmp_path), pytest.raises(Conflict, match="is open, here or in another process: close it"):
        repair(tmp_path)
    disk = Disk(str(tmp_path))
    held = hold(disk, alone=True)
    with pytest.raises(Conflict, match="is being repaired: open it when that is done"):
        open_log(tmp_path)
    disk.close(held)
    assert repair(tmp_path) != []


def test_a_directory_without_a_log_is_told_from_one_with_a_damaged_log(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "not there"):
        with pytest.raises(WrongType, match="holds no log: name the directory of one"):
            repair(path)
    assert not (tmp_path / "not there").exists()
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_written_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_log(tmp_path)
    manifest(tmp_path).unlink()
    before = files_of(tmp_path)
    monkeypatch.setattr(Disk, "writable", lambda _: False)
    with pytest.raises(ReadOnly, match="check the directory's owner and permissions"):
        repair(tmp_path)
    assert files_of(tmp_path) == before


def test_a_store_that_keeps_nothing_has_nothing_to_repair() -> None:
    with pytest.raises(Unsupported):
        millstream.repair("memory:")


def test_progress_is_reported(tmp_path: Path) -> None:
    make_log(tmp_path)
    manifest(tmp_path).unlink()
    steps: list[Step] = []
    millstream.repair(f"file:{tmp_path}", report=steps.append)
    assert {step.step for step in steps} == {"repair: segments", "repair: batches"}
    assert all(0 <= step.done <= step.total for step in steps)


CANARIES: dict[str, tuple[object, str, object]] = {
    "the history is not raised": (repairing, "next_history", lambda *_: []),
    "what is damaged stays named": (repairing._Repair, "_bad_extents", lambda *_: []),
    "nothing is written down": (Aside, "findings", lambda *_: None),
    "nothing is set aside": (Aside, "bytes_of", lambda *_: None),
}


@pytest.mark.parametrize("kind", [None, *CANARIES])
def test_a_repair_without_one_of_its_steps_is_noticed(
    kind: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step is taken away in turn; what the other tests look at is then wrong."""
    if kind is not None:
        monkeypatch.setattr(*CANARIES[kind])
    make_log(tmp_path)
    flip(max(segments(tmp_path), key=lambda path: path.stat().st_size), -5_000)
    repair(tmp_path)
    if kind is None:
        assert_all_of_it(tmp_path)
        return
    with pytest.raises((AssertionError, Damaged, FileNotFoundError)):
        assert_all_of_it(tmp_path)


def assert_all_of_it(root: Path) -> None:
    kept = [path.name.partition("-")[2] for path in (root / "damaged").iterdir()]
    assert "findings.json" in kept
    assert any(name.startswith("a.") for name in kept)
    assert_mended(root, [*ALL[:3], *ALL[-2:]])
