"""Customers and payments: regions depend on when a customer moved, statements on nothing of the kind."""

from collections import Counter
from itertools import combinations_with_replacement, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.customers import Customer, flow
from tests.examples.ends import Tables, every_end, same, some_ends

Customers = list[tuple[str, Customer | None]]
Payments = list[tuple[str, int]]

NORTH, SOUTH = Customer("Ann", "north"), Customer("Ann", "south")
INPUTS: list[tuple[Customers, Payments]] = [
    ([], [("c1", 5)]),
    ([("c1", NORTH)], [("c1", 5), ("c1", 7)]),
    ([("c1", NORTH), ("c1", SOUTH)], [("c1", 1), ("c1", 20), ("c2", 300)]),
    ([("c1", NORTH), ("c2", SOUTH)], [("c1", 1), ("c2", 20)]),
    ([("c1", NORTH), ("c1", None)], [("c1", 1), ("c1", 20)]),
]


def regions(key: str, customers: Customers, payments: Payments) -> list[Counter[str]]:
    """All ways in which the payments of one customer can meet what is known of the customer."""
    versions = [None, *(customer for one, customer in customers if one == key)]
    cents = [cents for one, cents in payments if one == key]
    found = []
    for met in combinations_with_replacement(versions, len(cents)):
        totals: Counter[str] = Counter()
        for customer, paid in zip(met, cents, strict=True):
            totals[customer.region if customer else "unknown"] += paid
        found.append(totals)
    return found


def allowed(customers: Customers, payments: Payments) -> list[Tables]:
    keys = sorted({key for key, _ in payments})
    totals: Counter[str] = Counter()
    for key, cents in payments:
        totals[key] += cents
    known = {key: customer for key, customer in dict(customers).items() if customer is not None}
    statements = {key: (customer, totals.get(key)) for key, customer in known.items()}
    ways = product(*(regions(key, customers, payments) for key in keys))
    return [(dict(sum(way, Counter[str]())), statements) for way in ways]


@pytest.mark.parametrize(("customers", "payments"), INPUTS)
def test_every_order_gives_what_is_allowed_and_all_of_it(customers: Customers, payments: Payments) -> None:
    found = every_end(flow(), {"customers": customers, "payments": payments}, "regions", "statements")
    assert same(found, allowed(customers, payments))


keys = st.sampled_from(["c1", "c2"])
some_customers = st.none() | st.builds(Customer, st.just("Ann"), st.sampled_from(["north", "south"]))


@given(
    st.lists(st.tuples(keys, some_customers), max_size=4),
    st.lists(st.tuples(keys, st.integers(1, 999)), max_size=5),
    st.integers(),
)
def test_chance_gives_what_is_allowed(customers: Customers, payments: Payments, seed: int) -> None:
    ends = allowed(customers, payments)
    inputs = {"customers": customers, "payments": payments}
    assert all(end in ends for end in some_ends(flow(), inputs, seed, "regions", "statements"))
