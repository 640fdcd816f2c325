"""A tour of the log in half a minute: `make demo-log`, or `python -m examples.demo_log`."""

from __future__ import annotations

import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import msgspec
from rich.console import Console
from rich.panel import Panel
from rich.progress import track
from rich.table import Table

import millstream
from examples.orders import DAY_MS, Order, Seen, a_day, random_order
from millstream import Log

ORDERS = 100_000
LIVE = 24
KILLS = 5
SHARDS = 4
SEED = 7
NOON_MS = DAY_MS + 12 * 3_600_000

console = Console(highlight=False)


def main() -> None:
    """The whole tour, in a directory of its own that is gone afterwards."""
    started = time.monotonic()
    console.print(
        Panel(
            "Streams on one machine: no server, many processes,\n"
            "and nothing is lost that was acknowledged.\n\n"
            "This tour writes a stream, watches it, seeks in it, and kills the writer.",
            title="[bold]millstream[/]",
            expand=False,
            padding=(1, 2),
        )
    )
    with tempfile.TemporaryDirectory(prefix="millstream-demo-") as folder:
        url = f"file:{folder}/shop"
        with millstream.open(url) as log:
            write(log)
            watch(log, url)
            seek(log)
            kill(log, url)
    finish(time.monotonic() - started)


# -- the scenes


def write(log: Log) -> None:
    """A day of orders through a producer."""
    scene(1, "A day of orders, through a producer")
    log.create("orders", shards=SHARDS)
    start = time.monotonic()
    with log.producer("orders", name="web-shop") as producer:
        for at_ms, order in track(
            a_day(ORDERS, SEED),
            "writing",
            ORDERS,
            console=console,
            transient=True,
            disable=not console.is_terminal,
        ):
            producer.send(msgspec.json.encode(order), key=order.customer.encode(), timestamp=at_ms)
    seconds = time.monotonic() - start
    described = log.describe("orders")
    shown = Table(
        "shard", "seqs", "records", "oldest", "newest", "bytes", box=None, header_style="dim", padding=(0, 2)
    )
    for shard in described.shards:
        oldest, newest = clock(shard.oldest_ms or 0), clock(shard.newest_ms or 0)
        seqs = f"{shard.first:,} to {shard.end - 1:,}"
        shown.add_row(str(shard.shard), seqs, f"{shard.records:,}", oldest, newest, f"{shard.bytes:,}")
    console.print(shown)
    console.print(
        f"  [bold]{described.records:,}[/] orders in {seconds:.1f} s, exactly once: "
        f"{described.records / seconds:,.0f} a second.\n"
        "  The orders of one customer are in one shard, in order."
    )


def watch(log: Log, url: str) -> None:
    """Another process sees each order as it is committed."""
    scene(2, "Another process watches, live")
    log.create("live")
    chance = random.Random(SEED)  # noqa: S311 - orders and moments, no secrets
    late = []
    with program("tail", url) as (lines, _):
        lines.readline()
        for _ in range(LIVE):
            time.sleep(chance.uniform(0.02, 0.2))
            order = msgspec.structs.replace(random_order(chance), sent=time.monotonic_ns())
            log.append("live", msgspec.json.encode(order), key=order.customer.encode())
            seen = msgspec.json.decode(lines.readline(), type=Seen)
            late.append(seen.late_ms)
            what = f"{order.customer:<7}{order.number} {order.goods:<7}{order.cents / 100:>7.2f}"
            console.print(f"  {what}   [dim]seq {seen.seq:<3} seen there after[/] {seen.late_ms:.2f} ms")
        log.append("live", msgspec.json.encode(Order("", "", 0, 0)))
    console.print(
        f"  Half of them were there within [bold]{statistics.median(late):.2f} ms[/]; waiting costs no CPU."
    )


