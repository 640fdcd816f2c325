"""The demo, `make demo`: a flow runs on Spark, is killed in the middle, and still counts every order once.

`python -m examples.demo [ORDERS [SECONDS]]`: orders are written by one program and counted by another.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.console import Console
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table

import millstream
from examples import shop
from examples.shop import Account, Order
from millstream import Log

HERE = Path(__file__).parent
STREAMS = ("web", "till")
JOB = "shop.accounts"
MASTER = "local[2]"
DEFAULTS = (500_000, 25)  # orders, and for how many seconds they come in
SHARDS = 2
LOOK_S = 0.05
SECONDS_MAX = 180

console = Console(highlight=False)


class Counts(NamedTuple):
    """What the orders add up to."""

    accounts: dict[str, Account]
    sold: dict[str, int]


def main() -> None:
    """The whole demo, in a directory of its own that is gone afterwards."""
    given = [int(one) for one in sys.argv[1:]]
    count, seconds = [*given, *DEFAULTS[len(given) :]]
    begun = time.monotonic()
    console.print(
        Panel(
            "A shop's orders come in, and a flow on Spark computes from them.\n"
            "We kill Spark in the middle, start it again, and count.\n\n"
            "No server, no Java to install, nothing outside of this directory.",
            title="[bold]millstream[/]",
            expand=False,
            padding=(1, 2),
        )
    )
    with tempfile.TemporaryDirectory(prefix="millstream-demo-") as folder:
        url = f"file:{folder}/shop"
        with millstream.open(url) as log:
            for stream in STREAMS:
                log.create(stream, shards=SHARDS)
            describe()
            kill(log, url, count, seconds)
            restart(url)
            right = prove(log, count)
    console.print(f"\n[dim]{time.monotonic() - begun:.0f} seconds; the demo's directory is gone.[/]")
    if not right:
        sys.exit("a promise was broken: please report it")
    follow_up()


# -- the scenes


def describe() -> None:
    """The flow, as it is written and as it is drawn."""
    scene(1, "The flow: examples/shop.py")
    text = (HERE / "shop.py").read_text()
    start = text.index("flow = Flow")
    console.print(Syntax(text[start : text.index("\n\n\n", start)], "python", background_color="default"))
    console.print()
    for line in shop.flow.describe().splitlines()[1:]:
        console.print(f"  {line}", style="dim", markup=False)


def kill(log: Log, url: str, count: int, seconds: int) -> None:
    """Run it while orders come in, and kill it."""
    scene(2, "It runs while orders come in, until somebody kills it")
    console.print(f"  $ export MILLSTREAM_LOG={url}", style="dim", soft_wrap=True)
    fill = ["-m", "examples.shop", url, str(count), str(count // seconds)]
    with program(fill) as shopping, running(url) as spark:
        until(spark, lambda: ripe(log, count))
        before = epoch(log)
        until(spark, lambda: epoch(log) > before or done(log) >= count)
        time.sleep(0.1)
        os.killpg(spark.pid, signal.SIGKILL)
        spark.wait()
        console.show_cursor()
        console.print(f"\n  [bold red]killed[/] (SIGKILL) {moment(log)}", soft_wrap=True)
        orders = sum(log.describe(stream).records for stream in STREAMS)
        console.print(f"  {orders:,} orders are in the log, and {done(log):,} of them are known to be done.")
        if shopping.poll() is None:
            console.print("  The shop goes on selling.")
        if shopping.wait(SECONDS_MAX):
            sys.exit("the shop stopped selling")


def restart(url: str) -> None:
    """Start it again, until the end."""
    scene(3, "The same command again: it goes on where it was")
    with running(url, "--until", "end") as spark:
        until(spark, lambda: spark.poll() is not None)
        if spark.returncode:
            sys.exit("the flow failed")


def prove(log: Log, count: int) -> bool:
    """Compare what came out with a plain loop over the orders."""
    scene(4, "Did every order count once?")
    wanted, gaps = plain(log), 0
    accounts: dict[str, Account] = {}
    for record in log.consumer("accounts", until="end"):
        name, account = (record.key or b"").decode(), msgspec.json.decode(record.value, type=Account)
        gaps += account.orders != accounts.get(name, Account()).orders + 1
        accounts[name] = account
    sold = {(record.key or b"").decode(): int(record.value) for record in log.consumer("sold", until="end")}
    told = sum(account.orders for account in accounts.values())
    sides = Table.grid(padding=(0, 6))
    sides.add_row(
        compared(
            "customer",
            {name: one.orders for name, one in wanted.accounts.items()},
            {name: one.orders for name, one in accounts.items()},
        ),
        compared("pieces of", wanted.sold, sold),
    )
    console.print(sides)
    right = (accounts, sold, gaps, told) == (*wanted, 0, count)
    amounts = "equal" if accounts == wanted.accounts else "not equal"
    console.print(
        f"\n  {count:,} orders came in, {told:,} were counted.\n"
        f"  Numbers of accounts that are missing or double: {gaps}. Amounts to the cent: {amounts}."
    )
    console.print(
        "  [bold green]Every order counted once.[/]"
        if right
        else "  [bold red]NOT every order counted once.[/]"
    )
    return right


def plain(log: Log) -> Counts:
    """The same without a flow: a loop over all orders."""
    accounts: dict[str, Account] = {}
    sold: Counter[str] = Counter()
    for record in log.consumer(list(STREAMS), until="end"):
        order = msgspec.json.decode(record.value, type=Order)
        accounts[order.customer] = shop.book(accounts.get(order.customer, Account()), order)
        sold[order.goods] += order.pieces
    return Counts(accounts, dict(sold))


def compared(title: str, wanted: dict[str, int], found: dict[str, int]) -> Table:
    """Two countings, side by side."""
    table = Table(box=None, header_style="dim", padding=(0, 1), pad_edge=False)
    table.add_column(f"  {title}")
    for column in ("a loop", "the flow", ""):
        table.add_column(column, justify="right")
    for name in sorted(wanted):
        same = found.get(name) == wanted[name]
        mark = "[green]=[/]" if same else "[bold red]differs[/]"
        table.add_row(f"  {name}", f"{wanted[name]:,}", f"{found.get(name, 0):,}", mark)
    return table


# -- how far it is


def ripe(log: Log, count: int) -> bool:
    """Whether there was enough to look at."""
    return (epoch(log) >= 6 and done(log) >= count // 4) or done(log) >= count // 2


def done(log: Log) -> int:
    """How many orders the job has told to be done, in the offsets of its group."""
    return sum(log.offsets(JOB).values())


def epoch(log: Log) -> int:
    """The newest epoch that was planned."""
    plan = newest_plan(log)
    return -1 if plan is None else plan.epoch


def moment(log: Log) -> str:
    """When it was killed."""
    plan = newest_plan(log)
    if plan is None or sum(one.end for one in plan.positions) <= done(log):
        return "between two epochs"
    return f"in the middle of epoch {plan.epoch}, which counts {plan_records(plan):,} orders"


class Piece(msgspec.Struct):
    """A range of a plan, as far as it is of interest here."""

    start: int
    end: int


class Plan(msgspec.Struct):
    """A plan, as it is kept in the log."""

    epoch: int
    ranges: list[Piece]
    positions: list[Piece]


def newest_plan(log: Log) -> Plan | None:
    """The plan that was stored last."""
    stream = f"_plans.{JOB}"
    if stream not in log.streams(stream):
        return None
    first, end = log.ends(stream)[0]
    if first == end:
        return None
    [record] = log.read(stream, 0, end - 1).records()
    return msgspec.json.decode(record.value, type=Plan)


def plan_records(plan: Plan) -> int:
    """How many records an epoch has."""
    return sum(one.end - one.start for one in plan.ranges)


# -- around them


def scene(number: int, title: str) -> None:
    """A headline."""
    console.print(f"\n[bold cyan]{number}. {title}[/]\n")


def running(url: str, *options: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """`millstream run`, as a person would type it."""
    command = ["run", "examples/shop.py", *options]
    console.print(f"  $ millstream {' '.join(command)}\n", style="dim", soft_wrap=True)
    return program(["-m", "millstream.cli", *command, "--master", MASTER], MILLSTREAM_LOG=url)


@contextmanager
def program(arguments: list[str], **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """Another process, in a group of its own; it does not outlive this."""
    command = [sys.executable, *arguments]
    environ = {**os.environ, **variables}
    with subprocess.Popen(command, cwd=HERE.parent, env=environ, start_new_session=True) as process:  # noqa: S603 - our own programs
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def until(process: subprocess.Popen[bytes], happens: Callable[[], bool]) -> None:
    """Wait for something that a process does."""
    end = time.monotonic() + SECONDS_MAX
    while not happens():
        if process.poll() is not None and not happens():
            sys.exit(f"the flow ended with code {process.returncode}, and was not expected to")
        if time.monotonic() > end:
            sys.exit(f"nothing happened for {SECONDS_MAX} seconds")
        time.sleep(LOOK_S)


def follow_up() -> None:
    """What to try next."""
    console.print("Next:\n")
    for command, what in (
        ("make demo-log", "the log by itself: half a minute"),
        ("make examples", "eight small flows, and their pictures"),
        ("less docs/run.md", "running flows: what is promised"),
        (".venv/bin/millstream run --help", "the command"),
    ):
        console.print(f"  [bold green]{command:<32}[/] {what}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        console.show_cursor()
        sys.exit(130)
