"""Word count: however lines come from their shards, and whatever updates are coalesced."""

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.word_count import flow, words_of
from millstream.testing import In, explore
from tests.examples.ends import every_end, some_ends

LINES = [
    [],
    [In("the mill")],
    [In("a b"), In("b a", shard=1), In("B, b!", shard=2)],
    [In("one two"), In("two", shard=1), In("two one"), In("", shard=1)],
]


def counted(lines: list[In]) -> dict[str, int]:
    return dict(Counter(word for line in lines for word in words_of(line.value)))


@pytest.mark.parametrize("lines", LINES)
def test_every_order_counts_the_same(lines: list[In]) -> None:
    assert every_end(flow(), {"lines": lines}, "counts") == [(counted(lines),)]


def test_updates_count_up_and_end_with_the_count() -> None:
    exploration = explore(flow(), {"lines": LINES[2]})
    seen = {tuple(result.per_key("counts")["b"]) for result in exploration}
    assert exploration.left == 0
    assert seen == {(*before, 4) for size in range(4) for before in combinations((1, 2, 3), size)}


@given(
    st.lists(
        st.builds(
            In, value=st.text("ab ", max_size=8), key=st.none(), timestamp=st.none(), shard=st.integers(0, 2)
        ),
        max_size=12,
    ),
    st.integers(),
)
def test_many_lines_are_counted(lines: list[In], seed: int) -> None:
    assert all(end == (counted(lines),) for end in some_ends(flow(), {"lines": lines}, seed, "counts"))
