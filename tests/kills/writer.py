"""The writers: `python -m tests.kills.writer URL REPORTS NAME RUN SEED`.

- `once` and `bulk` are producers with a name, who go on from their last position;
- `direct` commits to many shards at once, under a fence of its own, staged records too;
- `least` has no name, and appends, sends and fires.
"""

from __future__ import annotations

from itertools import count, islice

from millstream import Append, Commit, Durability, Fence, Producer, Receipt, Sent
from millstream.record import VALUE_BYTES, Row, rows_to_batch
from tests.kills.history import Acked, Failed, Id
from tests.kills.worker import READ, TABLE, Job, run, value_of

_ACKED_S = 60
_TABLE_KEYS = 12


def once(job: Job) -> None:
    """Records one by one, with keys, exactly once."""
    linger_ms = job.random.choice([0, 1, 5])
    with job.log.producer(
        "orders", name=job.name, durability=_durability(job), linger_ms=linger_ms
    ) as producer:
        numbers = count(_after(producer.last_position()))
        while not job.stop.is_set():
            sent = []
            for number in islice(numbers, job.random.choice([1, 3, 40, 100])):
                value = value_of(Id(job.name, job.run, number), job.random.choice([0, 20]))
                key = b"k%d" % (number % 17)
                sent.append((number, producer.send(value, key=key, position=b"%d" % number)))
            _tell(job, sent)
            job.pause(0.06)


def bulk(job: Job) -> None:
    """Large Arrow batches, exactly once."""
    with job.log.producer("events", name=job.name, durability=_durability(job)) as producer:
        numbers = count(_after(producer.last_position()))
        while not job.stop.is_set():
            _send_bulk(job, producer, list(islice(numbers, job.random.choice([1, 1, 3]))))
            job.pause(0.6)


def _send_bulk(job: Job, producer: Producer, numbers: list[int]) -> None:
    sent = []
    for number in numbers:
        shard = job.random.randrange(READ["events"])
        rows = _rows(job, number, job.random.choice([1, 50, 600, 1_500]))
        batch = rows_to_batch(rows, VALUE_BYTES)
        receipt = producer.send_batch(batch, shard=shard, position=b"%d" % number)
        sent.append((number, len(rows), receipt))
    for number, parts, receipt in sent:
        for placed in receipt.wait(_ACKED_S):
            job.report.tell(
                _acked(job, number, placed.stream, placed.shard, placed.first, count=parts, parts=parts)
            )


def direct(job: Job) -> None:
    """Commits over many shards, some of them sent twice, each there once and whole."""
    fence_run = job.log.take_over(job.name)
    known = job.log.fence(job.name)
    for number in count(_after(known.position if known else None)):
        if job.stop.is_set():
            return
        fence = Fence(job.name, fence_run, number, b"digest", b"%d" % number)
        commit = _commit(job, fence, _appends(job, number))
        receipt = job.log.commit(commit, _durability(job))
        parts = sum(placed.next - placed.first for placed in receipt.placed)
        part = 0
        for placed in receipt.placed:
            size = placed.next - placed.first
            where = placed.stream, placed.shard, placed.first
            job.report.tell(_acked(job, number, *where, part=part, count=size, parts=parts))
            part += size
        if job.random.random() < 0.2:
            _send_again(job, commit, receipt)
        job.pause(0.06)


def _appends(job: Job, number: int) -> list[Append]:
    """Rows for some shards, all of one commit."""
    places = [(stream, shard) for stream, shards in READ.items() for shard in range(shards)]
    chosen = job.random.sample(places, job.random.randint(1, len(places)))
    sizes = [job.random.choice([1, 2, 30]) for _ in chosen]
    rows = _rows(job, number, sum(sizes))
    return [
        Append(*place, [rows.pop(0) for _ in range(size)]) for place, size in zip(chosen, sizes, strict=True)
    ]


def _commit(job: Job, fence: Fence, appends: list[Append]) -> Commit:
    """The records in the commit itself, or the last of them staged."""
    if job.random.random() < 0.8:
        return Commit(records=tuple(appends), fence=fence)
    *others, (last) = appends
    batch = rows_to_batch(list(last.records), VALUE_BYTES)
    staged = job.log.stage(last.stream, last.shard, [batch])
    return Commit(records=tuple(others), staged=(staged,), fence=fence)


def _send_again(job: Job, commit: Commit, receipt: Receipt) -> None:
    again = job.log.commit(commit)
    if again.applied or again.placed != receipt.placed:
        job.report.tell(Failed(f"{commit.fence} was sent again, and the log said {again}, not {receipt}"))


def least(job: Job) -> None:
    """Appends, producers without a name, and a table."""
    numbers, changes = count(), count()
    while not job.stop.is_set():
        match job.random.choice(["append", "send", "fire", "table"]):
            case "append":
                _append(job, next(numbers))
            case "send":
                _send(job, numbers, _durability(job))
            case "fire":
                _send(job, numbers, Durability.FIRE)
            case "table":
                _change_table(job, next(changes))
        job.pause(0.03)


def _append(job: Job, number: int) -> None:
    value = value_of(Id(job.name, job.run, number))
    (placed,) = job.log.append("orders", value, durability=_durability(job)).placed
    job.report.tell(_acked(job, number, placed.stream, placed.shard, placed.first))


def _send(job: Job, numbers: count[int], durability: Durability) -> None:
    with job.log.producer("orders", durability=durability) as producer:
        sent = []
        for number in islice(numbers, job.random.choice([1, 20, 100])):
            value = value_of(Id(job.name, job.run, number), 30)
            sent.append((number, producer.send(value, shard=job.random.randrange(READ["orders"]))))
        if durability is not Durability.FIRE:
            _tell(job, sent)


def _change_table(job: Job, number: int) -> None:
    writer = f"{job.name}-table"
    key = b"t%d" % job.random.randrange(_TABLE_KEYS)
    (placed,) = job.log.append(TABLE, value_of(Id(writer, job.run, number)), key=key).placed
    job.report.tell(Acked(writer, job.run, TABLE, placed.shard, placed.first, number))


def _tell(job: Job, sent: list[tuple[int, Sent]]) -> None:
    """Wait until all is acknowledged, and report it."""
    wheres = [(number, receipt.wait(_ACKED_S)) for number, receipt in sent]
    job.report.tell(*(_acked(job, number, at.stream, at.shard, at.seq) for number, at in wheres))


def _acked(
    job: Job, number: int, stream: str, shard: int, seq: int, *, part: int = 0, count: int = 1, parts: int = 1
) -> Acked:
    return Acked(job.name, job.run, stream, shard, seq, number, part, count, parts)


def _rows(job: Job, number: int, parts: int) -> list[Row]:
    pad = job.random.choice([0, 60])
    now = job.log.clock.now_ms()
    return [
        (now, None, value_of(Id(job.name, job.run, number, part, parts), pad), None) for part in range(parts)
    ]


def _durability(job: Job) -> Durability:
    return job.random.choice([Durability.WRITTEN, Durability.WRITTEN, Durability.SYNCED])


def _after(position: bytes | None) -> int:
    """The number to go on with."""
    return 0 if position is None else int(position) + 1


if __name__ == "__main__":
    run({"once": once, "bulk": bulk, "direct": direct, "least": least})
