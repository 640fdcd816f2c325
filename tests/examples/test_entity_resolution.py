"""Entity resolution: in whatever order claims meet."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.entity_resolution import RECORDS, flow
from millstream.testing import run
from tests.examples.ends import every_end, some_ends

Records = list[tuple[int, list[str]]]

SMALL: list[Records] = [
    [],
    [(1, []), (2, ["a"])],
    [(2, ["a"]), (1, ["a"])],
    [(1, ["a", "b"]), (2, ["b", "c"]), (3, ["c"])],
    [(3, ["a"]), (2, ["a", "b"]), (1, ["b"])],
    [(1, ["a"]), (2, ["b"]), (3, ["a", "b"])],
    [(1, ["a", "b"]), (2, ["a", "b"])],
]


def people(records: Records) -> dict[int, int]:
    """Each record with the smallest of those that it shares a contact with, directly or by others."""
    groups: list[tuple[set[int], set[str]]] = []
    for record, contacts in records:
        ids, known = {record}, set(contacts)
        for group in [group for group in groups if group[1] & known]:
            groups.remove(group)
            ids, known = ids | group[0], known | group[1]
        groups.append((ids, known))
    return {record: min(ids) for ids, _ in groups for record in ids}


@pytest.mark.parametrize("records", SMALL)
def test_every_order_finds_the_people(records: Records) -> None:
    assert every_end(flow(), {"records": records}, "people") == [(people(records),)]


def test_the_sample_is_resolved() -> None:
    assert run(flow(), {"records": RECORDS}).table("people") == people(RECORDS) == {1: 1, 2: 2, 3: 1, 4: 1}


@given(st.lists(st.lists(st.sampled_from("abcdef"), max_size=3), max_size=8), st.integers())
def test_people_of_many_records(contacts: list[list[str]], seed: int) -> None:
    records = list(enumerate(contacts))
    ends = some_ends(flow(), {"records": records}, seed, "people")
    assert all(end == (people(records),) for end in ends)
