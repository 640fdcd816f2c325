"""What a store may be able to do, and the error for what it cannot.

>>> "fences" in Can.FENCE
True
"""

from __future__ import annotations

import enum

from millstream.errors import Unsupported


class Can(enum.StrEnum):
    """One ability; the text is what a user reads."""

    CREATE = "create, alter and delete streams"
    SCHEMA = "columnar values"
    COMMIT = "commits over several shards and streams, all or nothing"
    EXPECT = "conditional append (expected seq)"
    FENCE = "fences (a commit happens once)"
    OFFSETS = "group offsets, inside a commit"
    GROUPS = "groups that share shards between members"
    MARKS = "marks of progress"
    STAGE = "staged records"
    PINS = "pins"
    TRIM = "trim and retention"
    COMPACT = "compaction"
    PROCESSES = "several processes at once"
    WRITTEN = "durability `written` (survives a killed process)"
    SYNCED = "durability `synced` (survives a power cut)"
    UPKEEP = "merge, verify, repair and backup"


def unsupported(scheme: str, wanted: Can, can: frozenset[Can]) -> Unsupported:
    """The error that says what the store cannot do, and what it can."""
    able = "; ".join(ability for ability in Can if ability in can)
    return Unsupported(
        f"a '{scheme}:' log does not support {wanted}. It supports: {able}. "
        "Use a log that can (a 'file:' log can do everything), or do without"
    )
