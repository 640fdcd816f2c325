"""A call stopped in the middle, as by Ctrl-C: the log goes on as if a process had been killed there."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from time import sleep
from types import FrameType
from typing import Any

import pytest

import millstream
from millstream.log import Log
from millstream.log.file import log as file_log
from millstream.log.file.line import Line, Request

PLACES = ("books.py", "fold.py", "journal.py", "log.py", "segments.py", "state.py", "tail.py")


class Stopped(BaseException):
    """What a signal handler raises."""


class StopAt:
    """Raises before some line of the code that keeps the log's books, counted from now on."""

    def __init__(self, number: int) -> None:
        """Count to this number."""
        self.left = number

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:  # noqa: ANN401 - as `settrace` has it
        """See `sys.settrace`."""
        folder, _, name = frame.f_code.co_filename.rpartition("/")
        ours = folder.endswith(("/log", "/log/file")) and name in PLACES
        if not ours or frame.f_code.co_name in {"__init__", "__del__"}:  # half an object is nobody's
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise Stopped
        return self


def is_stopped(call: Callable[[], object], number: int) -> bool:
    """Run it, up to this line; False if it ended before."""
    before = sys.gettrace()
    sys.settrace(StopAt(number))
    try:
        call()
    except Stopped:
        return True
    finally:
        sys.settrace(before)
    return False


def seen(log: Log) -> list[tuple[int, bytes]]:
    """The seq and value of each record."""
    return [(record.seq, record.value) for record in log.consumer("orders", until="end")]


@pytest.mark.parametrize("fold_entries", [5, 1_000])
def test_a_call_that_is_stopped_at_any_line_leaves_no_wrong_books(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fold_entries: int
) -> None:
    monkeypatch.setattr(file_log, "FOLD_ENTRIES", fold_entries)
    url = f"file:{tmp_path}/log"
    with millstream.open(url, upkeep=False) as log, millstream.open(url, upkeep=False) as other:
        log.create("orders")
        for number in count(1):
            other.append("orders", b"other %d" % number)
            if not is_stopped(lambda: log.append("orders", b"stopped"), number):
                break
            log.append("orders", b"%d" % number)
            other.append("orders", b"x" * 40_000 if number % 50 == 0 else b"y")
            assert is_stopped(lambda: log.ends("orders"), number // 3 + 1) or number > 100
            if number % 10 == 0:
                assert seen(log) == seen(other)
        assert number > 100
        found = seen(log)
        assert [seq for seq, _ in found] == list(range(len(found)))
        assert found == seen(other)
        acknowledged = [value for _, value in found if value.isdigit()]
        assert acknowledged == [b"%d" % each for each in range(1, number)]
        assert log.verify() == []
    with millstream.open(url) as again:
        assert seen(again) == found


def test_nobody_waits_for_one_who_was_stopped_while_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()
    worked: list[Request] = []

    def work(requests: Sequence[Request]) -> None:
        begun.set()
        go_on.wait()
        worked.extend(requests)

    def stop(_: Request) -> None:
        raise Stopped

    line = Line(work)
    first, stopped, last = Request(), Request(), Request()
    with ThreadPoolExecutor() as pool:
        calls = [pool.submit(line.submit, first)]
        begun.wait()
        with monkeypatch.context() as patched:
            patched.setattr(Request, "wait", stop)
            with pytest.raises(Stopped):
                line.submit(stopped)
        calls.append(pool.submit(line.submit, last))
        while last not in line._queue:
            sleep(0.001)
        go_on.set()
        for call in calls:
            call.result(timeout=10)
    assert worked == [first, last]
