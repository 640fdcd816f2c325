"""What went wrong in Spark, as an error of ours: the user's step and record, and none of the JVM's lines."""

from __future__ import annotations

import re

from millstream import errors
from millstream.errors import MillstreamError, StoreFailed

_OURS = re.compile(r"millstream\.errors\.(\w+): (.*?)(?=\n\s*\n|\n\tat |\n\s+at |\Z)", re.S)


def as_ours(error: Exception, job: str) -> MillstreamError:
    """The error that a task or the planner raised, if it was one of ours; else what Spark says."""
    text = str(error)
    for name, message in reversed(_OURS.findall(text)):  # the last one is what came of those before
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, MillstreamError):
            found = kind.__new__(kind)
            Exception.__init__(found, message.strip())
            return found
    return StoreFailed(
        f"job '{job}' stopped: {_first_lines(text)}; run it again with verbose=True to see all"
    )


def _first_lines(text: str) -> str:
    lines = [
        line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("at ")
    ]
    return " ".join(lines[:3])[:600]
