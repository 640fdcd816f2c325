"""A manifest that is damaged, gone or of another version, and the journal in front of it."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import apsw
import pytest

from millstream.errors import Damaged, HistoryChanged, ManifestLost, StoreFailed, WrongVersion
from millstream.log import Append, Commit, Offset
from millstream.log.file.journal import HEADER_BYTES, Journal
from millstream.log.file.manifest import Manifest, sealed
from millstream.log.file.recovery import next_history
from millstream.log.state import FactRow, State, StreamRow
from millstream.log.stream import Settings
from tests.repair.damage import cut, flip, journals, manifest, overwrite, segments
from tests.repair.small import (
    FIRST,
    LARGE,
    SECOND,
    SMALL,
    THIRD,
    assert_mended,
    lost,
    make_log,
    open_log,
    place_of_row,
    repair,
    values,
)
from tests.repair.trial import files_of

ALL = FIRST + SECOND + THIRD


# -- the manifest


def test_a_row_of_an_extent_is_made_again_from_its_segment(tmp_path: Path) -> None:
    make_log(tmp_path)
    flip(manifest(tmp_path), place_of_row(tmp_path, "extents", "shard = 0 AND first = 3") + 9)
    with open_log(tmp_path) as log:
        with pytest.raises(Damaged, match="shard 0, first seq 3 does not match its checksum"):
            log.read("a", 0, 3)
        findings = log.verify()
        assert any("first seq 3" in found.what for found in findings)
        assert [(found.first, found.next) for found in findings if found.lost] == [(3, 43)]
    findings = repair(tmp_path)
    assert lost(findings) == []
    assert "first seq 3 does not match" in findings[0].what
    with open_log(tmp_path) as log:
        assert log.offsets("group") == {("a", 0): 2}
        assert log.fence("sink") is not None
    assert_mended(tmp_path, ALL)


def test_a_row_of_the_state_that_is_damaged_costs_no_other(tmp_path: Path) -> None:
    make_log(tmp_path)
    flip(manifest(tmp_path), place_of_row(tmp_path, "state", "kind = 'offsets'") + 2)
    with pytest.raises(Damaged, match=r"the row 'offsets .* does not match its checksum"):
        open_log(tmp_path)
    findings = repair(tmp_path)
    assert lost(findings) == []
    assert any("1 of" in found.what for found in findings)
    with open_log(tmp_path) as log:
        assert log.offsets("group") == {}
        fence = log.fence("sink")
        assert fence is not None
        assert fence.number == 7
    assert_mended(tmp_path, ALL)


def test_the_row_of_a_stream_is_made_again_from_its_segments(tmp_path: Path) -> None:
    make_log(tmp_path)
    flip(manifest(tmp_path), place_of_row(tmp_path, "state", "kind = 'streams'") + 2)
    assert lost(repair(tmp_path)) == []
    assert_mended(tmp_path, ALL)


def test_a_manifest_that_is_gone_is_rebuilt(tmp_path: Path) -> None:
    make_log(tmp_path)
    manifest(tmp_path).unlink()
    with pytest.raises(ManifestLost, match=r"millstream\.repair\("):
        open_log(tmp_path)
    findings = repair(tmp_path)
    assert lost(findings) == []
    assert any("fences, offsets, pins, leases and marks" in found.what for found in findings)
    with open_log(tmp_path) as log:
        assert log.settings("a").shards == 2
        assert log.offsets("group") == {}
        assert log.fence("sink") is None
        assert values(log, 1) == FIRST
    assert_mended(tmp_path, ALL)


def test_without_manifest_and_journal_the_segments_are_brought_back(tmp_path: Path) -> None:
    make_log(tmp_path)
    manifest(tmp_path).unlink()
    journals(tmp_path)[0].unlink()
    findings = repair(tmp_path)
    assert any("journal" in found.what and "is gone" in found.what for found in findings)
    with open_log(tmp_path) as log, pytest.raises(HistoryChanged) as told:
        log.read("a", 0, 45, history=0)  # what the journal held
    assert told.value.end == 43
    assert_mended(tmp_path, FIRST + SECOND, end=43)


def test_only_whole_commits_come_back_and_the_others_are_named(tmp_path: Path) -> None:
    """The journal and the manifest are gone, and so is a segment with a part of the last commit."""
    make_log(tmp_path)
    with open_log(tmp_path) as log:
        log.create("b")
        log.commit(Commit((Append("a", 0, LARGE), Append("b", 0, LARGE))))
    manifest(tmp_path).unlink()
    journals(tmp_path)[0].unlink()
    segments(tmp_path, "b")[0].unlink()
    findings = repair(tmp_path)
    assert ("a", 0, 45, 85) in lost(findings)
    with open_log(tmp_path) as log:
        assert values(log) == FIRST + SECOND
        assert log.verify() == []


def test_seqs_that_no_segment_has_are_named(tmp_path: Path) -> None:
    make_log(tmp_path)
    manifest(tmp_path).unlink()
    max(segments(tmp_path), key=lambda path: path.stat().st_size).unlink()
    findings = repair(tmp_path)
    assert [(shard, next_) for _, shard, _, next_ in lost(findings) if shard == 0] == [(0, 43)]
    with open_log(tmp_path) as log:
        assert values(log)[-2:] == THIRD
        assert log.ends("a")[0][1] == 45


def test_nothing_is_brought_back_that_another_record_has_replaced(tmp_path: Path) -> None:
    make_log(tmp_path)
    with open_log(tmp_path) as log:
        log.alter("a", cleanup="compact")
        with log._folded():
            pass
        log.merge()
        log.compact()
        left = values(log)
    manifest(tmp_path).unlink()
    repair(tmp_path)
    with open_log(tmp_path) as log:
        assert values(log) == left


def test_another_version_is_refused_and_nothing_is_changed(tmp_path: Path) -> None:
    make_log(tmp_path)
    db = apsw.Connection(str(manifest(tmp_path)))
    db.execute("PRAGMA user_version = 9")
    db.execute("UPDATE facts SET data = ? WHERE name = 'version'", (sealed("version", b"\x09"),))
    db.close()
    before = files_of(tmp_path)
    for call in (open_log, repair):
        with pytest.raises(WrongVersion, match="version 9"):
            call(tmp_path)
    assert files_of(tmp_path) == before
    assert not (tmp_path / "damaged").exists()


def test_a_version_that_is_damaged_is_mended(tmp_path: Path) -> None:
    make_log(tmp_path)
    flip(manifest(tmp_path), 63)  # SQLite's field for it, which has no checksum
    with pytest.raises(WrongVersion):
        open_log(tmp_path)
    (found,) = repair(tmp_path)
    assert "says that it is of version 0" in found.what
    assert_mended(tmp_path, ALL)


def test_the_rest_of_a_manifest_is_read_around_a_damaged_page(tmp_path: Path) -> None:
    make_log(tmp_path)
    page = place_of_row(tmp_path, "extents", "shard = 0 AND first = 3") // 4096 * 4096
    overwrite(manifest(tmp_path), page, bytes(4096))
    findings = repair(tmp_path)
    assert lost(findings) == []
    with open_log(tmp_path) as log:
        assert log.offsets("group") == {("a", 0): 2}
    assert_mended(tmp_path, ALL)


def test_offsets_pins_and_staged_records_of_a_stream_that_is_lost_go_with_it(tmp_path: Path) -> None:
    make_log(tmp_path)
    with open_log(tmp_path) as log:
        log.create("empty")
        log.commit(Commit(offsets=(Offset("group", "empty", 0, None, 0),)))
        log.pin("job", {("empty", 0): 0, ("a", 0): 0})
        with log._folded():
            pass
    name = "cast(key AS TEXT) LIKE '%empty' AND kind = 'streams'"
    flip(manifest(tmp_path), place_of_row(tmp_path, "state", name) + 2)
    assert lost(repair(tmp_path)) == []
    with open_log(tmp_path) as log:
        assert log.streams() == ["a"]
        assert log.offsets("group") == {("a", 0): 2}
        assert log.describe("a").pins == {"job": {0: 0}}
        assert values(log) == ALL


def test_a_commit_that_was_stopped_does_not_come_back_where_others_were_written(tmp_path: Path) -> None:
    make_log(tmp_path)
    with open_log(tmp_path) as log:
        with (
            mock.patch.object(Journal, "append", side_effect=StoreFailed("stopped")),
            pytest.raises(StoreFailed),
        ):
            log.commit(Commit((Append("a", 0, LARGE), Append("a", 1, LARGE))))
        log.append("a", b"the next", shard=0)
        with log._folded():
            pass
    manifest(tmp_path).unlink()
    journals(tmp_path)[0].unlink()
    repair(tmp_path)
    with open_log(tmp_path) as log:
        assert values(log) == [*ALL, b"the next"]
        assert values(log, 1) == FIRST


def test_a_commit_that_was_stopped_is_not_told_as_lost_where_the_journal_has_others(tmp_path: Path) -> None:
    """The one that took its first seqs is damaged; that it took them, the journal still says."""
    make_log(tmp_path)
    with open_log(tmp_path) as log:
        log.create("b")
        with (
            mock.patch.object(Journal, "append", side_effect=StoreFailed("stopped")),
            pytest.raises(StoreFailed),
        ):
            log.commit(Commit((Append("a", 0, LARGE), Append("b", 0, LARGE))))
        log.append("a", b"the next", shard=0)
        with log._folded():
            pass
        log.append("a", b"the last", shard=0)
    (segment,) = [path for path in segments(tmp_path, "a") if b"the next" in path.read_bytes()]
    flip(segment, segment.read_bytes().index(b"the next"))
    segments(tmp_path, "b")[0].unlink()
    manifest(tmp_path).unlink()
    assert lost(repair(tmp_path)) == [("a", 0, 43, 46)]
    assert_mended(tmp_path, [*FIRST, *SECOND, b"the last"], end=47)


def test_bytes_that_a_flipped_bit_makes_text_are_damage(tmp_path: Path) -> None:
    make_log(tmp_path)
    db = apsw.Connection(str(manifest(tmp_path)))
    db.execute("UPDATE facts SET data = cast(x'0091' AS TEXT) WHERE name GLOB 'end *'")
    db.close()
    findings = repair(tmp_path)
    assert lost(findings) == []
    assert any("the row 'end 0 0' cannot be read" in found.what for found in findings)
    assert_mended(tmp_path, ALL)


@pytest.mark.timeout(60)
def test_a_row_that_sqlite_refuses_does_not_keep_the_others_from_being_read(tmp_path: Path) -> None:
    """It is shorter than its head says; each look at it set the query over all rows back to it."""
    make_log(tmp_path)
    length = manifest(tmp_path).read_bytes().index(b"end 0 0") - 4
    flip(manifest(tmp_path), length, 2)
    with open_log(tmp_path) as log:
        assert any("malformed" in found.what for found in log.verify())
    assert lost(repair(tmp_path)) == []
    assert_mended(tmp_path, ALL)


def test_where_the_end_of_a_shard_is_known_the_rest_of_a_commit_is_not_asked_for(tmp_path: Path) -> None:
    """The other part of the commit went with its stream; nothing but this batch can have had the seqs."""
    make_log(tmp_path)
    with open_log(tmp_path) as log:
        log.create("b")
        log.commit(Commit((Append("a", 0, LARGE), Append("b", 0, LARGE))))
        with log._folded():
            pass
        log.delete("b")
        with log._folded():
            pass
    flip(manifest(tmp_path), place_of_row(tmp_path, "extents", "shard = 0 AND first = 45") + 9)
    flip(manifest(tmp_path), place_of_row(tmp_path, "state", "kind = 'offsets'") + 2)
    assert lost(repair(tmp_path)) == []
    assert_mended(tmp_path, ALL + SECOND, end=85)


def test_a_stream_that_is_made_again_has_the_shards_that_other_rows_speak_of(tmp_path: Path) -> None:
    """Of the third shard nothing is known but an offset, and the stream's segments are of before it was."""
    make_log(tmp_path)
    with open_log(tmp_path) as log:
        log.alter("a", shards=3)
        log.create("b", shards=3)
        log.commit(Commit(offsets=(Offset("group", "a", 2, None, 0),)))
        with log._folded():
            pass
        log.commit(Commit((Append("b", 0, SMALL),), offsets=(Offset("group", "b", 2, None, 0),)))
    for name in ("a", "b"):
        where = f"kind = 'streams' AND cast(key AS TEXT) LIKE '%{name}'"
        flip(manifest(tmp_path), place_of_row(tmp_path, "state", where) + 2)
    assert lost(repair(tmp_path)) == []
    with open_log(tmp_path) as log:
        assert (log.settings("a").shards, log.settings("b").shards) == (3, 3)
        assert log.offsets("group") == {("a", 0): 2, ("a", 2): 0, ("b", 2): 0}
        assert log.read("b", 0, 0).num_records == len(SMALL)
    assert_mended(tmp_path, ALL)


