"""Linear road: cars are counted right in the end, and a toll is one that there can have been."""

from collections import Counter
from itertools import groupby, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.linear_road import REPORTS, flow, toll_of
from millstream.testing import run
from tests.examples.ends import every_end, some_ends

Reports = list[tuple[str, int | None]]

SMALL: list[Reports] = [
    [],
    [("a", 1), ("a", 1)],
    [("a", 1), ("b", 1)],
    [("a", 1), ("b", 1), ("a", 2)],
    [("a", 1), ("b", 1), ("a", 2), ("b", 2)],
    [("a", 1), ("b", 1), ("a", None)],
    [("a", 1), ("b", 1), ("c", 1)],
    [("a", 1), ("a", 2), ("a", 1)],
]


def cars(reports: Reports) -> dict[int, int]:
    """How many are on each segment at last."""
    return dict(Counter(segment for segment in dict(reports).values() if segment is not None))


def entries(car: str, reports: Reports) -> list[int]:
    """The segments that a car came to, one by one."""
    moves = [segment for segment, _ in groupby(segment for name, segment in reports if name == car)]
    return [segment for segment in moves if segment is not None]


def bills(reports: Reports) -> dict[str, set[int]]:
    """For each car the bills that it can get: any number of those who ever come can be there before it."""
    came = {car: entries(car, reports) for car, _ in reports}
    ever = Counter(segment for segments in came.values() for segment in set(segments))
    return {
        car: {sum(ways) for ways in product(*({toll_of(n + 1) for n in range(ever[s])} for s in segments))}
        for car, segments in came.items()
        if segments
    }


def agrees(found: dict[str, int], allowed: dict[str, set[int]]) -> bool:
    return found.keys() == allowed.keys() and all(bill in allowed[car] for car, bill in found.items())


@pytest.mark.parametrize("reports", SMALL)
def test_every_order_counts_the_cars(reports: Reports) -> None:
    assert every_end(flow(), {"reports": reports}, "cars") == [(cars(reports),)]


@pytest.mark.parametrize("reports", SMALL)
def test_every_order_gives_bills_that_are_allowed(reports: Reports) -> None:
    found = [bill for (bill,) in every_end(flow(), {"reports": reports}, "bills")]
    allowed = bills(reports)
    assert all(agrees(bill, allowed) for bill in found)
    assert {car: {bill[car] for bill in found} for car in allowed} == allowed  # and each of them can be


def test_in_the_order_of_reports_each_pays_for_those_before() -> None:
    result = run(flow(), {"reports": REPORTS})
    assert result.table("cars") == {8: 3}
    assert result.table("bills") == {"c1": 0, "c2": 100, "c3": 400}


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.none() | st.integers(1, 3)), max_size=8), st.integers())
def test_many_reports(reports: Reports, seed: int) -> None:
    allowed = bills(reports)
    for found, bill in some_ends(flow(), {"reports": reports}, seed, "cars", "bills"):
        assert found == cars(reports)
        assert agrees(bill, allowed)
