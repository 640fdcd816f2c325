"""A log in trouble: commits that are held up, or fail as planned."""

from __future__ import annotations

import threading

from millstream import Log, Producer, Sent
from millstream.log import Commit, Durability, Receipt


class Trouble:
    """Stands in front of a log's `commit`: keeps what comes, holds it up, and fails as planned."""

    def __init__(self, log: Log) -> None:
        self.seen: list[Commit] = []
        self.before: list[Exception | None] = []  # raised instead of committing, one a call
        self.after: list[Exception | None] = []  # raised although it was committed
        self.entered = threading.Semaphore(0)
        self.open = threading.Event()
        self.open.set()
        self._commit = log.commit
        log.commit = self.commit  # type: ignore[method-assign]

    def commit(self, commit: Commit, durability: Durability | str = Durability.WRITTEN) -> Receipt:
        self.seen.append(commit)
        self.entered.release()
        assert self.open.wait(60)
        before = self.before.pop(0) if self.before else None
        if before is not None:
            raise before
        receipt = self._commit(commit, durability)
        after = self.after.pop(0) if self.after else None
        if after is not None:
            raise after
        return receipt

    def hold(self, producer: Producer) -> Sent:
        """Returns when the writer is held up in a commit of one record; gives its receipt."""
        self.open.clear()
        sent = producer.send(b"held")
        assert self.entered.acquire(timeout=60)
        return sent
