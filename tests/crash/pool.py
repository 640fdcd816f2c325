"""Workloads in processes of their own, several at once."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from tests.crash.canaries import removed
from tests.crash.runner import Result, run_workload


def work(canary: str | None, folder: str | None, steps: int, seed: int) -> Result:
    """One workload, in a process of its own."""
    if canary is None:
        return run_workload(folder, seed, steps)
    with removed(canary):
        return run_workload(folder, seed, steps)


def in_order(one: Callable[[int], Result], first: int, processes: int) -> Iterator[Result]:
    """The results of workloads as their turn comes, so that the same seed gives the same answer."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        waiting: list[Future[Result]] = []
        seed = first
        try:
            while True:
                while len(waiting) < processes + 1:
                    waiting.append(pool.submit(one, seed))
                    seed += 1
                try:
                    yield waiting.pop(0).result()
                except BrokenProcessPool as error:
                    yield Result(violations=[f"a process that opened what was left died: {error}"])
                    return
        finally:
            for future in waiting:
                future.cancel()