# -- the journal


def frames(root: Path) -> list[int]:
    """Where the frames of the journal begin, and where the last one ends."""
    data = journals(root)[0].read_bytes()
    found = [HEADER_BYTES]
    while found[-1] < len(data):
        found.append(found[-1] + 12 + int.from_bytes(data[found[-1] :][:4], "little"))
    return found


@pytest.mark.parametrize("inside", [1, 20], ids=["head", "payload"])
def test_a_damaged_frame_costs_its_own_commits_only(inside: int, tmp_path: Path) -> None:
    make_log(tmp_path)
    first, *_ = frames(tmp_path)
    flip(journals(tmp_path)[0], first + inside)
    with pytest.raises(Damaged, match=rf"journal-\d+, position {first}: .* does not match its checksum"):
        open_log(tmp_path)
    findings = repair(tmp_path)
    assert lost(findings) == [("a", 0, 43, 44)]
    assert findings[0].position == first
    with open_log(tmp_path) as log:
        assert log.offsets("group") == {("a", 0): 2}
    assert_mended(tmp_path, FIRST + SECOND + THIRD[1:])


def test_the_last_frame_can_only_be_told_by_its_bytes(tmp_path: Path) -> None:
    make_log(tmp_path)
    start, end = frames(tmp_path)[-2:]
    flip(journals(tmp_path)[0], start + 20)
    (found,) = repair(tmp_path)
    assert f"position {start}" in found.what
    assert f"{end - start} bytes are lost" in found.what
    with open_log(tmp_path) as log, pytest.raises(HistoryChanged):
        log.read("a", 0, 45, history=0)
    assert_mended(tmp_path, FIRST + SECOND + THIRD[:1], end=44)


