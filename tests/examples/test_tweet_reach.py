"""Reach of a tweet: it depends on whom its author had as followers when it came, and on nothing else."""

from itertools import combinations_with_replacement, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.tweet_reach import FOLLOWERS, TWEETS, flow
from millstream.testing import In, run
from tests.examples.ends import Tables, every_end, same, some_ends

Pairs = list[tuple[str, list[str]]]
Tweets = list[tuple[str, str]]
Seen = list[tuple[str, list[str]]]  # links, and who saw them

INPUTS: list[tuple[Pairs, Tweets]] = [
    ([], [("ann", "x")]),
    ([("ann", ["bob", "eve"]), ("bob", ["eve"])], [("ann", "x"), ("bob", "x"), ("ann", "y")]),
    ([("ann", ["bob"]), ("ann", ["eve", "kim"]), ("ann", [])], [("ann", "x"), ("ann", "x"), ("ann", "y")]),
    ([("ann", ["bob"]), ("bob", ["kim"]), ("ann", [])], [("ann", "x"), ("bob", "x"), ("eve", "x")]),
]


def seen_of(author: str, followers: Pairs, tweets: Tweets) -> list[Seen]:
    """All ways in which one author's tweets can meet one author's followers, as these change."""
    versions = [None, *(names for name, names in followers if name == author)]
    links = [link for name, link in tweets if name == author]
    return [
        [(link, names) for link, names in zip(links, met, strict=True) if names is not None]
        for met in combinations_with_replacement(versions, len(links))
    ]


def allowed(followers: Pairs, tweets: Tweets) -> list[Tables]:
    authors = sorted({name for name, _ in tweets})
    ends: list[Tables] = []
    for ways in product(*(seen_of(author, followers, tweets) for author in authors)):
        people: dict[str, set[str]] = {}
        for link, names in (seen for way in ways for seen in way):
            people.setdefault(link, set()).update(names)
        ends.append(({link: len(names) for link, names in people.items()},))
    return ends


@pytest.mark.parametrize(("followers", "tweets"), INPUTS)
def test_every_order_gives_what_is_allowed_and_all_of_it(followers: Pairs, tweets: Tweets) -> None:
    found = every_end(flow(), {"followers": followers, "tweets": tweets}, "reach")
    assert same(found, allowed(followers, tweets))


def test_followers_in_time_are_those_that_count() -> None:
    early = [In(names, name, 0) for name, names in FOLLOWERS[:2]]
    result = run(flow(), {"followers": early, "tweets": TWEETS})
    assert result.table("reach") == {"cats.example": 3, "mills.example": 2}


people = st.sampled_from("abc")
followers_of = st.tuples(people, st.lists(st.sampled_from("abcdef"), max_size=4))


@given(
    st.lists(followers_of, max_size=4),
    st.lists(st.tuples(people, st.sampled_from("xy")), max_size=5),
    st.integers(),
)
def test_chance_gives_what_is_allowed(followers: Pairs, tweets: Tweets, seed: int) -> None:
    ends = allowed(followers, tweets)
    inputs = {"followers": followers, "tweets": tweets}
    assert all(end in ends for end in some_ends(flow(), inputs, seed, "reach"))
