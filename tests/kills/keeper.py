"""The keeper: upkeep by command, beside all others.

It is `python -m tests.kills.keeper URL REPORTS NAME RUN SEED`.
"""

from __future__ import annotations

import shutil
from itertools import count

import millstream
from tests.kills.history import Failed
from tests.kills.worker import OUT, READ, TABLE, Job, run


def keeper(job: Job) -> None:
    """Merge, compact and verify, over and over."""
    streams = [*READ, OUT, TABLE]
    backups = count()
    while not job.stop.is_set():
        match job.random.choice(["merge", "compact", "verify", "describe", "backup"]):
            case "merge":
                job.log.merge(job.random.choice(streams))
            case "compact":
                job.log.compact()
            case "verify":
                found = job.log.verify(job.random.choice(streams))
                job.report.tell(*(Failed(f"verify: {finding}") for finding in found))
            case "describe":
                job.log.describe(job.random.choice(streams))
            case "backup":
                _back_up(job, next(backups))
        job.pause(0.3)


def _back_up(job: Job, number: int) -> None:
    """A copy that is whole, and as far as the log was before it was begun."""
    target = f"{job.log.url.removeprefix('file:')}.{job.process}.{number}"
    ends = {stream: job.log.ends(stream) for stream in READ}
    job.log.backup(target)
    with millstream.open(f"file:{target}") as copy:
        job.report.tell(*(Failed(f"backup: {finding}") for finding in copy.verify()))
        for stream, before in ends.items():
            if any(end < least for (_, end), (_, least) in zip(copy.ends(stream), before, strict=True)):
                job.report.tell(Failed(f"backup: {stream} ends at {copy.ends(stream)}, not at {before}"))
    shutil.rmtree(target)


if __name__ == "__main__":
    run({"keeper": keeper})
