"""Where a read begins or ends, as an option says it: a word, a time, or a seq for each shard.

>>> bound_of("latest"), bound_of("2026-03-01T00:00:00Z"), bound_of('{"0": 7}')
('latest', 1772323200000, {'0': 7})
"""

from __future__ import annotations

import datetime as dt
from typing import Literal, TypeAlias, cast, get_args

import msgspec

from millstream.errors import UsageError, shown
from millstream.log.check import check_timestamp

Word: TypeAlias = Literal["earliest", "latest"]
Seqs: TypeAlias = dict[str, int | dict[str, int]]  # by shard, or by stream and shard
Bound: TypeAlias = Word | int | Seqs

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def bound_of(text: str) -> Bound:
    """What a text says: a number is a time too, in milliseconds since 1970; times without a zone are UTC."""
    text = text.strip()
    for word in get_args(Word):
        if text.lower() == word:
            return cast(Word, word)
    try:
        if text.startswith("{"):
            return msgspec.json.decode(text, type=Seqs)
        if text.lstrip("-").isdigit():
            check_timestamp(int(text))
            return int(text)
        at = dt.datetime.fromisoformat(text)
    except (ValueError, TypeError):
        raise UsageError(
            f"{shown(text)} is no place in a stream: expected earliest, latest, a time "
            '(2026-03-01T00:00:00Z, or milliseconds since 1970), or a seq for each shard ({"0": 17, "1": 4})'
        ) from None
    at = at.replace(tzinfo=dt.UTC) if at.tzinfo is None else at
    return (at - _EPOCH) // dt.timedelta(milliseconds=1)
