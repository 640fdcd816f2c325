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
    """The name, or, where it is too long to be one, its beginning and what tells it from others.

    >>> short_name("a.b"), len(short_name("a" * 300))
    ('a.b', 249)
    """
    if len(name) <= NAME_LENGTH_MAX:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:32]
    return f"{name[: NAME_LENGTH_MAX - 33]}-{digest}"
