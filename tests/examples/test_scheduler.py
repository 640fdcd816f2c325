"""Scheduler: a task is released by the first tick that finds it due, and never when it was cancelled."""

from itertools import combinations_with_replacement, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.scheduler import TASKS, Released, flow
from millstream.testing import In, explore, run, runs

Tasks = list[tuple[str, int | None]]

TICK = 10_000
SMALL: list[tuple[Tasks, int]] = [
    ([], 2),
    ([("a", 10_000)], 2),
    ([("a", 15_000), ("a", None)], 3),
    ([("a", 5_000), ("a", 15_000)], 2),
    ([("a", 5_000), ("b", 15_000), ("a", None)], 2),
    ([("a", 99_000), ("b", 0), ("c", None)], 2),
]


def released(task: str, tasks: Tasks, ticks: int) -> set[tuple[Released, ...]]:
    """All ways in which one task can be released: what is said of it comes before, between or after ticks."""
    said = [due for name, due in tasks if name == task]
    found = set()
    for places in combinations_with_replacement(range(ticks + 1), len(said)):
        due, out = None, list[Released]()
        for tick in range(ticks + 1):
            for place, new in zip(places, said, strict=True):
                due = new if place == tick else due
            now = TICK * (tick + 1)
            if due is not None and due <= now and tick < ticks:
                out.append((task, due, now))
                due = None
        found.add(tuple(out))
    return found


@pytest.mark.parametrize(("tasks", "ticks"), SMALL)
def test_every_order_gives_what_is_allowed_and_all_of_it(tasks: Tasks, ticks: int) -> None:
    names = sorted({name for name, _ in tasks})
    exploration = explore(flow(), {"tasks": tasks, "clock": ticks}, limit=100_000)
    found = {
        tuple(tuple(result.per_key("released").get(name, ())) for name in names) for result in exploration
    }
    assert exploration.left == 0
    assert found == set(product(*(released(name, tasks, ticks) for name in names)))


def test_in_the_order_of_time_a_task_is_released_at_the_next_tick() -> None:
    found = run(flow(), {"tasks": TASKS, "clock": 3}).values("released")
    assert sorted(found) == [("grind", 28_000, 30_000), ("sweep", 25_000, 30_000)]
    cancelled_late = [In(5_000, "a", 0), In(None, "a", 10_001)]
    assert run(flow(), {"tasks": cancelled_late, "clock": 2}).values("released") == [("a", 5_000, 10_000)]


tasks_due = st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 8).map(lambda due: 5_000 * due))


@given(st.lists(tasks_due, max_size=8), st.integers(0, 4), st.integers())
def test_chance_gives_what_is_allowed(tasks: Tasks, ticks: int, seed: int) -> None:
    for result in runs(flow(), {"tasks": tasks, "clock": ticks}, seed=seed, count=3):
        found = result.per_key("released")
        assert found.keys() <= {name for name, _ in tasks}
        for name in dict(tasks):
            assert tuple(found.get(name, ())) in released(name, tasks, ticks)
