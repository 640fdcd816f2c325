"""Names of streams, groups, producers and writers.

>>> check_name("stream", "orders.v1")
'orders.v1'
"""

from __future__ import annotations

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
