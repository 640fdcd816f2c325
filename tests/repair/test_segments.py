"""Segments that are damaged, cut or gone: what is read, what verify says, and what repair leaves."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from millstream.errors import Damaged
from tests.repair.damage import cut, flip, manifest, segments
from tests.repair.small import FIRST, SECOND, THIRD, assert_mended, lost, make_log, open_log, repair, values


def large(root: Path) -> Path:
    """The segment in which the large commit lies."""
    return max(segments(root), key=lambda path: path.stat().st_size)


DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "a bit flipped": (lambda path: flip(path, -5_000), "does not match its checksum"),
    "cut short": (lambda path: cut(path, -5_000), "is cut short"),
    "gone": (Path.unlink, "is gone"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_named_and_repair_keeps_everything_else(kind: str, tmp_path: Path) -> None:
    damage, words = DAMAGE[kind]
    make_log(tmp_path)
    segment = large(tmp_path)
    name = f"a/{segment.stem}"
    damage(segment)
    with open_log(tmp_path) as log:
        with pytest.raises(Damaged, match=segment.stem) as caught:
            log.read("a", 0, 3)
        assert "millstream.repair(" in str(caught.value)
        (found,) = [found for found in log.verify() if found.first == 3]
        assert (found.stream, found.shard, found.segment, found.next) == ("a", 0, name, 43)
        assert words in found.what
        assert log.read("a", 0, 43).num_records == 2
    findings = repair(tmp_path)
    assert ("a", 0, 3, 43) in lost(findings)
    assert {found.segment for found in findings} == {name}
    assert all(found.position is not None for found in findings)
    with open_log(tmp_path) as log:
        assert log.offsets("group") == {("a", 0): 2}
        fence = log.fence("sink")
        assert fence is not None
        assert (fence.number, fence.position) == (7, b"here")
        first = values(log)[:3] == FIRST
        assert len(values(log, 1)) == (3 if first else 0)
    gone = {found.first for found in findings if found.shard == 0}
    assert_mended(tmp_path, ([] if 0 in gone else FIRST) + THIRD)


def test_damaged_bytes_and_what_was_found_are_kept(tmp_path: Path) -> None:
    make_log(tmp_path)
    segment = large(tmp_path)
    flip(segment, -5_000)
    damaged = segment.read_bytes()
    findings = repair(tmp_path)
    kept = {path.name: path.read_bytes() for path in (tmp_path / "damaged").iterdir()}
    (position,) = [found.position for found in findings]
    assert position is not None
    assert damaged[position : position + 48_000] in kept[f"1-a.{segment.stem}.{position}"]
    written = json.loads(kept["1-findings.json"])
    assert [found["first"] for found in written] == [3]
    assert any(name.startswith("1-journal-") for name in kept)


def test_two_damaged_segments_are_both_named(tmp_path: Path) -> None:
    make_log(tmp_path)
    with open_log(tmp_path) as log:
        log.create("b")
        log.append("b", b"x" * 50_000)
    flip(large(tmp_path), -5_000)
    segments(tmp_path, "b")[0].unlink()
    assert lost(repair(tmp_path)) == [("a", 0, 3, 43), ("b", 0, 0, 1)]
    assert_mended(tmp_path, FIRST + THIRD)


def test_the_head_of_a_segment_does_not_matter_while_there_is_a_manifest(tmp_path: Path) -> None:
    make_log(tmp_path)
    for segment in segments(tmp_path):
        flip(segment, 20)
    assert repair(tmp_path) == []
    with open_log(tmp_path) as log:
        assert values(log) == FIRST + SECOND + THIRD


def test_staged_records_that_are_damaged_are_named_and_forgotten(tmp_path: Path) -> None:
    make_log(tmp_path)
    before = set(segments(tmp_path))
    with open_log(tmp_path) as log:
        batch = log.read("a", 0, 3).batches[0].drop_columns(["seq"])
        staged = log.stage("a", 1, [batch])
    (newest,) = set(segments(tmp_path)) - before
    flip(newest, -5_000)
    with open_log(tmp_path) as log:
        assert any(staged.token in found.what for found in log.verify())
    findings = repair(tmp_path)
    assert [found.segment for found in findings if staged.token in found.what] == [f"a/{newest.stem}"]
    with open_log(tmp_path) as log:
        assert not log._books.state.staged
        assert log.verify() == []


def test_a_link_in_the_place_of_a_segment_is_not_followed(tmp_path: Path) -> None:
    make_log(tmp_path / "log")
    segment = large(tmp_path / "log")
    elsewhere = tmp_path / "elsewhere"
    os.replace(segment, elsewhere)
    segment.symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    manifest(tmp_path / "log").unlink()
    repair(tmp_path / "log")
    assert elsewhere.read_bytes() == before
    assert segment.is_symlink()
