"""Times as people write them: "500ms", "30s", "5m", "2h".

>>> milliseconds("1.5s", "--latency"), milliseconds("2m", "--until")
(1500, 120000)
"""

from __future__ import annotations

import re

import typer

_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def milliseconds(text: str, option: str) -> int:
    """The time in ms; a usage error if it is none."""
    found = _TIME.fullmatch(text.strip())
    time = round(float(found[1]) * _UNITS_MS[found[2]]) if found else 0
    if time < 1:
        raise typer.BadParameter(
            f"'{text}' is no time: expected one like 500ms, 30s, 5m or 2h", param_hint=f"'{option}'"
        )
    return time
