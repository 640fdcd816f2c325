"""How fast a log is read: as Arrow, as records, opened when it is full, and in how much memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import millstream
from bench.figure import Figure, Room, rate
from bench.payload import BATCH_RECORDS, batch_of, fresh_log, rows, same
from bench.rounds import rate_for, rate_of, side_by_side
from bench.worker import Worker, batches
from millstream import Append, Commit, Log
from millstream.record import VALUE_BYTES, rows_to_batch


def arrow(room: Room) -> Iterator[Figure]:
    """Arrow batches of a sealed log, beside pyarrow on the log's own segment files."""
    folder = room.folder / "arrow_read"
    with fresh_log(folder, upkeep=False) as log:  # so that both read the same batches, none of them merged
        commit = Commit(records=(Append("bench", 0, batch_of()),))
        for _ in range(100 if room.quick else 200):
            log.commit(commit)
    files = segments(folder)

    def opened_anew() -> int:
        with millstream.open(f"file:{folder}") as log:
            return count_ours(log)

    first = side_by_side(
        lambda: rate_of(opened_anew), lambda: rate_of(lambda: count_theirs(files)), room.rounds
    )
    with millstream.open(f"file:{folder}") as log:
        same(count_ours(log), count_theirs(files))
        again = side_by_side(
            lambda: rate_for(room.seconds, lambda: count_ours(log)),
            lambda: rate_for(room.seconds, lambda: count_theirs(files)),
            room.rounds,
        )
        touched = side_by_side(
            lambda: rate_for(room.seconds, lambda: touch(batches(log))),
            lambda: rate_for(room.seconds, lambda: touch(mapped(files))),
            room.rounds,
        )
    for name, ratio in (
        ("arrow_read_vs_pyarrow", again),
        ("arrow_first_read_vs_pyarrow", first),
        ("arrow_touch_vs_pyarrow", touched),
    ):
        yield Figure(
            name, ratio.value, rate(ratio.ours, "records"), f"{rate(ratio.theirs, 'records')}, pyarrow"
        )


def segments(folder: Path) -> list[Path]:
    """The sealed segments of a closed log, which are Arrow files for any tool."""
    return sorted(folder.rglob("*.arrow"))


def count_ours(log: Log) -> int:
    """Read all batches; how many records there were."""
    return sum(batch.num_rows for batch in batches(log))


def count_theirs(files: list[Path]) -> int:
    """The same with pyarrow."""
    return sum(batch.num_rows for batch in mapped(files))


def mapped(files: list[Path]) -> Iterator[pa.RecordBatch]:
    """The batches of files, from memory maps."""
    for file in files:
        yield from pa.ipc.open_stream(pa.memory_map(str(file)))


def touch(found: Iterator[pa.RecordBatch]) -> int:
    """Use the values: add their lengths, and the timestamps; how many records there were."""
    number = 0
    for batch in found:
        pc.sum(pc.binary_length(batch.column("value")))
        pc.sum(batch.column("timestamp"))
        number += batch.num_rows
    return number


def records(room: Room) -> Iterator[Figure]:
    """A consumer's records, beside a bare loop over the tuples that were written."""
    name = "record_read_vs_bare_loop"
    written = rows((5 if room.quick else 20) * BATCH_RECORDS)

    def ours() -> int:
        total = number = 0
        key: bytes | None = None
        for record in log.consumer("bench", until="end"):
            key, value = record.key, record.value
            total += len(value)
            number += 1
        same((number, key), (len(written), written[-1][1]))
        return number

    def theirs() -> int:
        total = number = 0
        key: bytes | None = None
        for _, key, value, _ in written:  # noqa: B007 - both loops unpack the key
            total += len(value)
            number += 1
        same((number, key), (len(written), written[-1][1]))
        return number

    with fresh_log(room.folder / name) as log:
        for start in range(0, len(written), BATCH_RECORDS):
            batch = rows_to_batch(written[start : start + BATCH_RECORDS], VALUE_BYTES)
            log.commit(Commit(records=(Append("bench", 0, batch),)))
        ratio = side_by_side(
            lambda: rate_for(room.seconds, ours), lambda: rate_for(room.seconds, theirs), room.rounds
        )
    yield Figure(name, ratio.value, rate(ratio.ours, "records"), rate(ratio.theirs, "tuples"))


def memory(room: Room) -> Iterator[Figure]:
    """A process that reads far more than it may keep."""
    name = "read_10gb_rss_mb"
    folder = room.folder / name
    commit = Commit(records=(Append("bench", 0, batch_of(bytes(1_000))),))
    size = 1_000 * BATCH_RECORDS
    number = (1 if room.quick else 10) * 1_000_000_000 // size
    with fresh_log(folder) as log:
        for _ in range(number):
            log.commit(commit)
    with Worker("stream", f"file:{folder}") as reader:
        read, seconds, peak = reader.answer()
    same(read, number * size)
    yield Figure(name, peak, f"{read / 1e9:.3g} GB read", f"{read / seconds / 1e9:.3g} GB/s")
