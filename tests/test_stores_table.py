"""The table of what each store can do, in `docs/stores.md`, is made from what the stores say."""

import importlib

from millstream.log import Log
from millstream.log.can import Can
from millstream.log.open import SCHEMES
from tests.contract.stores import STORES
from tests.golden import assert_golden


def table() -> str:
    """A line for each ability, a column for each store."""
    kinds: dict[str, type[Log]] = {
        name: getattr(importlib.import_module(scheme.module), scheme.name)
        for name, scheme in sorted(SCHEMES.items())
    }
    lines = ["| | " + " | ".join(f"`{name}:`" for name in kinds) + " |", "|---|" + "---|" * len(kinds)]
    for ability in Can:
        marks = ("yes" if ability in kind.can else "no" for kind in kinds.values())
        lines.append(f"| {ability} | " + " | ".join(marks) + " |")
    return "\n".join(lines)


def test_the_document_says_what_the_stores_say() -> None:
    assert_golden("docs/stores.md", table(), section="stores")


def test_every_store_is_tried_on_the_contract() -> None:
    assert {store.scheme for store in STORES} == set(SCHEMES)
