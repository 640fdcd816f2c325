"""A flow with two regroupings, two sinks and one result, run as a program that may be killed.

python -m tests.engine.shop URL [--pages N] [--merge]
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

import msgspec

import millstream
from millstream.flow import Branch, Flow, dead_letter

CUSTOMERS = 97
SHARDS = 3


class Order(msgspec.Struct, frozen=True):
    """What a customer paid; an order of nothing is a mistake."""

    number: int
    cents: int


def checked(order: Order) -> Order:
    """The order; those of nothing are put aside."""
    if not order.cents:
        raise ValueError(f"order {order.number} is of nothing")
    return order


def add(total: int, order: Order) -> int:
    """The running total."""
    return total + order.cents


def parity(total: int) -> str:
    """The second key: totals do not fall evenly to it."""
    return "even" if total % 2 == 0 else f"odd {total % 5}"


def shop() -> Flow:
    """Totals of each customer, and how many of them were even: unique, whatever order records come in."""
    flow = Flow("shop")
    orders = flow.source("orders", key=str, value=Order).map(checked, on_error=dead_letter("wrong"))
    totals = orders.group_by_key().fold(0, add)
    totals.sink("totals")
    totals.group_by(parity).count().sink("parities")
    return flow


def both(_: str, value: Branch) -> str:
    """A digest of the order in which two streams came together."""
    return f"{value.name[0]}{value.value.number}"


def merged() -> Flow:
    """Two streams under one key: which comes first is the engine's choice."""
    flow = Flow("merged")
    left = flow.source("orders", key=str, value=Order)
    right = flow.source("returns", key=str, value=Order)
    flow.merge(left=left, right=right).group_by_key().fold("", both).sink("seen")
    return flow


def fill(log: millstream.Log, count: int, *, first: int = 0, stream: str = "orders") -> None:
    """So many orders, in batches."""
    log.create(stream, shards=SHARDS, exist_ok=True)
    with log.producer(stream) as producer:
        for number in range(first, first + count):
            order = Order(number, number * 7 % 1_000)
            key = b"c%d" % (number % CUSTOMERS)
            producer.send(msgspec.json.encode(order), key=key, timestamp=number)


def problems(log: millstream.Log, count: int) -> list[str]:
    """What is not as it must be, after so many orders."""
    totals: dict[str, list[int]] = {}
    wrong = 0
    for number in range(count):
        cents = number * 7 % 1_000
        if not cents:
            wrong += 1
            continue
        mine = totals.setdefault(f"c{number % CUSTOMERS}", [0])
        mine.append(mine[-1] + cents)
    found = []
    seen: dict[str, list[int]] = {}
    for record in log.consumer("totals", until="end"):
        seen.setdefault((record.key or b"").decode(), [0]).append(int(record.value))
    if seen != totals:
        sizes = sum(map(len, seen.values())), sum(map(len, totals.values()))
        found.append(f"totals: {sizes[0]} instead of {sizes[1]}, or not the same")
    parities = Counter(parity(total) for mine in totals.values() for total in mine[1:])
    last = {
        (record.key or b"").decode(): int(record.value) for record in log.consumer("parities", until="end")
    }
    if last != dict(parities):
        found.append(f"parities: {last}, expected {dict(parities)}")
    letters = sum(1 for _ in log.consumer("wrong", until="end"))
    if letters != wrong:
        found.append(f"dead letters: {letters}, expected {wrong}")
    return found


def main() -> int:
    """Run it until the end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--pages", type=int, default=2)
    parser.add_argument("--merge", action="store_true")
    parser.add_argument("--records-max", type=int)
    parser.add_argument("--master", default="local[2]")
    given = parser.parse_args()
    flow = merged() if given.merge else shop()
    flow.run(
        given.url,
        until="end",
        master=given.master,
        pages=given.pages,
        records_max=given.records_max,
        on_epoch=lambda epoch: print(epoch.epoch, epoch.records, flush=True),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
