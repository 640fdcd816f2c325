"""Laws, and how they are tried: on many inputs, and on a wrong variant, which they must catch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from millstream.flow import Flow, Grouped, Stream, Table
from millstream.testing import run

Law: TypeAlias = Callable[..., None]
Value: TypeAlias = Any  # whatever a user's is

RECORDS = st.lists(st.tuples(st.sampled_from("xyz"), st.integers(-9, 99)), max_size=12)
NUMBERS = st.lists(st.integers(-9, 99), max_size=12)


def holds(law: Law, **inputs: st.SearchStrategy[Any]) -> None:
    """Try it."""
    settings(max_examples=60)(given(**inputs)(law))()


def is_caught(law: Law, **inputs: st.SearchStrategy[Any]) -> None:
    """A law about something wrong does not hold, and that is seen every time."""
    tried = settings(
        max_examples=200,
        derandomize=True,
        database=None,
        phases=(Phase.generate,),
        report_multiple_bugs=False,
        print_blob=False,
    )(given(**inputs)(law))
    with pytest.raises(AssertionError):
        tried()


def through(
    build: Callable[[Grouped[str, Any]], Stream[Any, Any]],
    records: list[tuple[str, Any]],
    *,
    finish: bool = False,
) -> dict[Any, list[Any]]:
    """What comes out under each key when records go through a few steps."""
    flow = Flow("law")
    build(flow.source("in", key=str, value=Any).group_by_key()).sink("out")
    return run(flow, {"in": records}, finish=finish).per_key("out")


def table_of(flow: Flow, name: str, value: type[Any] = int) -> Table[str, Any]:
    """A stream that is read as a table."""
    source: Grouped[str, Any] = flow.source(name, key=str, value=value).group_by_key()
    return source.latest()
