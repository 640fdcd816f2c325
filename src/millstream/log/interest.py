"""What a consumer is interested in: streams by name, and patterns that new streams may match later.

>>> from millstream.log.open import open
>>> log = open("memory:")
>>> log.create("logs.web")
>>> interest = Interest(log, ["logs.*"])
>>> log.create("logs.mail", shards=2)
>>> sorted(interest.ends())
[('logs.mail', 0), ('logs.mail', 1), ('logs.web', 0)]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from millstream.errors import UnknownStream, UsageError, shown
from millstream.log.group import Place
from millstream.log.log import Log
from millstream.names import check_name

_PATTERN = frozenset("*?[")


class Interest:
    """The streams that were asked for, as far as they exist."""

    def __init__(self, log: Log, streams: str | Sequence[str]) -> None:
        """Take names and shell patterns; `UnknownStream` if a name is none."""
        asked = list(streams) if isinstance(streams, Iterable) and not isinstance(streams, str) else [streams]
        for name in asked:
            if not isinstance(name, str):
                raise UsageError(f"{shown(name)} is no name of a stream: expected a text, or several")
        self.patterns = tuple(name for name in asked if _PATTERN & set(name))
        self.names = frozenset(check_name("stream", name) for name in asked if name not in set(self.patterns))
        self._log = log
        for name in sorted(self.names):
            log.settings(name)

    def streams(self) -> list[str]:
        """Those that exist now, sorted, and those that were named."""
        found = set(self.names)
        for pattern in self.patterns:
            found.update(self._log.streams(pattern))
        return sorted(found)

    def ends(self) -> dict[Place, tuple[int, int]]:
        """For each shard of the streams the first seq it holds, and its end."""
        found = {}
        for stream in self.streams():
            for shard, ends in enumerate(self.stream_ends(stream) or ()):
                found[stream, shard] = ends
        return found

    def stream_ends(self, stream: str) -> list[tuple[int, int]] | None:
        """The same of one stream; None: it is gone, and only a pattern had asked for it."""
        with suppress(UnknownStream):
            return self._log.ends(stream)
        if stream in self.names:
            raise UnknownStream(
                f"the stream '{stream}' was deleted while a consumer was reading it: what was handed out "
                "stays valid; make a new consumer, without this stream or after `create`"
            )
        return None
