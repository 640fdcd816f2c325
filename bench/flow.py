"""The benchmark of flows: building them, importing the library, and the model machine."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from bench.figure import Benchmark, Figure, Measure, Room, at_least, at_most, exactly, rate
from bench.payload import same
from bench.rounds import rate_of, side_by_side
from millstream.flow import Flow
from millstream.testing import explore, run

STEPS = 1_000
INSTANCES = 100_000
ORDERS = 252  # in which two branches of five records each meet: 10! / (5! 5!)
KEYS = 100


@dataclass
class Pair:
    """What is made many times, to compare with."""

    left: int
    right: int


def increased(value: int) -> int:
    """A step without state."""
    return value + 1


def add(total: int, value: int) -> int:
    """A step with state."""
    return total + value


def bucket(value: int) -> int:
    """A new key."""
    return value % KEYS


def joined(text: str, letter: str) -> str:
    """A state in which the order shows."""
    return text + letter


def build(room: Room) -> Iterator[Figure]:
    """Building and checking a flow of 1,000 steps, beside making 100,000 instances of a dataclass."""
    ratio = side_by_side(lambda: 1 / rate_of(build_once), lambda: 1 / rate_of(make_instances), room.rounds)
    yield Figure(
        "build_1000_steps_vs_100k_dataclasses",
        ratio.value,
        f"{ratio.ours * 1e3:.3g} ms, {STEPS:,} steps",
        f"{ratio.theirs * 1e3:.3g} ms, {INSTANCES:,} instances",
    )


def build_once() -> int:
    """A flow in which every third step keeps state."""
    flow = Flow("large")
    stream = flow.source("numbers", key=str, value=int).group_by_key()
    for number in range(STEPS - 2):
        stream = stream.map(increased) if number % 3 else stream.fold(0, add, name=f"sum {number}")
    stream.sink("out")
    same(len(flow.build().nodes), STEPS + 1)
    return 1


def make_instances() -> int:
    """A list of dataclass instances."""
    made = [Pair(number, number) for number in range(INSTANCES)]
    same(len(made), INSTANCES)
    return 1


def orders(_: Room) -> Iterator[Figure]:
    """How many runs are found where two branches of five records meet: none is missing, none comes twice."""
    flow = Flow("orders")
    left, right = (flow.source(name, key=str, value=str) for name in ("left", "right"))
    flow.merge(left, right).group_by_key().fold("", joined).sink("out")
    inputs = {"left": [("key", letter) for letter in "abcde"], "right": [("key", digit) for digit in "12345"]}
    start = time.perf_counter()
    found = [result.values("out")[-1] for result in explore(flow, inputs)]
    seconds = time.perf_counter() - start
    same(len(set(found)), len(found))
    yield Figure("explore_252", len(found), f"{seconds * 1e3:.3g} ms", f"{ORDERS} different orders")


def importing(room: Room) -> Iterator[Figure]:
    """`import millstream` beside `import pyarrow`, each in processes of their own; and with its flows."""
    for name, module in (
        ("import_millstream_vs_pyarrow", "millstream"),
        ("import_millstream_flow_vs_pyarrow", "millstream.flow"),
    ):
        ratio = side_by_side(partial(import_seconds, module), partial(import_seconds, "pyarrow"), room.rounds)
        ours, theirs = f"{1e3 * ratio.ours:.3g} ms", f"{1e3 * ratio.theirs:.3g} ms, pyarrow"
        yield Figure(name, ratio.value, ours, theirs)


IMPORT = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"


def import_seconds(module: str) -> float:
    """What an import takes in a new process: the best of three, as others disturb more than they help."""
    command = [sys.executable, "-c", IMPORT.format(module)]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(3)]
    return min(float(done.stdout) for done in runs)


def model(room: Room) -> Iterator[Figure]:
    """Records per second through the model machine, beside a bare loop that does the same."""
    count = 10_000 if room.quick else 50_000
    numbers = list(range(count))
    flow = Flow("model")
    stream = flow.source("numbers", value=int).map(increased).group_by(bucket)
    stream.fold(0, add).sink("out")

    def modelled() -> int:
        found = run(flow, {"numbers": numbers})
        same(len(found.values("out")), count)
        return count

    ratio = side_by_side(lambda: rate_of(modelled), lambda: rate_of(lambda: bare_loop(numbers)), room.rounds)
    texts = rate(ratio.ours, "records"), rate(ratio.theirs, "records") + ", a bare loop"
    yield Figure("model_records_per_second", ratio.ours, *texts)
    yield Figure("model_vs_bare_loop", ratio.value, *texts)


def bare_loop(numbers: list[int]) -> int:
    """The same map, group and fold, by hand."""
    states: dict[int, int] = {}
    out: list[tuple[int, int]] = []
    for number in numbers:
        value = increased(number)
        key = bucket(value)
        states[key] = add(states.get(key, 0), value)
        out.append((key, states[key]))
    return len(out)


FLOW = Benchmark(
    "flows: building, exploring, importing, the model machine",
    (
        Measure(build, {"build_1000_steps_vs_100k_dataclasses": at_most(3)}),
        Measure(orders, {"explore_252": exactly(ORDERS)}),
        Measure(
            importing,
            {"import_millstream_vs_pyarrow": at_most(1.5), "import_millstream_flow_vs_pyarrow": None},
        ),
        Measure(model, {"model_records_per_second": at_least(50_000), "model_vs_bare_loop": None}),
    ),
)
