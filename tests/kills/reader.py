"""The readers, members of two groups: `python -m tests.kills.reader URL REPORTS NAME RUN SEED`.

- `repeat` sees every record, and some again;
- `exactly` makes one output of each record, never two.

Told to stop, a reader first reads all there is.
"""

from __future__ import annotations

from millstream import Consumer, Limits
from millstream.log import Batch
from tests.kills.history import Delivered, Moved, digest
from tests.kills.worker import OUT, READ, Job, id_of, output_of, run

_WAIT_S = 0.2


def repeat(job: Job) -> None:
    """Every record at least once."""
    with job.log.consumer(
        list(READ),
        group="repeat",
        member=_member(job),
        lease=job.random.uniform(0.5, 1.5),
        commit_every=None,
        limits=Limits(records=job.random.choice([40, 300, 2_000])),
    ) as consumer:
        while not _is_over(job, consumer):
            batch = consumer.poll(_WAIT_S)
            if batch is not None:
                job.report.tell(_delivered(consumer, batch))
                job.pause(0.01)
            if job.random.random() < 0.5:
                _commit(job, consumer)


def _commit(job: Job, consumer: Consumer) -> None:
    moved = [Moved("repeat", *place, position.seq) for place, position in consumer.positions().items()]
    if consumer.commit():
        job.report.tell(*moved)


def exactly(job: Job) -> None:
    """Every record once, as an output."""
    with job.log.consumer(
        list(READ),
        group="exactly",
        deliver="once",
        member=_member(job),
        lease=job.random.uniform(0.5, 1.5),
        limits=Limits(records=job.random.choice([40, 300, 2_000])),
        durability=job.random.choice(["written", "synced"]),
    ) as consumer:
        while not _is_over(job, consumer):
            transaction = consumer.transaction(_WAIT_S)
            batch = transaction.batch
            if batch is None:
                continue
            job.report.tell(_delivered(consumer, batch))
            for record in transaction:
                transaction.send(OUT, output_of(record))
            job.pause(0.01)
            if job.random.random() < 0.1:
                transaction.abort()
            elif transaction.commit():
                job.report.tell(Moved("exactly", batch.stream, batch.shard, batch.next_seq))


def _member(job: Job) -> str:
    """A name that goes on from run to run, or one of this run alone."""
    return job.name if job.name.endswith("1") else job.process


def _is_over(job: Job, consumer: Consumer) -> bool:
    """Whether it was told to stop, and the group has nothing left to read."""
    if not job.stop.is_set():
        return False
    done = job.log.offsets(consumer.options.group or "")
    return all(
        done.get((stream, shard), 0) == end
        for stream in READ
        for shard, (_, end) in enumerate(job.log.ends(stream))
    )


def _delivered(consumer: Consumer, batch: Batch) -> Delivered:
    cursor = consumer._reader.held
    assert cursor is not None
    records = list(batch.records())
    return Delivered(
        group=consumer.options.group or "",
        member=consumer.options.member or "",
        generation=cursor.generation,
        stream=batch.stream,
        shard=batch.shard,
        first=batch.from_seq,
        next=batch.next_seq,
        digest=digest((record.seq, id_of(record.value)) for record in records),
    )


if __name__ == "__main__":
    run({"repeat": repeat, "exactly": exactly})
