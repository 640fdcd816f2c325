"""The flows of which pictures are kept in `golden/`: small ones, and one of thirty nodes."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from millstream.flow import Branch, Flow, dead_letter


class Order(msgspec.Struct, frozen=True):
    """An order."""

    customer: str
    goods: str
    number: int
    cents: int


class Payment(msgspec.Struct, frozen=True):
    """A payment."""

    order: str
    cents: int


def goods(order: Order) -> str:
    """What was ordered."""
    return order.goods


def cents(order: Order) -> int:
    """What it costs."""
    return order.cents


def customer(order: Order) -> str:
    """Who ordered."""
    return order.customer


def is_paid(order: Order) -> bool:
    """Whether there is anything to pay."""
    return order.cents > 0


def parse(line: str) -> Order:
    """An order in text."""
    who, what, number, price = line.split(",")
    return Order(who, what, int(number), int(price))


def of_order(payment: Payment) -> str:
    """What was paid."""
    return payment.order


def outstanding(left: int, branch: Branch) -> int:
    """What is still to be paid."""
    cents: int = branch.value.cents
    return left + cents if branch.name == "order" else left - cents


def is_large(left: int) -> bool:
    """Whether somebody should look."""
    return left > 100_000


def reminder(left: int) -> str:
    """A letter."""
    return f"please pay {left / 100:.2f}"


def again(letter: str) -> str | None:
    """A harder letter."""
    return f"{letter}!" if len(letter) < 100 else None


def remind_once(sent: int, letter: str) -> tuple[int, list[str]]:
    """Not twice the same."""
    return sent + 1, [letter] if sent < 3 else []


def stock_change(order: Order) -> int:
    """Fewer on the shelf."""
    return -order.number


def is_empty(number: int | None) -> bool:
    """Nothing left."""
    return (number or 0) <= 0


def refill(number: int | None) -> str:
    """An order of our own."""
    return f"refill {number}"


def squared(index: int) -> int:
    """A number for each number."""
    return index * index


def add(left: int, right: int) -> int:
    """Both."""
    return left + right


def words() -> Flow:
    """One line."""
    flow = Flow("words")
    lines = flow.source("lines", value=str)
    lines.flat_map(str.split).map(str.lower).group_by(len, key=int).count().sink("counts")
    return flow


def split() -> Flow:
    """One step is read twice, and a source three times."""
    flow = Flow("split")
    orders = flow.source("orders", key=str, value=Order)
    paid = orders.filter(is_paid)
    paid.group_by(goods).sum(cents).sink("by-goods")
    paid.group_by(customer).sum(cents, name="spent by each").sink("by-customer")
    orders.sink("copy")
    return flow


def cycle() -> Flow:
    """A cycle through a named stream, a clock, and dead letters."""
    flow = Flow("cycle", on_error=dead_letter("dead"))
    start = flow.generate("squares", squared, count=10)
    loop = flow.cycle("loop", key=int, value=int)
    ticks = flow.clock("every-minute", every="1m")
    first = start.group_by(squared)
    merged = flow.merge(first, loop, ticks).group_by_key()
    kept = flow.stream("sums", merged.fold(0, add, name="running total"))
    kept.filter(lambda total: total < 1_000_000).sink("loop")
    kept.filter(lambda total: total >= 1_000_000).sink("large-ones")
    return flow


def shop() -> Flow:
    """Thirty nodes."""
    flow = Flow("shop")
    typed = flow.source("orders", key=str, value=Order)
    lines = flow.from_file("imports/*.csv", value=str)
    parsed = lines.map(parse, on_error=dead_letter("unreadable")).group_by(customer)
    orders = flow.stream("all-orders", flow.merge(typed.group_by_key(), parsed))
    payments = flow.source("payments", key=str, value=Payment).group_by(of_order)
    open_ = flow.merge(order=orders.filter(is_paid), payment=payments).fold(0, outstanding)
    left = flow.stream("outstanding", open_)
    left.filter(is_large).sink("to-look-at")
    letters = flow.cycle("letters", key=str, value=str)
    due = flow.merge(left.map(reminder), letters.collect(again)).group_by_key()
    flow.stream("letters", due.transform(0, remind_once))
    orders.group_by(goods).sum(cents).sink("sales")
    delivered = flow.source("deliveries", key=str, value=int).group_by_key()
    stock = flow.merge(delivered, orders.group_by(goods).map(stock_change)).aggregate(0, add)
    stock.updates().filter(is_empty).map(refill).sink("refills")
    orders.group_by(goods).join(stock, "left").sink("orders-with-stock")
    return flow


FLOWS: dict[str, Callable[[], Flow]] = {"words": words, "split": split, "cycle": cycle, "shop": shop}
