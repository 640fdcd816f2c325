"""A group: members that share the shards of its streams between them.

>>> Owned("orders", 0, generation=1).shard
0
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

Place: TypeAlias = tuple[str, int]  # stream, shard


class Owned(msgspec.Struct, frozen=True):
    """A shard that a member owns, with the generation that its offset commits must carry."""

    stream: str
    shard: int
    generation: int


class Assignment(msgspec.Struct, frozen=True):
    """A member's share of its group: what it owns, and what of that it should release soon."""

    owned: tuple[Owned, ...]
    release: tuple[Place, ...]
    members: int