def test_a_journal_that_is_cut_within_what_was_synced(tmp_path: Path) -> None:
    make_log(tmp_path)
    cut(journals(tmp_path)[0], frames(tmp_path)[1])
    with pytest.raises(Damaged, match="acknowledged as synced"):
        open_log(tmp_path)
    (found,) = repair(tmp_path)
    assert "it is cut short" in found.what
    assert_mended(tmp_path, FIRST + SECOND + THIRD[:1], end=44)


def test_a_journal_that_is_gone(tmp_path: Path) -> None:
    make_log(tmp_path)
    journals(tmp_path)[0].unlink()
    with pytest.raises(Damaged, match=r"journal-\d+ is gone"):
        open_log(tmp_path)
    (found,) = repair(tmp_path)
    assert "every commit since the last fold" in found.what
    with open_log(tmp_path) as log:
        assert log.offsets("group") == {("a", 0): 2}
    assert_mended(tmp_path, FIRST + SECOND, end=43)


def test_the_header_of_a_journal_is_not_needed(tmp_path: Path) -> None:
    make_log(tmp_path)
    flip(journals(tmp_path)[0], 10)
    with pytest.raises(Damaged, match="its header is damaged"):
        open_log(tmp_path)
    (found,) = repair(tmp_path)
    assert "its frames can be read" in found.what
    assert_mended(tmp_path, ALL)


