"""The events that Spark's benchmark computes from: the same for both sides, one file an epoch.

An event is `{"key": "k0042", "amount": 17}`; the keys follow one another in an order that only looks random.

>>> event(1)
('k7919', 37)
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

KEYS = 10_000
KEY_STEP = 7_919  # a prime, so that every key comes once before one comes twice
AMOUNT_STEP, AMOUNTS = 37, 1_009
ROW_GROUPS = 4  # of a Parquet file: Spark reads one in one task, and has two cores
SCHEMA = "key string, amount long"


class Sizes(NamedTuple):
    """How much there is: so many epochs are measured after the first, which warm up."""

    per_epoch: int
    epochs: int
    warm: int

    @property
    def files(self) -> int:
        """One for each epoch."""
        return self.warm + self.epochs


class Events(NamedTuple):
    """A folder of files, each an epoch."""

    folder: Path
    sizes: Sizes

    @property
    def files(self) -> list[Path]:
        """In the order of their epochs."""
        return sorted(self.folder.iterdir())


def event(number: int) -> tuple[str, int]:
    """The key and the amount of an event."""
    return f"k{number * KEY_STEP % KEYS:04}", number * AMOUNT_STEP % AMOUNTS


def epoch(number: int, size: int) -> list[tuple[str, int]]:
    """The events of an epoch."""
    return [event(each) for each in range(number * size, (number + 1) * size)]


def as_json(folder: Path, sizes: Sizes) -> Events:
    """Write the events as JSON, one a line."""
    folder.mkdir(parents=True)
    for number in range(sizes.files):
        lines = [
            f'{{"key": "{key}", "amount": {amount}}}\n' for key, amount in epoch(number, sizes.per_epoch)
        ]
        (folder / f"{number:05}.json").write_text("".join(lines))
    return Events(folder, sizes)


def as_parquet(folder: Path, sizes: Sizes) -> Events:
    """Write the same events as columns."""
    folder.mkdir(parents=True)
    for number in range(sizes.files):
        keys, amounts = zip(*epoch(number, sizes.per_epoch), strict=True)
        table = pa.table({"key": pa.array(keys), "amount": pa.array(amounts)})
        rows = -(-sizes.per_epoch // ROW_GROUPS)
        pq.write_table(table, folder / f"{number:05}.parquet", row_group_size=rows)
    return Events(folder, sizes)
