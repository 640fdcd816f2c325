"""A scheduler: tasks are released when their time has come, and not if they were cancelled before.

Tasks and the ticks of a clock meet in buckets. A task that comes again is due at its new time; a None
cancels it.
"""

from __future__ import annotations

from millstream.flow import Branch, Flow
from millstream.keyhash import shard_of
from millstream.testing import In, run

BUCKETS = 2
TASKS = [
    In(15_000, key="grind", timestamp=1_000),  # when it is due, in ms
    In(25_000, key="sweep", timestamp=2_000),
    In(12_000, key="rest", timestamp=3_000),
    In(28_000, key="grind", timestamp=4_000),  # later, then
    In(None, key="rest", timestamp=9_000),  # no rest
]

Released = tuple[str, int, int]  # a task, when it was due, and the tick that released it


def bucket_of(task: tuple[str, int | None]) -> int:
    """Where a task waits: always in the same bucket."""
    return int(shard_of(task[0].encode(), BUCKETS))


def wait(waiting: dict[str, int], event: Branch) -> tuple[dict[str, int], list[Released]]:
    """A task waits, or does no more; a tick releases those whose time has come."""
    match event:
        case Branch("task", (task, None)):
            return {name: due for name, due in waiting.items() if name != task}, []
        case Branch("task", (task, due)):
            return waiting | {task: due}, []
        case Branch(_, now):
            ready = [(task, due, now) for task, due in waiting.items() if due <= now]
            return {task: due for task, due in waiting.items() if due > now}, ready


def flow() -> Flow:
    """Tasks with the time at which they are due, to the tasks that are released."""
    flow = Flow("scheduler")
    tasks = flow.source("tasks", key=str, value=int).with_key().group_by(bucket_of)
    clock = flow.clock("clock", every="10s", shards=BUCKETS).group_by_key()
    waiting = flow.merge(task=tasks, tick=clock).transform(dict[str, int](), wait)
    waiting.group_by(lambda released: released[0], key=str).sink("released")
    return flow


if __name__ == "__main__":
    print(f"{flow().describe()}\n")
    for task, due, at in run(flow(), {"tasks": TASKS, "clock": 3}).values("released"):
        print(f"{task} was due at {due / 1000:g} s, released at {at / 1000:g} s")