def seek(log: Log) -> None:
    """From a time of day to the records of that moment."""
    scene(3, "What was ordered at noon?")
    start = time.perf_counter()
    seqs = [log.seek("orders", shard, NOON_MS) for shard in range(SHARDS)]
    took = time.perf_counter() - start
    console.print(
        f"  12:00 is at seqs {', '.join(f'{seq:,}' for seq in seqs)}: found in {took * 1e3:,.1f} ms"
    )
    found = []
    for shard, seq in enumerate(seqs):
        for record in log.read("orders", shard, seq).records():
            if record.timestamp >= NOON_MS + 60_000:
                break
            found.append(record)
    found.sort(key=lambda record: record.timestamp)
    for record in found[:5]:
        order = msgspec.json.decode(record.value, type=Order)
        what = f"{order.customer:<7}{order.number} {order.goods:<7}{order.cents / 100:>7.2f}"
        console.print(
            f"  {what}   [dim]{clock(record.timestamp)}, shard {record.shard}, seq {record.seq:,}[/]"
        )
    total = sum(msgspec.json.decode(record.value, type=Order).cents for record in found)
    console.print(f"  [bold]{len(found)}[/] orders from 12:00 to 12:01, {total / 100:,.2f} in all.")


def kill(log: Log, url: str) -> None:
    """A writer dies again and again; what it was told is kept, and nothing is there twice."""
    scene(4, "Kill the writer")
    log.create("payments")
    console.print(
        "  A process writes numbered payments, exactly once. We kill it (SIGKILL) at a\n"
        "  random moment, and start it again: it asks the log where to go on.\n"
    )
    chance = random.Random()  # noqa: S311 - orders and moments, no secrets
    acknowledged = -1
    for _ in range(KILLS):
        with program("pay", url) as (lines, process):
            first = int(lines.readline())
            time.sleep(chance.uniform(0.2, 0.5))
            process.send_signal(signal.SIGKILL)
            said = [int(line) for line in lines if line.endswith(b"\n")]
        acknowledged = max([acknowledged, *said])
        [(_, end)] = log.ends("payments")
        console.print(
            f"  started at {first:>7,}  [red]killed[/]  acknowledged to {acknowledged:>7,}  "
            f"in the log to {end - 1:>7,}"
        )
    numbers = [int(record.value.split()[1]) for record in log.consumer("payments", until="end")]
    missing = acknowledged + 1 - len(set(numbers) & set(range(acknowledged + 1)))
    double = len(numbers) - len(set(numbers))
    ordered = "in order" if numbers == sorted(numbers) else "[red]out of order[/]"
    console.print(
        f"\n  {KILLS} kills, {acknowledged + 1:,} payments acknowledged: "
        f"[bold]{missing} missing, {double} double[/], {ordered}."
    )
    if missing or double or numbers != list(range(len(numbers))):
        sys.exit("a promise was broken: please report it")


def finish(seconds: float) -> None:
    """What to try next."""
    console.print(f"\n[dim]{seconds:.0f} seconds; the demo's directory is gone.[/] Next:\n")
    for command, what in (
        ("make test", "every test, the documents too"),
        ("make bench", "the log beside SQLite, pyarrow and plain writes"),
        ("less docs/log.md", "the guide: every feature, with examples that run"),
        (".venv/bin/python", "import millstream; log = millstream.open('file:first')"),
    ):
        console.print(f"  [bold green]{command:<18}[/] {what}")


# -- around them


def scene(number: int, title: str) -> None:
    """A headline."""
    console.print(f"\n[bold cyan]{number}. {title}[/]\n")


def clock(at_ms: int) -> str:
    """The time of day."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%S")


@contextmanager
def program(job: str, url: str) -> Iterator[tuple[IO[bytes], subprocess.Popen[bytes]]]:
    """Another process, and the lines it says; it does not outlive this."""
    command = [sys.executable, "-m", "examples.orders", job, url]
    here = Path(__file__).parent.parent
    with subprocess.Popen(command, cwd=here, stdout=subprocess.PIPE) as process:  # noqa: S603 - our own program
        if process.stdout is None:
            raise RuntimeError("a program without an output")
        try:
            yield process.stdout, process
        except BaseException:
            process.kill()
            raise


if __name__ == "__main__":
    main()
