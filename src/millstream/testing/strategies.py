"""Hypothesis strategies: inputs for the typed sources of a flow.

>>> from hypothesis import given
>>> from millstream.flow import Flow
>>> from millstream.testing import run
>>> flow = Flow("sums")
>>> flow.source("numbers", key=str, value=int).group_by_key().sum().sink("sums")
>>> @given(inputs_of(flow))
... def test_sums(inputs):
...     expected = sum(record.value for record in inputs["numbers"])
...     assert sum(run(flow, inputs).table("sums").values()) == expected
>>> test_sums()

There are few different keys, so that they meet, and time goes on from record to record. Inputs may be
asked for that are late, come twice, have changed places, or cannot be read: see `records_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Literal, TypeAlias, TypeVar, get_args

from millstream.codec import codec_of, key_codec
from millstream.errors import MissingExtra, WrongType, shown
from millstream.flow.flow import Flow
from millstream.flow.graph import Graph
from millstream.flow.node import FromStream, Generated, Source, Ticks
from millstream.testing.record import In, Poison

try:
    from hypothesis import strategies as st

    from millstream.testing.values import values_of
except ImportError:
    raise MissingExtra(
        "millstream.testing.strategies needs the package 'hypothesis', which is not installed: "
        "run pip install 'millstream[testing]'"
    ) from None

T = TypeVar("T")
Draw = Callable[[st.SearchStrategy[T]], T]

Fault: TypeAlias = Literal["late", "duplicate", "reordered", "poison"]

STEP_MS_MAX = 2_000
LATE_MS_MAX = 60_000
_UNREADABLE = (b"\xff", b"{", b"", b"\xc1", b"not it")


def inputs_of(
    flow: Flow | Graph,
    *,
    size_max: int = 8,
    keys: int = 3,
    shards: int = 1,
    faults: Collection[Fault] = (),
) -> st.SearchStrategy[dict[str, Any]]:
    """Inputs for all sources of a flow, as `run`, `explore` and the others take them: see `records_of`."""
    graph = flow if isinstance(flow, Graph) else flow.build()

    def of(source: Source) -> st.SearchStrategy[Any]:
        if isinstance(source.origin, Generated | Ticks):
            count = source.origin.count if isinstance(source.origin, Generated) else None
            return st.integers(0, size_max if count is None else min(count, size_max))
        return _records(source, size_max, keys, shards, _checked(faults))

    return st.fixed_dictionaries({name: of(source) for name, source in graph.inputs.items()})


def records_of(
    flow: Flow | Graph,
    source: str,
    *,
    size_max: int = 8,
    keys: int = 3,
    shards: int = 1,
    faults: Collection[Fault] = (),
) -> st.SearchStrategy[list[In]]:
    """Up to `size_max` records of one source, under at most so many keys, each key in one of the shards.

    Of the faults "late" gives some times up to a minute earlier, "duplicate" lets some come twice, as of a
    producer that tried again, "reordered" lets them change places, and "poison" makes the values of some
    bytes that cannot be read, where there are such.
    """
    graph = flow if isinstance(flow, Graph) else flow.build()
    found = graph.inputs.get(source)
    if found is None or isinstance(found.origin, Generated | Ticks):
        known = [name for name, one in graph.inputs.items() if not isinstance(one.origin, Generated | Ticks)]
        raise WrongType(
            f"the flow '{graph.name}' reads no records of {source!r}: it reads those of "
            f"{', '.join(map(repr, known)) or 'nothing'}"
        )
    return _records(found, size_max, keys, shards, _checked(faults))


def _records(
    source: Source, size_max: int, keys: int, shards: int, faults: Collection[Fault]
) -> st.SearchStrategy[list[In]]:
    bad = _poison_of(source) if "poison" in faults else ()

    @st.composite
    def records(draw: Draw[Any]) -> list[In]:
        pool = [None] if source.key is type(None) else draw(_pool(source, keys))
        row = st.tuples(st.integers(0, len(pool) - 1), values_of(source.value), st.integers(0, STEP_MS_MAX))
        now, found = 0, []
        for place, value, step in draw(st.lists(row, max_size=size_max)):
            now += step
            found.append(In(value, pool[place], now, place % shards))
        if "late" in faults:
            found = [record._replace(timestamp=_earlier(draw, record)) for record in found]
        if bad:
            found = [
                record._replace(value=Poison(draw(st.sampled_from(bad)))) if draw(_SELDOM) else record
                for record in found
            ]
        if "duplicate" in faults:
            found = [copy for record in found for copy in [record] * (2 if draw(_SELDOM) else 1)]
        return list(draw(st.permutations(found))) if "reordered" in faults else found

    return records()


def _checked(faults: Collection[Fault]) -> Collection[Fault]:
    known = get_args(Fault)
    for fault in faults:
        if fault not in known:
            raise WrongType(f"faults has {shown(fault)}: expected some of {', '.join(map(repr, known))}")
    return faults


_SELDOM = st.integers(0, 3).map(lambda chance: chance == 3)  # shrinks to: never


def _earlier(draw: Draw[Any], record: In) -> int:
    back = draw(st.integers(0, LATE_MS_MAX)) if draw(_SELDOM) else 0
    return max((record.timestamp or 0) - back, 0)


def _pool(source: Source, keys: int) -> st.SearchStrategy[list[Any]]:
    """Keys that are different as bytes."""
    codec = key_codec(source.key, source.origin.key_codec if isinstance(source.origin, FromStream) else None)
    return st.lists(values_of(source.key), min_size=1, max_size=keys, unique_by=codec.encode)


def _poison_of(source: Source) -> tuple[bytes, ...]:
    """Bytes that are no value of the source; none where any bytes are one."""
    codec = codec_of(
        source.value, source.origin.value_codec if isinstance(source.origin, FromStream) else None
    )

    def unreadable(data: bytes) -> bool:
        try:
            codec.decode(data)
        except WrongType:
            return True
        return False

    return tuple(data for data in _UNREADABLE if unreadable(data))
