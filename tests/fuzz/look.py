"""Everything that can be asked of a log that was damaged or forged; only errors of ours may come of it."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from random import Random

from millstream.errors import Bug, MillstreamError
from millstream.log.batch import Limits
from millstream.log.commit import Append, Commit, Fence, Offset
from millstream.log.file.log import FileLog
from tests.crash.check import Violation
from tests.crash.oracle import difference, view_of
from tests.fuzz.template import LEASE_S, Template, open_at, rows

_SHARDS_LOOKED_AT = 5
MANY = 2_500  # so many go to a segment at once


class Looker:
    """Looks at one log; `counts` says what came of it."""

    def __init__(self, root: str, template: Template, counts: Counter[str], *, forged: bool) -> None:
        """Take a folder; what was forged may show anything, what was damaged only what was committed."""
        self._root = root
        self._template = template
        self._counts = counts
        self._forged = forged
        self._written = False

    def look(self, random: Random) -> None:
        """Open it, ask, write, open it again."""
        boot = "boot" if random.random() < 0.6 else "another boot"
        if not self._open_and(boot, self._ask):
            self._counts["not opened"] += 1
            return
        self._open_and(boot, self._write)
        self._open_and(boot, self._ask_again)

    def _open_and(self, boot: str, act: Callable[[FileLog], None]) -> bool:
        try:
            log = open_at(self._root, boot)
        except MillstreamError as error:
            self._note(error)
            return False
        with contextlib.closing(log):
            act(log)
        return True

    def _try(self, call: Callable[[], object]) -> bool:
        try:
            call()
        except MillstreamError as error:
            self._note(error)
            return False
        return True

    def _note(self, error: MillstreamError) -> None:
        if isinstance(error, Bug):
            raise error
        self._counts[f"told: {type(error).__name__}"] += 1

    def _ask(self, log: FileLog) -> None:
        self._judge(log, self._read_all(log))
        self._ask_again(log)
        self._try(log.verify)

    def _ask_again(self, log: FileLog) -> None:
        self._read_all(log)
        names: list[str] = []
        self._try(lambda: names.extend(log.streams()))
        for name in names:
            self._try(lambda name=name: log.describe(name))  # type: ignore[misc]
            self._try(lambda name=name: log.seek(name, 0, 3))  # type: ignore[misc]
        self._try(lambda: log.fence("sink"))
        self._try(lambda: log.offsets("other"))
        self._try(log.statistics)

    def _read_all(self, log: FileLog) -> bool:
        """Whether every record could be read; each is one that was committed."""
        whole = True
        places: list[tuple[str, int, int, int]] = []

        def find() -> None:
            for name in log.streams():
                ends = log.ends(name)[:_SHARDS_LOOKED_AT]
                places.extend((name, shard, *ends[shard]) for shard in range(len(ends)))

        whole &= self._try(find)
        for place in places:
            whole &= self._try(lambda place=place: self._read(log, *place))  # type: ignore[misc]
        return whole

    def _read(self, log: FileLog, name: str, shard: int, first: int, end: int) -> None:
        known = self._template.records(name, shard)
        written = [b"next", *(row[2] for row in rows(MANY))] if self._written else []
        seq = first
        while seq < end:
            batch = log.read(name, shard, seq, Limits(records=7))
            for record in batch.records():
                row = (record.timestamp, record.key, record.value, record.headers)
                if not self._forged and known.get(record.seq) != row and record.value not in written:
                    raise Violation(f"{name}/{shard}, seq {record.seq}: {row} was never committed")
            if batch.next_seq <= seq:
                raise Violation(f"{name}/{shard}: a read from {seq} goes on at {batch.next_seq}")
            seq = batch.next_seq

    def _judge(self, log: FileLog, whole: bool) -> None:
        """What can be read to its end is what was committed, or a prefix."""
        self._counts["read" if whole else "read in part"] += 1
        if not whole or self._forged:
            return
        found = view_of(log)
        if found not in self._template.views:
            raise Violation(f"this was never to be seen: {difference(found, self._template.views[-1])}")
        self._counts["seen " + ("whole" if found == self._template.views[-1] else "less")] += 1

    def _write(self, log: FileLog) -> None:
        """What the next one does with it."""
        self._written = True
        self._try(lambda: log.append("b", b"next", durability="synced"))
        self._try(lambda: log.commit(Commit((Append("b", 1, rows(MANY)),))))
        self._try(lambda: log.commit(Commit(fence=Fence("sink", 2, 0))))
        self._try(lambda: log.take_over("sink"))
        self._try(lambda: log.commit(Commit(offsets=(Offset("other", "b", 0, 3, 4),))))
        self._try(lambda: log.heartbeat("group", "other", ["b"], lease=LEASE_S))
        self._try(lambda: log.trim("b", 0, 2, force=True))
        for call in (log.merge, log.compact, log.retain, log._upkeep._tend_step, log._upkeep._forget_step):
            self._try(call)
        for name in ("c", "b"):
            self._try(lambda name=name: log.delete(name))  # type: ignore[misc]
