"""Drivers and workers of Spark are killed at random moments: what is written is as if nothing had been."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from random import Random, SystemRandom

import pytest

import millstream
from tests.engine.driven import Driven
from tests.engine.shop import fill, problems

KILLS = 5


def kill_often(folder: Path, kills: int, records: int, seed: int) -> None:
    """Kill a driver so many times at moments of a seed, then let it come to its end."""
    print(f"seed {seed}")
    random = Random(seed)
    url = f"file:{folder}/log"
    more = records // kills
    hit = 0
    for number in range(kills):
        with millstream.open(url) as log:
            fill(log, more, first=number * more)
        with Driven(url, "--records-max", str(max(1, more // 10))) as driven:
            driven.first_line()  # so that something is under way
            if driven.wait(random.uniform(0, 2)) is None:
                hit += 1
            driven.kill()
    with Driven(url) as driven:
        assert driven.wait(300) == 0, driven.errors()
    assert hit > kills // 2, f"{hit} of {kills} kills came before the end"
    with millstream.open(url) as log:
        assert problems(log, records) == []


@pytest.mark.timeout(600)
def test_a_driver_that_is_killed_loses_and_doubles_nothing(tmp_path: Path) -> None:
    kill_often(tmp_path, KILLS, 20_000, SystemRandom().randrange(1 << 32))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_30_kills_of_a_driver_lose_and_double_nothing(tmp_path: Path) -> None:
    kill_often(tmp_path, 30, 200_000, SystemRandom().randrange(1 << 32))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_workers_that_are_killed_lose_and_double_nothing(tmp_path: Path) -> None:
    seed = SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    random = Random(seed)
    url = f"file:{tmp_path}/log"
    with millstream.open(url) as log:
        fill(log, 20_000)
    killed = 0
    while killed < 3:
        with Driven(url, "--records-max", "2000") as driven:
            driven.first_line()
            workers = [pid for pid in driven.children() if "pyspark.worker" in command_of(pid)]
            if workers:
                os.kill(random.choice(workers), signal.SIGKILL)
                killed += 1
            driven.wait(120)
    with Driven(url) as driven:
        assert driven.wait(300) == 0, driven.errors()
    with millstream.open(url) as log:
        assert problems(log, 20_000) == []


def command_of(pid: int) -> str:
    """How a process was called."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""
