"""The line of threads: who is worked for, and when who is done goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from time import sleep

from millstream.log.file.line import Line, Request


def until(true: Callable[[], object]) -> None:
    """Wait for something that is about to become true."""
    while not true():
        sleep(0.001)


class Steps:
    """Work that is let go on, one group after the other; before each it may wake who is done."""

    def __init__(self, *, wakes: bool) -> None:
        """Nobody has come yet."""
        self.wakes = wakes
        self.line: Line[Request] = Line(self.work)
        self.begun: list[Sequence[Request]] = []
        self.go_on = threading.Semaphore(0)

    def work(self, requests: Sequence[Request]) -> None:
        """See `Line`."""
        if self.wakes:
            self.line.wake_done()
        self.begun.append(requests)
        self.go_on.acquire()


def three(steps: Steps, pool: ThreadPoolExecutor) -> list[Future[None]]:
    """One that is worked for, and two more that came meanwhile: the second group."""
    calls = [pool.submit(steps.line.submit, Request())]
    until(lambda: len(steps.begun) == 1)
    for number in (1, 2):
        calls.append(pool.submit(steps.line.submit, Request()))
        until(lambda: len(steps.line._queue) == number)  # noqa: B023 - it is called at once
    return calls


def test_who_is_done_goes_on_when_the_next_one_is_about_to_sleep() -> None:
    steps = Steps(wakes=True)
    with ThreadPoolExecutor() as pool:
        calls = three(steps, pool)
        steps.go_on.release()
        until(lambda: len(steps.begun) == 2)
        calls.append(pool.submit(steps.line.submit, Request()))
        until(lambda: steps.line._queue)
        steps.go_on.release()
        until(lambda: len(steps.begun) == 3)
        for call in calls[:3]:
            call.result(timeout=10)
        assert not calls[3].done()
        steps.go_on.release()
    assert [len(requests) for requests in steps.begun] == [1, 2, 1]


def test_who_is_done_goes_on_at_the_latest_when_the_next_one_has_worked() -> None:
    steps = Steps(wakes=False)
    with ThreadPoolExecutor() as pool:
        calls = three(steps, pool)
        steps.go_on.release(2)
        for call in calls:
            call.result(timeout=10)
    assert [len(requests) for requests in steps.begun] == [1, 2]


def test_who_is_done_does_not_wait_for_one_who_has_a_turn_for_itself() -> None:
    steps = Steps(wakes=True)
    asked, go_on = Event(), Event()

    def own_turn() -> None:
        asked.set()
        with steps.line.turn():
            go_on.wait()

    with ThreadPoolExecutor() as pool:
        calls = three(steps, pool)
        steps.go_on.release()
        until(lambda: len(steps.begun) == 2)
        owner = pool.submit(own_turn)
        asked.wait()
        calls.append(pool.submit(steps.line.submit, Request()))
        until(lambda: steps.line._queue)
        steps.go_on.release()  # now the owner or the next group has its turn, and keeps it
        for call in calls[:3]:
            call.result(timeout=10)
        go_on.set()
        steps.go_on.release()
        owner.result(timeout=10)
        calls[3].result(timeout=10)
