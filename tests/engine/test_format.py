"""Plain PySpark programs that read and write streams: `format("millstream")` on a real, local Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import millstream
from millstream.engine.spark import register_format, run, spark_session
from millstream.engine.spark.format import MillstreamSource
from millstream.flow import Flow


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = spark_session("format", master="local[2]", settings={"spark.sql.shuffle.partitions": "2"})
    register_format(session)
    yield session
    session.stop()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[millstream.Log]:
    with millstream.open(f"file:{tmp_path}/log") as log:
        yield log


class Total(msgspec.Struct, frozen=True):
    """What somebody has bought."""

    count: int = 0
    amount: int = 0


def add(total: Total, amount: int) -> Total:
    return Total(total.count + 1, total.amount + amount)


def failing(folder: Path) -> type[MillstreamSource]:
    """The format, on a driver that dies at the commit: before what the file `before` has, or after it."""

    class Failing(MillstreamSource):
        @classmethod
        def name(cls) -> str:
            return "failing"

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: ANN401, N802 - as Spark calls it
            writer = super().streamWriter(schema, overwrite)
            commit = writer.commit

            def dying(messages: list[Any], batchId: int) -> None:  # noqa: N803 - as Spark calls it
                when = folder / f"{batchId}"
                if when.exists():
                    after = when.read_text() == "after"
                    when.rename(folder / f"{batchId} died")
                    if after:
                        commit(messages, batchId)
                    raise RuntimeError("the driver died")
                commit(messages, batchId)

            writer.commit = dying  # type: ignore[method-assign]
            return writer

    return Failing


def load(spark: SparkSession, log: millstream.Log, stream: str, **options: str) -> DataFrame:
    return spark.read.format("millstream").options(log=log.url, stream=stream, **options).load()


def follow(spark: SparkSession, log: millstream.Log, stream: str, **options: str) -> DataFrame:
    return spark.readStream.format("millstream").options(log=log.url, stream=stream, **options).load()


def save(frame: DataFrame, log: millstream.Log, stream: str, **options: str) -> None:
    frame.write.format("millstream").options(log=log.url, stream=stream, **options).mode("append").save()


def copying(
    frame: DataFrame, log: millstream.Log, stream: str, checkpoint: Path, name: str = "millstream"
) -> StreamingQuery:
    """A query that writes all that there is now."""
    writer = frame.drop("seq").writeStream.format(name).options(log=log.url, stream=stream)
    return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()


def fill(log: millstream.Log, stream: str, numbers: range) -> None:
    with log.producer(stream) as producer:
        for number in numbers:
            producer.send(b"%d" % number, key=b"k%d" % (number % 7), timestamp=number)


def content(log: millstream.Log, stream: str) -> list[list[tuple[Any, ...]]]:
    """All that a stream holds, shard by shard."""
    return [
        [(r.timestamp, r.key, r.value, r.headers) for r in log.read(stream, shard, 0).records()]
        for shard in range(log.settings(stream).shards)
    ]


def test_a_stream_is_a_frame_and_a_frame_a_stream(spark: SparkSession, log: millstream.Log) -> None:
    log.create("orders", shards=3)
    log.append("orders", b"two", key=b"ann", timestamp=1_500, headers={"from": b"web", "none": None}, shard=2)
    fill(log, "orders", range(2_000))
    frame = load(spark, log, "orders", recordsPerTask="500")
    assert frame.count() == 2_001
    assert [name for name, _ in frame.dtypes] == ["key", "value", "timestamp", "headers", "shard", "seq"]
    assert frame.dtypes[2:4] == [
        ("timestamp", "timestamp"),
        ("headers", "array<struct<name:string,value:binary>>"),
    ]
    [row] = frame.where("key = cast('ann' as binary)").collect()
    assert (row.value, row.timestamp.timestamp(), row.shard, row.seq) == (b"two", 1.5, 2, 0)
    assert [tuple(header) for header in row.headers] == [("from", b"web"), ("none", None)]
    log.create("copy", shards=3)
    save(frame.drop("seq").coalesce(1).sortWithinPartitions("shard"), log, "copy")
    assert sorted(map(sorted, content(log, "copy"))) == sorted(map(sorted, content(log, "orders")))


def test_a_columnar_stream_has_its_fields_as_columns(spark: SparkSession, log: millstream.Log) -> None:
    who = spark.createDataFrame(
        [("ann", 2, [1.5]), ("bob", 3, None)], "who string, amount long, prices array<double>"
    )
    save(who, log, "orders", create="true", shards="2")
    assert log.settings("orders").value == pa.struct(
        [("who", pa.utf8()), ("amount", pa.int64()), ("prices", pa.list_(pa.field("element", pa.float64())))]
    )
    log.append("orders", {"who": "cid", "amount": 5, "prices": []})
    frame = load(spark, log, "orders")
    assert frame.agg({"amount": "sum"}).collect()[0][0] == 10
    rows = frame.orderBy("who").select("who", "amount", "prices").collect()
    assert [tuple(row) for row in rows] == [("ann", 2, [1.5]), ("bob", 3, None), ("cid", 5, [])]


def test_what_a_flow_has_written_is_read(spark: SparkSession, log: millstream.Log) -> None:
    log.create("orders", shards=2)
    with log.producer("orders") as producer:
        for number in range(100):
            producer.send(b"%d" % number, key=b"k%d" % (number % 4))
    flow = Flow("bills")
    flow.source("orders", key=str, value=int).group_by_key().fold(Total(), add).sink("totals")
    run(flow, log.url, until="end", master="local[2]", pages=2)
    totals = load(spark, log, "totals").selectExpr(
        "cast(key as string) as who", "from_json(cast(value as string), 'count int, amount int') as total"
    )
    found = totals.groupBy("who").agg({"total.count": "max", "total.amount": "max"}).collect()
    assert sorted(map(tuple, found)) == [(f"k{key}", 25, sum(range(key, 100, 4))) for key in range(4)]


def test_a_named_batch_is_written_once_and_all_of_it_or_nothing(
    spark: SparkSession, log: millstream.Log
) -> None:
    log.create("orders")
    frame = spark.range(10).selectExpr("cast(id as string) as value")
    for _ in range(2):
        save(frame, log, "orders", writer="load")
    assert load(spark, log, "orders").count() == 10
    broken = spark.range(10).selectExpr("if(id = 9, raise_error('no nine'), cast(id as string)) as value")
    with pytest.raises(PySparkException, match="no nine"):
        save(broken, log, "orders")
    with pytest.raises(PySparkException, match=r"errors\.Fenced: batch 0 is not written to stream 'orders'"):
        save(frame.limit(3), log, "orders", writer="load")
    assert load(spark, log, "orders").count() == 10


def test_a_query_goes_on_where_it_was(spark: SparkSession, log: millstream.Log, tmp_path: Path) -> None:
    log.create("orders", shards=2)
    log.create("copy", shards=2)
    counts = []
    for number in range(2):
        if number == 1:
            log.alter("orders", shards=3)
            log.alter("copy", shards=3)
        fill(log, "orders", range(100 * number, 100 * number + 100))
        frame = follow(spark, log, "orders", maxRecordsPerBatch="30", group="copying")
        query = copying(frame, log, "copy", tmp_path / "checkpoint")
        assert query.awaitTermination(60)
        counts.append([progress.numInputRows for progress in query.recentProgress if progress.numInputRows])
    assert counts == [[30, 30, 30, 10]] * 2
    assert content(log, "copy") == content(log, "orders")
    assert log.offsets("copying") == {
        ("orders", shard): end for shard, (_, end) in enumerate(log.ends("orders"))
    }


def test_a_driver_that_dies_at_a_commit_writes_each_batch_once(
    spark: SparkSession, log: millstream.Log, tmp_path: Path
) -> None:
    log.create("orders", shards=2)
    log.create("copy", shards=2)
    fill(log, "orders", range(100))
    spark.dataSource.register(failing(tmp_path))
    for batch, when in {1: "before", 2: "after"}.items():
        (tmp_path / f"{batch}").write_text(when)
    deaths = 0
    while True:
        frame = follow(spark, log, "orders", maxRecordsPerBatch="30")
        query = copying(frame, log, "copy", tmp_path / "checkpoint", name="failing")
        try:
            assert query.awaitTermination(60)
            break
        except PySparkException as error:
            assert "the driver died" in str(error)  # noqa: PT017 - how often it comes is counted
            deaths += 1
    assert deaths == 2
    assert content(log, "copy") == content(log, "orders")


def test_batches_of_ones_own_are_written_once(
    spark: SparkSession, log: millstream.Log, tmp_path: Path
) -> None:
    log.create("orders")
    log.create("copy")
    fill(log, "orders", range(50))

    def twice(frame: DataFrame, number: int) -> None:
        for _ in range(2):
            save(frame.select("key", "value"), log, "copy", writer="own", batch=str(number))

    writer = follow(spark, log, "orders", maxRecordsPerBatch="30").writeStream.foreachBatch(twice)
    checkpoint = str(tmp_path / "checkpoint")
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    assert log.ends("copy") == [(0, 50)]


def test_what_was_trimmed_before_it_was_read_stops_the_query_in_words(
    spark: SparkSession, log: millstream.Log, tmp_path: Path
) -> None:
    log.create("orders")
    log.create("copy")
    fill(log, "orders", range(10))
    assert copying(follow(spark, log, "orders"), log, "copy", tmp_path / "checkpoint").awaitTermination(60)
    fill(log, "orders", range(10, 20))
    log.trim("orders", 0, 15)
    query = copying(follow(spark, log, "orders"), log, "copy", tmp_path / "checkpoint")
    with pytest.raises(PySparkException, match="SeqTrimmed: stream 'orders', shard 0: the query would go on"):
        query.awaitTermination(60)
    lenient = follow(spark, log, "orders", failOnDataLoss="false")
    assert copying(lenient, log, "copy", tmp_path / "checkpoint").awaitTermination(60)
    assert log.ends("copy") == [(0, 15)]


def test_a_new_query_begins_where_it_is_told(
    spark: SparkSession, log: millstream.Log, tmp_path: Path
) -> None:
    log.create("orders")
    log.create("copy")
    fill(log, "orders", range(10))
    frame = follow(spark, log, "orders", start="4")
    assert copying(frame, log, "copy", tmp_path / "checkpoint").awaitTermination(60)
    assert log.ends("copy") == [(0, 6)]


def test_mistakes_are_told_in_the_librarys_own_words(spark: SparkSession, log: millstream.Log) -> None:
    log.create("orders")
    with pytest.raises(PySparkException, match="does not know the option 'steam' for reading; it knows log,"):
        load(spark, log, "orders", steam="x")
    with pytest.raises(PySparkException, match="UnknownStream: the log has no stream 'bills': it has orders"):
        load(spark, log, "bills")
    with pytest.raises(PySparkException, match="does not support several processes at once"):
        spark.read.format("millstream").options(log="memory:", stream="orders").load()
    with pytest.raises(
        PySparkException, match="WrongType: stream 'orders': the column 'value' must be binary"
    ):
        save(spark.range(1).selectExpr("id as value"), log, "orders")
    frame = spark.range(1).selectExpr("cast(id as string) as value")
    writer = frame.write.format("millstream").options(log=log.url, stream="orders").mode("overwrite")
    with pytest.raises(PySparkException, match="a stream only grows"):
        writer.save()
