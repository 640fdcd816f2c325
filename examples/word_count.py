"""Word count: how often each word occurs in all lines so far.

The count is an aggregate, so its updates may be coalesced, and words may be counted in parts anywhere.
"""

from __future__ import annotations

import re

from millstream.flow import Flow
from millstream.testing import run

LINES = ["The miller's stream", "the stream runs, the wheel turns", "and the mill grinds"]


def words_of(line: str) -> list[str]:
    """The words of a line, in small letters."""
    return re.findall(r"[\w']+", line.lower())


def flow() -> Flow:
    """Lines of text to a table of counts."""
    flow = Flow("word_count")
    lines = flow.source("lines", value=str)
    lines.flat_map(words_of).group_by(str, key=str).count().sink("counts")
    return flow


if __name__ == "__main__":
    print(f"{flow().describe()}\n")
    for word, count in sorted(run(flow(), {"lines": LINES}).table("counts").items()):
        print(f"{word:<10}{count}")
