"""Flows of every kind of source, of several jobs, with cycles and closed at their end, on Spark."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import millstream
from millstream.errors import UsageError
from millstream.flow import Flow, ctx

pytestmark = pytest.mark.timeout(300)


def values(url: str, stream: str) -> list[object]:
    """What a stream has."""
    with millstream.open(url) as log:
        return [msgspec.json.decode(record.value) for record in log.consumer(stream, until="end")]


def run(flow: Flow, url: str, **options: object) -> object:
    """Until the end."""
    return flow.run(url, until="end", master="local[2]", pages=2, **options)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """An empty log."""
    return f"file:{tmp_path}/log"


def remainder(number: int) -> int:
    """A key."""
    return number % 3


def square(index: int) -> int:
    """A generated value."""
    return index * index


def positive(total: int | None) -> int:
    """A total, whatever its sign."""
    return abs(total or 0)


def halved(number: int) -> list[int]:
    """What a cycle writes: until there is nothing left."""
    return [number // 2] if number > 1 else []


def test_generated_values_go_through_two_jobs_and_come_out_once(url: str) -> None:
    flow = Flow("squares")
    squares = flow.generate("squares", square, count=1_000, value=int)
    kept = flow.stream("kept", squares.group_by(remainder).sum())
    kept.updates().map(positive).sink("out")
    run(flow, url)
    run(flow, url)  # there is nothing more
    with millstream.open(url) as log:
        last = {record.key: int(record.value) for record in log.consumer("out", until="end")}
    expected = {b"%d" % key: sum(n * n for n in range(1_000) if n * n % 3 == key) for key in (0, 1)}
    assert last == expected


def test_lines_of_files_are_read_once_and_those_that_come_later_too(url: str, tmp_path: Path) -> None:
    flow = Flow("files")
    flow.from_file(str(tmp_path / "*.ndjson"), value=int).group_by(remainder).count().sink("counts")
    (tmp_path / "a.ndjson").write_text("1\n2\n3\n")
    run(flow, url)
    (tmp_path / "0.ndjson").write_text("10\n11\n12\n" * 4)  # before the other by its name, and longer
    (tmp_path / "b.ndjson").write_text("4\n5")  # no line break at the end: a line all the same
    with (tmp_path / "a.ndjson").open("a") as file:
        file.write("6\n")
    run(flow, url)
    with millstream.open(url) as log:
        last = {record.key: int(record.value) for record in log.consumer("counts", until="end")}
    assert last == {b"0": 6, b"1": 6, b"2": 6}


def test_a_cycle_comes_to_rest(url: str) -> None:
    flow = Flow("halves")
    starts = flow.source("starts", value=int)
    again = flow.cycle("again", key=int, value=int)
    both = flow.merge(starts.group_by(remainder), again.group_by(remainder))
    flow.stream("again", both.flat_map(halved, value=int))
    with millstream.open(url) as log:
        log.create("starts")
        log.append("starts", b"100")
    run(flow, url)
    assert sorted(map(int, map(str, values(url, "again")))) == [1, 3, 6, 12, 25, 50]


def test_what_is_left_over_comes_out_when_a_run_is_closed(url: str) -> None:
    flow = Flow("groups")
    flow.source("numbers", value=int).group_by(remainder).grouped(3, flush=True).sink("lists")
    with millstream.open(url) as log:
        log.create("numbers")
        for number in range(8):
            log.append("numbers", b"%d" % number)
    run(flow, url)
    assert values(url, "lists") == [[0, 3, 6], [1, 4, 7]] or values(url, "lists") == [[1, 4, 7], [0, 3, 6]]
    run(flow, url, finish=True)
    assert sorted(map(str, values(url, "lists"))) == ["[0, 3, 6]", "[1, 4, 7]", "[2, 5]"]


def test_a_clock_ticks_for_a_while(url: str) -> None:
    flow = Flow("ticks")

    def noted(time: int) -> list[int]:
        return [time, ctx.now]

    flow.clock("clock", every="100ms").map(noted).sink("times")
    summary = flow.run(url, until=4.0, master="local[2]", pages=2)
    assert summary.why == "time"
    times = [tuple(map(int, pair)) for pair in values(url, "times")]  # type: ignore[call-overload]
    assert len(times) > 2
    assert all(tick <= now < tick + 60_000 for tick, now in times)


def test_what_is_wrong_with_a_call_is_told_before_spark_starts(url: str) -> None:
    flow = Flow("wrong")
    flow.generate("numbers", int, count=1, value=int).sink("out")
    for options, told in (
        ({"until": "never"}, "expected 'end', a number of seconds, or None"),
        ({"pages": 0}, "expected 1 to 4096"),
        ({"nonsense": 1}, "the options are until, master"),
    ):
        with pytest.raises(UsageError, match=told):
            flow.run(url, **options)
    with pytest.raises(UsageError, match="'memory:' log is gone from one process to the next"):
        flow.run("memory:")
