"""What is wrong with a flow is told when it is built: all of it, each with its line, in their order."""

from __future__ import annotations

import linecache
import re
import subprocess
import sys
from pathlib import Path

import pytest

from millstream.errors import InvalidFlow
from millstream.flow import Flow
from tests.flow_build.mistakes import MISTAKES, many_mistakes_in_one_flow, untyped
from tests.golden import assert_golden

FOLDER = Path(__file__).parent
SITE = re.compile(r"(?<![\w/])[\w./-]*tests/flow_build/(\w+\.py):(\d+)")


def with_code(text: str) -> str:
    """A message with the code of each line that it names, in the place of its number."""

    def code(found: re.Match[str]) -> str:
        line = linecache.getline(str(FOLDER / found[1]), int(found[2])).strip()
        return f"`{line}`"

    return SITE.sub(code, text)


def told(flow: Flow) -> InvalidFlow:
    with pytest.raises(InvalidFlow) as caught:
        flow.build()
    return caught.value


def test_every_mistake_is_told_with_its_line() -> None:
    parts = []
    for name, build in MISTAKES.items():
        error = told(build())
        assert not [line for line in str(error).splitlines() if len(line) > 500]
        parts.append(f"# {name.replace('_', ' ')}\n{with_code(str(error))}\n")
    assert_golden("tests/flow_build/golden/mistakes.txt", "\n".join(parts))


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_come_in_the_order_of_their_lines(name: str) -> None:
    problems = told(MISTAKES[name]()).problems
    sites = [SITE.match(line) for line in problems]
    lines = [int(site[2]) for site in sites if site]
    assert len(lines) == len(problems) or name == "nothing_at_all"
    assert lines == sorted(lines)
    assert len(set(problems)) == len(problems)


def test_building_twice_tells_the_same() -> None:
    flow = many_mistakes_in_one_flow()
    assert told(flow).problems == told(flow).problems


def test_streams_that_the_log_has_not_are_told_with_those_of_similar_names() -> None:
    flow = Flow("f")
    flow.source("ordrs", value=int).sink("copies")
    flow.source("copies", value=int).sink("more")
    again = flow.cycle("again", key=str, value=int)
    flow.stream("again", again)
    flow.source("weather", value=int).sink("forecast")
    with pytest.raises(InvalidFlow) as caught:
        flow.build(streams=["orders", "payments", "people", "prices", "returns", "shelves"])
    with pytest.raises(InvalidFlow) as empty:
        flow.build(streams=[])
    parts = [with_code(str(caught.value)), with_code(str(empty.value)), ""]
    assert_golden("tests/flow_build/golden/unknown_streams.txt", "\n".join(parts))
    flow.build(streams=["ordrs", "weather"])
    flow.build()


def test_an_unknown_method_is_still_an_attribute_error() -> None:
    numbers = untyped(Flow("f"))
    with pytest.raises(AttributeError, match="a Stream has no 'sort'"):
        numbers.sort()
    with pytest.raises(AttributeError, match="a Table has no 'sort'"):
        numbers.group_by_key().count().sort()


PROGRAM = """
import threading
from millstream.flow import Flow
lock = threading.Lock()
log = threading.Lock()
numbers = [1, 2]
class Named:
    log = 1
def right(value: int) -> int:
    return value + numbers[0] + Named.log + (right(value - 1) if value else 0)
def wrong(value: int) -> int:
    return [value for _ in numbers if lock.locked()][0]
flow = Flow("f")
stream = flow.source("numbers", value=int)
stream.map(right).map(lambda value: right(value)).sink("right")
flow.build()
stream.map(lambda value: wrong(value)).sink("wrong")
flow.build()
"""


def test_a_program_that_is_started_sends_the_globals_that_its_functions_use(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=60
    )
    last = done.stderr.strip().splitlines()[-1]
    assert last == (
        "  program.py:17: wrong (program.py:11) captures 'lock', a lock, which cannot be sent to another "
        "process (cannot pickle '_thread.lock' object): make it inside the function"
    )
