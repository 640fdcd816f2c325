"""Garbage: what a worker keeps is set aside, so that it is not looked through after each task.

PySpark collects garbage after every task of a worker that is used again. What is there to stay (modules, the
job, its programs) is hundreds of thousands of objects, and to look at them all takes 45 ms.
"""

from __future__ import annotations

import gc

_TIMES = {1, 2, 4, 16, 256}  # after so many tasks what a worker keeps may have grown

_done = 0


def set_aside() -> None:
    """Call it at the end of a task."""
    global _done  # noqa: PLW0603 - it is this process's
    _done += 1
    if _done in _TIMES:
        gc.collect()
        gc.freeze()
