"""Entity resolution: records that share an e-mail address or a telephone number are of one person.

Each record claims to be a person of its own. Claims meet under addresses and numbers; the smallest wins,
and the records that claimed otherwise hear of it through a cycle, and pass it on to their other contacts.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

from millstream.flow import Flow
from millstream.testing import run

RECORDS = [(1, ["a@example", "01"]), (2, ["bob@example"]), (3, ["ann@example"]), (4, ["ann@example", "01"])]


class Claim(NamedTuple):
    """The smallest record that a record is known to be of one person with, and its contacts."""

    person: int
    contacts: list[str]


class Known(NamedTuple):
    """The smallest person under a contact, and the contacts of the records that have it."""

    person: int
    records: dict[int, list[str]]


def by_contact(claim: Claim) -> list[tuple[str, Claim]]:
    """A claim goes to each of its contacts."""
    return [(contact, claim) for contact in claim.contacts]


def compare(known: Known, met: tuple[int, Claim]) -> tuple[Known, list[tuple[int, Claim]]]:
    """Of a smaller person all others hear, of a larger one the record that claimed it."""
    record, claim = met
    person, records = min(known.person, claim.person), known.records | {record: claim.contacts}
    hear = known.records if person < known.person else [record] if person < claim.person else []
    return Known(person, records), [(other, Claim(person, records[other])) for other in hear]


def flow() -> Flow:
    """The contacts of records to a table of records, each with the smallest one of the same person."""
    flow = Flow("entity_resolution")
    records = flow.source("records", key=int, value=list[str]).with_key().map(Claim._make, value=Claim)
    claims = flow.merge(records, flow.cycle("claims", key=int, value=Claim)).group_by_key()
    claims.min(lambda claim: claim.person, name="people").sink("people")
    heard = claims.flat_map(by_contact).invert().transform(Known(sys.maxsize, {}), compare).invert()
    flow.stream("claims", heard.map(lambda told: told[1]))
    return flow


if __name__ == "__main__":
    print(f"{flow().describe()}\n")
    for record, person in run(flow(), {"records": RECORDS}).table("people").items():
        print(f"record {record} is of person {person}")