def test_the_canary_a_manifest_that_does_not_say_what_is_before_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the links between rows, one that vanishes is not missed."""
    make_log(tmp_path)
    db = apsw.Connection(str(manifest(tmp_path)))
    db.execute("DELETE FROM extents WHERE shard = 0 AND first = 3")
    db.close()
    with open_log(tmp_path) as log:
        with pytest.raises(Damaged, match="seqs of 3 to 42"):
            log.read("a", 0, 3)
        monkeypatch.setattr(Manifest, "_missing", lambda *_: None)
        assert log.read("a", 0, 3).num_records < 42
    monkeypatch.undo()
    assert lost(repair(tmp_path)) == []
    assert_mended(tmp_path, ALL)


def test_a_trimmed_log_whose_manifest_is_gone_keeps_its_ends(tmp_path: Path) -> None:
    make_log(tmp_path)
    with open_log(tmp_path) as log:
        log.trim("a", 0, 44, force=True)
        log.commit(Commit((Append("a", 0, SMALL),)), "synced")
    manifest(tmp_path).unlink()
    repair(tmp_path)
    with open_log(tmp_path) as log:
        assert log.ends("a")[0][1] == 48
        assert values(log)[-4:] == [THIRD[1], *FIRST]


def test_a_number_that_a_stream_has_is_not_given_again_where_an_older_entry_says_it_is_free() -> None:
    state = State()
    state.load(*state.streams.change("made later", StreamRow(4, Settings(), 0)))
    state.load(*state.facts.change("log", FactRow(next_stream=1)))
    for row in next_history(state, "boot"):
        state.load(*row)
    assert state.fact.next_stream == 5
