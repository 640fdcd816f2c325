"""Denormalisation: articles that carry the names of their authors, kept right as either changes.

Articles and authors refer to each other by keys of different tables. Turned round (latest_by_key), the
articles lie under their authors, meet the names there (join), and are turned round again.
"""

from __future__ import annotations

from typing import NamedTuple

from millstream.flow import Flow
from millstream.testing import run


class Article(NamedTuple):
    """Its title, and the keys of its authors."""

    title: str
    authors: list[str]


AUTHORS = [("ann", "Ann Lee"), ("bob", "Bob Ray"), ("ann", "Ann Lee-Ray")]
ARTICLES = [("mills", Article("On Mills", ["ann", "bob"])), ("wheels", Article("Wheels", ["bob"]))]


def titles(article: Article) -> dict[str, str]:
    """Under each author the title."""
    return dict.fromkeys(article.authors, article.title)


def named(under_author: tuple[dict[str, str], str]) -> dict[str, tuple[str, str]]:
    """Under each article of an author the title, and the author's name."""
    articles, name = under_author
    return {article: (title, name) for article, title in articles.items()}


def line(by_author: dict[str, tuple[str, str]]) -> str:
    """An article as it is printed; a new title comes by each author, and the first one's is taken."""
    names = sorted(name for _, name in by_author.values())
    return f"{next(iter(by_author.values()))[0]}, by {' and '.join(names)}"


def flow() -> Flow:
    """Articles and names of authors, by their keys, to a table of lines."""
    flow = Flow("denormalisation")
    articles = flow.source("articles", key=str, value=Article).group_by_key().latest()
    names = flow.source("authors", key=str, value=str).group_by_key().latest()
    under_authors = articles.map(titles).latest_by_key().join(names)
    under_authors.map(named).latest_by_key().map(line).sink("lines")
    return flow


if __name__ == "__main__":
    print(f"{flow().describe()}\n")
    for text in run(flow(), {"authors": AUTHORS, "articles": ARTICLES}).table("lines").values():
        print(text)
