"""What the programs have in common: what they are told, the log they open, and the form of records."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import millstream
import millstream.log.file.log
import millstream.log.file.segments
import millstream.log.file.upkeep
from millstream import Log, Record
from millstream.errors import Fenced
from tests.kills.history import Failed, Id, Output, Started
from tests.kills.report import Report

READ = {"orders": 3, "events": 2}  # streams that groups read, and their shards
OUT, OUT_SHARDS = "out", 2
TABLE = "table"  # is compacted
FENCED, ORPHANED = 3, 4  # exit codes: another has its name; the driver is gone


class Job(NamedTuple):
    """What a worker was told, and what it works with."""

    log: Log
    report: Report
    name: str
    run: int
    random: random.Random
    stop: threading.Event

    @property
    def process(self) -> str:
        """A name that no other process has."""
        return f"{self.name}.{self.run}"

    def pause(self, seconds: float) -> None:
        """A while of up to so many seconds."""
        self.stop.wait(self.random.uniform(0, seconds))


def run(jobs: dict[str, Callable[[Job], None]]) -> None:
    """Do a job until told to stop: `URL REPORTS NAME RUN SEED`; the job is the name's first word."""
    url, folder, name, number, seed = sys.argv[1:]
    report = Report(Path(folder), f"{name}.{number}")
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    threading.Thread(target=_end_with_driver, daemon=True).start()
    set_small_limits()
    try:
        with millstream.open(url) as log:
            report.tell(Started())
            chance = random.Random(f"{seed} {name} {number}")
            jobs[name.partition("-")[0]](Job(log, report, name, int(number), chance, stop))
    except Fenced:
        sys.exit(FENCED)
    except BaseException:
        report.tell(Failed(traceback.format_exc()))
        raise


def _end_with_driver() -> None:
    """Do not outlive the driver, which never closes its end of the pipe."""
    sys.stdin.read()
    os._exit(ORPHANED)


def set_small_limits() -> None:
    """Let everything that happens rarely happen often."""
    log, segments, upkeep = (getattr(millstream.log.file, name) for name in ("log", "segments", "upkeep"))
    log.FOLD_ENTRIES = 60
    log.FOLD_AT_CLOSE_ENTRIES = 20
    segments.SEGMENT_BYTES_MAX = 300_000
    upkeep.PAUSE_SECONDS = 0.02
    upkeep.WORK_PER_PAUSE = 4
    upkeep.COMPACT_RECORDS_MIN = 50


def value_of(name: Id, pad: int = 0) -> bytes:
    """A record's value, that says which it is."""
    words = name.writer, str(name.run), str(name.number), str(name.part), str(name.parts), "." * pad
    return " ".join(words).encode()


def id_of(value: bytes) -> Id:
    """Which record a value is of."""
    writer, *numbers = value.split(b" ")[:5]
    return Id(writer.decode(), *map(int, numbers))


def output_of(record: Record) -> bytes:
    """What an exactly-once reader makes of a record."""
    value: bytes = record.value
    return f"{record.stream} {record.shard} {record.seq} ".encode() + value


def source_of(value: bytes) -> Output:
    """What an output was made of."""
    stream, shard, seq, rest = value.split(b" ", 3)
    return Output(stream.decode(), int(shard), int(seq), id_of(rest))
