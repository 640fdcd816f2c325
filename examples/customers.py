"""Customers and transactions: what each region spends, and what each customer has spent so far.

A payment meets its customer as known at that moment, and counts for that region for ever (stream-table
join). A statement has all that was paid and what is known of the customer now (table-table join).
"""

from __future__ import annotations

from typing import NamedTuple

from millstream.flow import Flow
from millstream.testing import In, run


class Customer(NamedTuple):
    """Who pays."""

    name: str
    region: str


CUSTOMERS = [
    In(Customer("Ann", "north"), key="c1", timestamp=0),
    In(Customer("Ann", "south"), key="c1", timestamp=20),  # she moves
]
PAYMENTS = [
    In(1200, key="c1", timestamp=10),
    In(300, key="c1", timestamp=30),
    In(75, key="c3", timestamp=40),  # nobody knows who that is
]


def region_of(payment: tuple[int, Customer | None]) -> str:
    """Where the customer lives."""
    return payment[1].region if payment[1] else "unknown"


def cents_of(payment: tuple[int, Customer | None]) -> int:
    """How much it is."""
    return payment[0]


def flow() -> Flow:
    """Payments in cents and customers, both by customer, to cents by region and to statements."""
    flow = Flow("customers")
    customers = flow.source("customers", key=str, value=Customer).group_by_key().latest()
    payments = flow.source("payments", key=str, value=int).group_by_key()
    payments.join(customers, "left").group_by(region_of).sum(cents_of).sink("regions")
    customers.join(payments.sum(), "left").sink("statements")
    return flow


if __name__ == "__main__":
    print(f"{flow().describe()}\n")
    result = run(flow(), {"customers": CUSTOMERS, "payments": PAYMENTS})
    for region, cents in sorted(result.table("regions").items()):
        print(f"{region:<8}{cents / 100:>6.2f}")
    for customer, spent in result.table("statements").values():
        print(f"{customer.name} in the {customer.region} has spent {(spent or 0) / 100:.2f}")
