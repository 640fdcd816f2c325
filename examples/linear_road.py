"""Linear road: tolls that depend on how many cars there are on each segment of a road.

Cars report their segments. How many are on each is a sum over the table of all cars (sum_by_key), which
takes a car off one segment as it puts it on the next. A car that comes to a segment is turned round, to
meet the toll there (invert), and turned round again, to its bill.
"""

from __future__ import annotations

from millstream.flow import Flow
from millstream.testing import run

REPORTS = [("c1", 7), ("c2", 7), ("c3", 7), ("c1", 7), ("c1", 8), ("c2", 8), ("c3", 8)]


def one_on(segment: int) -> dict[int, int]:
    """A car is one car, on its segment."""
    return {segment: 1}


def toll_of(cars: int) -> int:
    """The price of a segment in cents: one car is free, and the more there are, the more each pays."""
    return 50 * (cars - 1) ** 2


def entry(move: tuple[int | None, int | None]) -> tuple[int, int | None] | None:
    """The segment that a car has come to, and the one that it came from; nothing if it stayed."""
    before, now = move
    return None if now is None or now == before else (now, before)


def charge(meeting: tuple[tuple[str, int | None], int | None]) -> tuple[str, int]:
    """The car that came, and what it pays: nothing where there is no toll yet."""
    (car, _), toll = meeting
    return car, toll or 0


def cents(charge: tuple[int, int]) -> int:
    """What was paid on a segment."""
    return charge[1]


def flow() -> Flow:
    """Segments by car to the cars on each segment, and the bill of each car."""
    flow = Flow("linear_road")
    places = flow.source("reports", key=str, value=int).group_by_key().latest()
    cars = places.map(one_on).sum_by_key()
    cars.sink("cars")
    entries = places.updated_pairs().collect(entry).invert()
    entries.join(cars.map(toll_of), "left").map(charge).invert().sum(cents).sink("bills")
    return flow


if __name__ == "__main__":
    result = run(flow(), {"reports": REPORTS})
    print(f"{flow().describe()}\n\ncars on segments: {result.table('cars')}\nbills: {result.table('bills')}")
