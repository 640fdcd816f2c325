"""The same produce and consume loops against Redis Streams and Kafka, where they are running."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from bench.figure import Figure, Room, rate
from bench.payload import VALUE, fresh_log
from bench.rounds import Ratio, rate_of, side_by_side
from millstream import Log

PAGE = 10_000
PIPELINE = 1_000
AT_FULL_SPEED: dict[str, str | int | float | bool] = {
    "queued.min.messages": 1_000_000,
    "fetch.min.bytes": 100_000,
    "fetch.queue.backoff.ms": 5,
}
NAME = f"millstream-bench-{os.getpid()}"


class Loops(NamedTuple):
    """Produce so many records, and consume them all; `clear` forgets them."""

    produce: Callable[[int], int]
    consume: Callable[[int], int]
    clear: Callable[[], None]


def redis(room: Room) -> Iterator[Figure]:
    """Ours beside Redis Streams: pipelined XADD, XRANGE in pages."""
    if reachable("Redis", 6379):
        yield from compared(room, "redis", redis_loops())


def kafka(room: Room) -> Iterator[Figure]:
    """Ours beside Kafka: confluent-kafka's `produce` and `consume`."""
    if reachable("Kafka", 9092):
        yield from compared(room, "kafka", kafka_loops())


def reachable(name: str, port: int) -> bool:
    """Whether a server is running here; says so in one line if not."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        sys.stderr.write(f"  {name} is not running on 127.0.0.1:{port}: not compared with it\n")
        return False
    return True


def compared(room: Room, rival: str, theirs: Loops) -> Iterator[Figure]:
    """Both loops, ours beside the rival's."""
    number = 50_000 if room.quick else 500_000
    with fresh_log(room.folder / f"rival-{rival}") as log:
        ours = our_loops(log)
        try:
            produced = side_by_side(
                lambda: rate_of(lambda: ours.produce(number)),
                lambda: rate_of(lambda: theirs.produce(number)),
                room.rounds,
            )
            ours.clear(), theirs.clear()
            ours.produce(number), theirs.produce(number)
            consumed = side_by_side(
                lambda: rate_of(lambda: ours.consume(number)),
                lambda: rate_of(lambda: theirs.consume(number)),
                room.rounds,
            )
        finally:
            theirs.clear()
    yield told(f"produce_vs_{rival}", produced, rival)
    yield told(f"consume_vs_{rival}", consumed, rival)


def told(name: str, ratio: Ratio, rival: str) -> Figure:
    """A ratio of record rates."""
    return Figure(name, ratio.value, rate(ratio.ours, "records"), f"{rate(ratio.theirs, 'records')}, {rival}")


def our_loops(log: Log) -> Loops:
    """A producer's `send`, and a consumer's records."""

    def produce(number: int) -> int:
        with log.producer("bench") as producer:
            for _ in range(number):
                producer.send(VALUE)
        return number

    def consume(number: int) -> int:
        size = sum(len(record.value) for record in log.consumer("bench", until="end"))
        return checked(size, number)

    def clear() -> None:
        log.delete("bench")
        log.create("bench")

    return Loops(produce, consume, clear)


def redis_loops() -> Loops:
    """XADD in pipelines of 1,000, XRANGE in pages of 10,000."""
    from redis import Redis

    client = Redis()

    def produce(number: int) -> int:
        for _ in range(number // PIPELINE):
            with client.pipeline(transaction=False) as pipeline:
                for _ in range(PIPELINE):
                    pipeline.xadd(NAME, {b"v": VALUE})
                pipeline.execute()
        return number

    def consume(number: int) -> int:
        size = 0
        last: Any = b"0"
        while found := page(last):
            for _, fields in found:
                size += len(fields[b"v"])
            last = found[-1][0]
        return checked(size, number)

    def page(after: bytes) -> list[Any]:
        found: Any = client.xrange(NAME, min=b"(" + after, count=PAGE)
        return list(found)

    def clear() -> None:
        client.delete(NAME)

    return Loops(produce, consume, clear)


def kafka_loops() -> Loops:
    """`produce` with its callbacks served, `consume` in pages of 10,000."""
    from confluent_kafka import Consumer, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    server: dict[str, str | int | float | bool] = {"bootstrap.servers": "127.0.0.1:9092"}
    admin = AdminClient(server)
    topics: list[str] = []

    def produce(number: int) -> int:
        if not topics:
            topics.append(f"{NAME}-{os.urandom(4).hex()}")
            for made in admin.create_topics([NewTopic(topics[-1], 1, 1)]).values():
                made.result()
        producer = Producer(
            {**server, "linger.ms": 5, "enable.idempotence": True, "queue.buffering.max.messages": 1_000_000}
        )
        for each in range(number):
            producer.produce(topics[-1], VALUE)
            if each % PIPELINE == 0:
                producer.poll(0)
        producer.flush()
        return number

    def consume(number: int) -> int:
        consumer = Consumer({**server, **AT_FULL_SPEED, "group.id": NAME, "enable.auto.commit": False})
        consumer.assign([TopicPartition(topics[-1], 0, 0)])
        size = seen = 0
        while seen < number:
            for message in consumer.consume(PAGE, 10):
                size += len(message.value() or b"")
                seen += 1
        consumer.close()
        return checked(size, number)

    def clear() -> None:
        if topics:
            for gone in admin.delete_topics([topics.pop()]).values():
                gone.result()

    return Loops(produce, consume, clear)


def checked(size: int, number: int) -> int:
    """The number of records, if they were all there."""
    if size != number * len(VALUE):
        raise RuntimeError(f"{size} bytes were read of {number} records of {len(VALUE)}")
    return number
