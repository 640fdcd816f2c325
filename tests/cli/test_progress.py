"""What is shown of a run."""

import io
from collections.abc import Mapping
from typing import NamedTuple

from rich.console import Console

from millstream.cli.progress import Progress


class Epoch(NamedTuple):
    job: str
    epoch: int
    records: int
    counts: Mapping[str, int]
    seconds: float


def drawn(progress: Progress, now: float, width: int = 80) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=width).print(progress.table(now))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def a_run() -> Progress:
    progress = Progress("shop", ["shop.totals", "shop.a-job-whose-name-is-very-long-indeed"], {"letters"})
    progress.add(Epoch("shop.totals", 4, 1_000_000, {"out totals": 1_000_000}, 2.0), 10.0)
    counts = {"out totals": 9_000, "out letters": 3, "skipped map parse": 3}
    progress.add(Epoch("shop.totals", 5, 9_000, counts, 0.25), 10.5)
    progress.lags = {"shop.totals": 1_234_567, "shop.a-job-whose-name-is-very-long-indeed": None}
    return progress


def test_a_table_is_readable_at_80_columns() -> None:
    assert drawn(a_run(), 10.5) == [
        "job                       epoch    records  a second        lag  last epoch",
        "totals                        5  1,009,000   403,600  1,234,567      0.25 s",
        "a-job-whose-name-is-ver…      -          0         0          -           -",
        "out  totals 1,009,000",
        "skipped  map parse 3",
        "dead letters  letters 3",
    ]


def test_a_rate_is_told_of_late_only() -> None:
    job = a_run().jobs["shop.totals"]
    assert job.rate(10.5) == 403_600  # both epochs, from the begin of the first
    assert round(job.rate(15.0)) == 144_143  # nothing came since
    assert round(job.rate(20.2)) == 905
    assert job.rate(30.0) == 0


def test_lines_say_the_same() -> None:
    assert a_run().lines(10.5) == [
        "totals: epoch 5, 1,009,000 records, 403,600/s, lag 1,234,567, last epoch 0.2 s; "
        "out: totals 1,009,000; skipped: map parse 3; dead letters: letters 3"
    ]
    assert Progress("shop", ["shop.totals"], set()).lines(1.0) == []
