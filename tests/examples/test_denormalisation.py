"""Denormalisation: whatever changes first, articles end with their titles and their authors' names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.denormalisation import Article, flow
from tests.examples.ends import every_end, some_ends

Articles = list[tuple[str, Article | None]]
Authors = list[tuple[str, str | None]]

INPUTS: list[tuple[Articles, Authors]] = [
    ([("m", Article("Mills", ["ann"]))], []),
    ([("m", Article("Mills", ["ann"]))], [("ann", "Ann"), ("ann", "Anne")]),
    ([("m", Article("Mills", ["ann", "bob"]))], [("ann", "Ann"), ("bob", "Bob")]),
    (
        [("m", Article("Mills", ["ann"])), ("m", Article("On Mills", ["ann", "bob"]))],
        [("ann", "A"), ("bob", "B")],
    ),
    ([("m", Article("Mills", ["ann"])), ("m", Article("Mills", ["bob"]))], [("ann", "A"), ("bob", "B")]),
    ([("m", Article("Mills", ["ann"])), ("w", Article("Wheels", ["ann"])), ("m", None)], [("ann", "Ann")]),
    ([("m", Article("Mills", ["ann"]))], [("ann", "Ann"), ("ann", None)]),
]


def lines(articles: Articles, authors: Authors) -> dict[str, str]:
    """A plain join of what was said last."""
    names = {author: name for author, name in dict(authors).items() if name is not None}
    found: dict[str, str] = {}
    for key, article in dict(articles).items():
        known = sorted(names[author] for author in set(article.authors if article else ()) if author in names)
        if article and known:
            found[key] = f"{article.title}, by {' and '.join(known)}"
    return found


@pytest.mark.parametrize(("articles", "authors"), INPUTS)
def test_every_order_ends_with_the_same_lines(articles: Articles, authors: Authors) -> None:
    found = every_end(flow(), {"articles": articles, "authors": authors}, "lines")
    assert found == [(lines(articles, authors),)]


article = st.builds(
    Article, st.sampled_from(["Mills", "Wheels"]), st.lists(st.sampled_from("abc"), max_size=3)
)


@given(
    st.lists(st.tuples(st.sampled_from("xyz"), st.none() | article), max_size=5),
    st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.sampled_from(["Ann", "Bob"])), max_size=5),
    st.integers(),
)
def test_many_changes_end_with_the_same_lines(articles: Articles, authors: Authors, seed: int) -> None:
    ends = some_ends(flow(), {"articles": articles, "authors": authors}, seed, "lines")
    assert all(end == (lines(articles, authors),) for end in ends)
