"""What is written: records of 100 bytes, and the logs and tables that take them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

import pyarrow as pa

import millstream
from millstream import Append, Commit, Durability, Log
from millstream.record import VALUE_BYTES, Row, rows_to_batch

VALUE = bytes(range(100))
BATCH_RECORDS = 10_000
TIME_MS = 1_700_000_000_000


@contextmanager
def fresh_log(folder: Path, *, upkeep: bool = True) -> Iterator[Log]:
    """A new log with one stream, `bench`."""
    with millstream.open(f"file:{folder}", upkeep=upkeep) as log:
        log.create("bench")
        yield log


def one_record(log: Log, durability: Durability = Durability.WRITTEN) -> Callable[[], int]:
    """A step that commits one record; its batch is built in it."""
    numbers = count()

    def commit() -> int:
        number = next(numbers)
        row = (TIME_MS + number, b"%08d" % number, VALUE, None)
        log.commit(Commit(records=(Append("bench", 0, (row,)),)), durability)
        return 1

    return commit


@contextmanager
def bare_sqlite(file: Path, synchronous: str) -> Iterator[Callable[[], int]]:
    """A step that puts one row of the same content into a bare SQLite table, in a transaction of its own."""
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute(f"PRAGMA synchronous={synchronous}")
        database.execute("CREATE TABLE bench (seq INTEGER PRIMARY KEY, timestamp INT, key BLOB, value BLOB)")
        numbers = count()

        def insert() -> int:
            number = next(numbers)
            row = (number, TIME_MS + number, b"%08d" % number, VALUE)
            database.execute("INSERT INTO bench VALUES (?, ?, ?, ?)", row)
            return 1

        yield insert


def rows(number: int) -> list[Row]:
    """So many rows, each with a key of its own."""
    return [(TIME_MS + each, b"%08d" % each, VALUE, None) for each in range(number)]


def batch_of(value: bytes = VALUE, records: int = BATCH_RECORDS) -> pa.RecordBatch:
    """A batch as a user sends it: without seqs."""
    return rows_to_batch([(TIME_MS + each, None, value, None) for each in range(records)], VALUE_BYTES)


def same(found: object, wanted: object) -> None:
    """What was measured must have been done: a fast wrong answer is no figure."""
    if found != wanted:
        raise RuntimeError(f"expected {wanted!r}, and it is {found!r}")
