"""A value of a merged stream, and the name of the branch by which it came.

>>> match Branch("left", 3):
...     case Branch("left", number):
...         print(number)
3
"""

from __future__ import annotations

from typing import Any

import msgspec


class Branch(msgspec.Struct, frozen=True):
    """A named branch's value."""

    name: str
    value: Any
