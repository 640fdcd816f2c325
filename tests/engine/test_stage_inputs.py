"""Inputs: files that grow, lines without an end, ticks, generated values, and shards with gaps."""

from __future__ import annotations

from pathlib import Path

import pytest

import millstream
from millstream.engine.stage.inputs import Input, input_of
from millstream.engine.stage.plan import Plan, Range
from millstream.engine.stage.rest import positions_of
from millstream.errors import StoreFailed
from millstream.flow import Flow
from millstream.flow.node import Source
from millstream.log import Log
from millstream.testing import ManualClock

PLAN = Plan(run=1, epoch=0, clock=1_000, flow="")


def source_of(flow: Flow) -> Source:
    """The only source of a flow."""
    (node,) = flow.build().inputs.values()
    return node


def file_input(pattern: str, log: Log, *, whole: bool = False) -> Input:
    """The lines of files."""
    flow = Flow("files")
    flow.from_file(pattern, value=str).sink("b")
    return input_of(source_of(flow), log, whole=whole)


def all_of(given: Input, positions: dict[int, Range], clock: int = 0, most: int = 100) -> list[bytes]:
    """All that there is to read after some positions, which go on."""
    found = []
    known = {(given.name, shard): one for shard, one in positions.items()}
    plan = Plan(run=1, epoch=0, clock=0, flow="", positions=tuple(known.values()))
    for (_, shard), position in positions_of(plan, {given.name: given}, clock).items():
        end = given.ends({shard: position}, clock)[shard]
        ahead = given.cut(position, end, most, clock)
        if len(ahead.seqs):
            piece = given.piece(position, int(ahead.seqs[-1]) + 1)
            found += [value for batch in given.read(piece, PLAN) for value in batch.column(3).to_pylist()]
            position = Range(  # noqa: PLW2901 - it goes on
                given.name, shard, piece.end, piece.end, place=piece.place, start_byte=piece.end_byte,
                end_byte=piece.end_byte,
            )  # fmt: skip
        positions[shard] = position
    return found


def test_a_line_is_read_when_it_has_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\ntw")
    with millstream.open("memory:") as log:
        given, positions = file_input(str(path), log), dict[int, Range]()
        assert all_of(given, positions) == [b"one"]
        assert all_of(given, positions) == []
        with path.open("ab") as file:
            file.write(b"o\nthree\r\n\nfour")
        assert all_of(given, positions) == [b"two", b"three", b""]
        assert all_of(file_input(str(path), log, whole=True), positions) == [b"four"]


def test_lines_are_read_some_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{number}\n" for number in range(10)))
    with millstream.open("memory:") as log:
        given, positions = file_input(str(path), log), dict[int, Range]()
        found = [all_of(given, positions, most=3) for _ in range(4)]
        assert found == [[b"0", b"1", b"2"], [b"3", b"4", b"5"], [b"6", b"7", b"8"], [b"9"]]


def test_new_files_are_found_after_those_that_are_known(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text("m\n")
    with millstream.open("memory:") as log:
        given, positions = file_input(str(tmp_path / "*.txt"), log), dict[int, Range]()
        assert all_of(given, positions) == [b"m"]
        (tmp_path / "a.txt").write_text("a\n")
        assert all_of(given, positions) == [b"a"]
        assert {shard: Path(one.place).name for shard, one in positions.items()} == {0: "m.txt", 1: "a.txt"}


def test_a_file_that_has_changed_or_gone_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n")
    with millstream.open("memory:") as log:
        given = file_input(str(path), log)
        piece = given.piece(Range(given.name, 0, 0, 0, place=str(path)), 2)
        path.write_text("other..\n")
        with pytest.raises(StoreFailed, match="has changed"):
            list(given.read(piece, PLAN))
        path.unlink()
        with pytest.raises(StoreFailed, match="cannot be read"):
            list(given.read(piece, PLAN))


def clock_of(*, every_tick: bool) -> Input:
    """A clock of two shards."""
    flow = Flow("ticks")
    flow.clock("clock", every="1s", shards=2, every_tick=every_tick).sink("b")
    with millstream.open("memory:", clock=ManualClock()) as log:
        return input_of(source_of(flow), log)


@pytest.mark.parametrize("every_tick", [False, True])
def test_ticks_that_were_missed_come_as_one_or_each(every_tick: bool) -> None:
    given, positions = clock_of(every_tick=every_tick), dict[int, Range]()
    assert all_of(given, positions, clock=10_500) == [b"10000", b"10000"]
    assert all_of(given, positions, clock=10_900) == []
    expected = [b"11000", b"12000", b"13000"] if every_tick else [b"13000"]
    assert all_of(given, positions, clock=13_000) == expected * 2


def test_generated_values_are_the_same_whenever_they_are_read() -> None:
    flow = Flow("generated")
    flow.generate("numbers", str, count=5, value=str).sink("b")
    with millstream.open("memory:") as log:
        given, positions = input_of(source_of(flow), log), dict[int, Range]()
        assert all_of(given, positions, most=3) == [b"0", b"1", b"2"]
        assert all_of(given, positions, most=3) == [b"3", b"4"]
        assert all_of(given, positions, most=3) == []


def test_a_stream_with_gaps_is_read_to_its_end() -> None:
    flow = Flow("gaps")
    flow.source("a", key=str, value=str).sink("b")
    with millstream.open("memory:") as log:
        log.create("a", cleanup="compact")
        for number in range(9):
            log.append("a", b"%d" % number, key=b"xyz"[number % 3 : number % 3 + 1])
        log.compact()
        log.append("a", b"9", key=b"z")
        log.trim("a", 0, 1)
        given, positions = input_of(source_of(flow), log), dict[int, Range]()
        assert all_of(given, positions) == [b"6", b"7", b"8", b"9"]
        assert positions[0].end == 10


def test_a_shard_that_is_empty_by_compaction_rests() -> None:
    flow = Flow("gaps")
    flow.source("a", key=str, value=str).sink("b")
    with millstream.open("memory:") as log:
        log.create("a", cleanup="compact", tombstones_ms=1)
        log.append("a", b"1", key=b"x", timestamp=1)
        log.append("a", None, key=b"x", timestamp=1)
        log.compact()
        given = input_of(source_of(flow), log)
        (start,) = given.starts()
        assert given.rests(start, given.ends({}, 0)[0])
