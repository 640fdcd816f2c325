"""The flow of the demo: orders from the web and from the till, what each customer has spent, what was sold.

`python -m examples.shop URL COUNT A_SECOND` writes orders, live, and `millstream run examples/shop.py URL`
computes from them. Each order brings its customer's account one step further, so an order that counted twice,
or not at all, leaves a gap in the numbers of that customer's accounts.
"""

from __future__ import annotations

import random
import sys
from threading import Event

import msgspec

import millstream
from millstream.flow import Flow

GOODS = {"apples": 40, "bread": 320, "cheese": 540, "coffee": 890, "honey": 650, "olives": 380, "pears": 55}
CUSTOMERS = ("ann", "bob", "carla", "dmitri", "eve", "farid", "grace", "hiro", "ines", "jamal", "kim", "lea")
SEED = 7


class Order(msgspec.Struct, frozen=True):
    """What somebody ordered."""

    customer: str
    goods: str
    pieces: int
    cents: int


class Account(msgspec.Struct, frozen=True):
    """What a customer has ordered so far."""

    orders: int = 0
    cents: int = 0


def customer(order: Order) -> str:
    """Who ordered."""
    return order.customer


def goods(order: Order) -> str:
    """What was ordered."""
    return order.goods


def pieces(order: Order) -> int:
    """How many."""
    return order.pieces


def book(account: Account, order: Order) -> Account:
    """An order more."""
    return Account(account.orders + 1, account.cents + order.cents)


flow = Flow("shop")
web = flow.source("web", value=Order)
till = flow.source("till", value=Order)
orders = flow.merge(web, till)
orders.group_by(customer).fold(Account(), book).sink("accounts")
orders.group_by(goods).sum(pieces).sink("sold")


def order(chance: random.Random) -> Order:
    """Somebody orders something."""
    what, many = chance.choice(list(GOODS)), chance.randint(1, 6)
    return Order(chance.choice(CUSTOMERS), what, many, many * GOODS[what])


def fill(url: str, count: int, a_second: int) -> None:
    """Write so many orders, at this pace."""
    chance = random.Random(SEED)  # noqa: S311 - orders, no secrets
    pause = Event()
    encode = msgspec.json.Encoder().encode
    step = max(1, a_second // 20)
    with millstream.open(url) as log, log.producer("web") as at_web, log.producer("till") as at_till:
        for start in range(0, count, step):
            for _ in range(min(step, count - start)):
                one = order(chance)
                (at_web if chance.random() < 0.7 else at_till).send(encode(one), key=one.customer.encode())
            pause.wait(0.05)


if __name__ == "__main__":
    _, where, many, pace = sys.argv
    fill(where, int(many), int(pace))
