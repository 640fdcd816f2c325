"""A handle: a log, a producer or a consumer, which belongs to the process and the place that made it.

>>> import copy, millstream
>>> copy.copy(millstream.open("memory:"))
Traceback (most recent call last):
millstream.errors.UsageError: <MemoryLog memory:> cannot be copied or pickled: open its log where it is needed
"""

from __future__ import annotations

from typing import NoReturn

from millstream.errors import UsageError


class Handle:
    """What holds files, locks and threads: two of it, closed apart, would close each other's."""

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled."""
        raise UsageError(f"{self!r} cannot be copied or pickled: open its log where it is needed")
