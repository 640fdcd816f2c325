"""Logs that somebody changed who can compute checksums: repair says what is wrong, or leaves it out."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random, SystemRandom
from shutil import rmtree

import pytest

from millstream.errors import MillstreamError
from millstream.log.file import rebuild as rebuilding
from millstream.log.file import repair as repairing
from millstream.log.file import replay as replaying
from millstream.log.file.log import FileLog
from millstream.log.state import ShardRow
from tests.crash.recorder import lay_out
from tests.fuzz.forge import forged
from tests.fuzz.template import Template, make, open_at
from tests.repair.small import FIRST, SECOND, THIRD, assert_mended, lost, make_log, open_log, repair, values

CASES = 150


def repaired(template: Template, folder: Path, seed: int) -> bool:
    """Whether a forged log can be repaired, and read then; what is not ours to raise comes out."""
    image, told = forged(template, str(folder), Random(seed))
    root = folder / "log"
    lay_out(image, str(root))
    try:
        FileLog.repair(str(root))
        with open_at(str(root)) as log:
            log.verify()
    except MillstreamError:
        return False
    except BaseException as error:
        error.add_note(f"seed {seed}: {told}")
        raise
    finally:
        rmtree(root)
    return True


def test_whatever_was_forged_repair_ends_with_a_log_or_an_error_of_ours(memory_path: Path) -> None:
    template = make(str(memory_path))
    first = SystemRandom().randrange(1 << 32)
    print(f"seeds from {first}")
    good = sum(repaired(template, memory_path, first + number) for number in range(CASES))
    assert good > CASES * 0.9


def test_a_row_of_a_shard_that_makes_no_sense_costs_no_records(tmp_path: Path) -> None:
    """A fold takes a whole stream away when it takes the row of a shard away; repair does not."""
    make_log(tmp_path)
    with open_log(tmp_path) as log:
        log.append("a", b"one more", shard=1)
        for shard in (1, 2):  # it has no third
            log._books.change(log._books.state.shards.change((0, shard), ShardRow(5, 2)))
    findings = repair(tmp_path)
    assert lost(findings) == []
    assert any("shard 1 goes from 5 to 2" in found.what for found in findings)
    assert any("'a' has no shard 2" in found.what for found in findings)
    with open_log(tmp_path) as log:
        assert values(log, 1) == [*FIRST, b"one more"]
    assert_mended(tmp_path, FIRST + SECOND + THIRD)


def test_without_a_look_at_what_is_read_some_end_otherwise(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repairing, "unsound_rows", lambda _: [])
    monkeypatch.setattr(rebuilding, "_strange", lambda _: [])
    monkeypatch.setattr(replaying, "judge_part", lambda *_: None)
    monkeypatch.setattr(replaying, "batch_of", lambda *_: None)
    template = make(str(memory_path))
    good = 0
    for seed in range(CASES):
        with suppress(Exception):
            good += repaired(template, memory_path, seed)
    assert good < CASES - 3
