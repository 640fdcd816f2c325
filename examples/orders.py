"""The little shop of the demo: its orders, and the two programs that run beside it.

`python -m examples.orders tail URL` shows new orders as they come; `python -m examples.orders pay URL`
writes payments, numbered, as fast as it can, until somebody kills it.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

import msgspec

import millstream

GOODS = {"apples": 40, "bread": 320, "cheese": 540, "coffee": 890, "honey": 650, "olives": 380, "pears": 55}
CUSTOMERS = ("ann", "bob", "carla", "dmitri", "eve", "farid", "grace", "hiro", "ines", "jamal", "kim", "lea")
DAY_MS = 1_748_822_400_000  # 2025-06-02, a Monday
OPENS_MS, CLOSES_MS = DAY_MS + 8 * 3_600_000, DAY_MS + 20 * 3_600_000
ACKNOWLEDGED_EVERY = 100


class Order(msgspec.Struct, frozen=True):
    """What a customer ordered; `sent` is the moment at which it was written (a monotonic clock, ns)."""

    customer: str
    goods: str
    number: int
    cents: int
    sent: int = 0


class Seen(msgspec.Struct, frozen=True):
    """What the tailing process says of an order."""

    order: Order
    shard: int
    seq: int
    late_ms: float


class Timed(NamedTuple):
    """An order, and when it was placed."""

    at_ms: int
    order: Order


def random_order(chance: random.Random) -> Order:
    """Somebody orders something."""
    goods = chance.choice(list(GOODS))
    number = chance.randint(1, 6)
    return Order(chance.choice(CUSTOMERS), goods, number, number * GOODS[goods])


def a_day(number: int, seed: int) -> Iterator[Timed]:
    """So many orders between opening and closing, in the order of time."""
    chance = random.Random(seed)  # noqa: S311 - orders and moments, no secrets
    for each in range(number):
        yield Timed(OPENS_MS + (CLOSES_MS - OPENS_MS) * each // number, random_order(chance))


def tail(url: str) -> None:
    """Say what comes, and how long ago it was written. Ends with the order that nobody placed."""
    with millstream.open(url) as log:
        consumer = log.consumer("live")
        say(b"ready")
        for record in consumer:
            now = time.monotonic_ns()
            order = msgspec.json.decode(record.value, type=Order)
            if not order.customer:
                return
            say(msgspec.json.encode(Seen(order, record.shard, record.seq, (now - order.sent) / 1e6)))


def pay(url: str) -> None:
    """Write payments 0, 1, 2 ... once each, and say which of them are acknowledged."""
    with millstream.open(url) as log:
        producer = log.producer("payments", name="till-7", durability="written")
        last = producer.last_position()
        first = 0 if last is None else int(last) + 1
        say(b"%d" % first)
        for number in count(first):
            producer.send(b"payment %d" % number, position=b"%d" % number)
            if number % ACKNOWLEDGED_EVERY == 0:
                producer.flush()
                say(b"%d" % number)


def say(line: bytes) -> None:
    """Tell the demo."""
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    {"tail": tail, "pay": pay}[sys.argv[1]](sys.argv[2])
