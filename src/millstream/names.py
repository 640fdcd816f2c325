"""Names of streams, groups, producers and writers.

>>> check_name("stream", "orders.v1")
'orders.v1'
"""

from __future__ import annotations

import hashlib
import re

from millstream.errors import InvalidName, shown

NAME_LENGTH_MAX = 249
_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def check_name(kind: str, name: str) -> str:
    """The name, if it is one; else `InvalidName`."""
    if isinstance(name, str) and _NAME.fullmatch(name) and name not in {".", ".."}:
        return name
    raise InvalidName(
        f"{shown(name)} cannot be the name of a {kind}: expected 1 to {NAME_LENGTH_MAX} characters of "
        "[a-zA-Z0-9._-], and not '.' or '..'"
    )


def short_name(name: str) -> str:
    """The name, or, where it cannot be one, what is like it and tells it from others.

    >>> short_name("a.b"), len(short_name("a" * 300))
    ('a.b', 249)
    >>> short_name("lines/*.txt.0")
    'lines--.txt.0-4ccbe550584617230196f80b8d0245b2'
    """
    if _NAME.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:32]
    return f"{re.sub('[^a-zA-Z0-9._-]', '-', name)[: NAME_LENGTH_MAX - 33]}-{digest}"
