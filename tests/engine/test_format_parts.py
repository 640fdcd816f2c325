"""The format for plain PySpark without Spark: its classes called as Spark calls them."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

import millstream
from millstream.engine.spark.format import MillstreamSource
from millstream.engine.spark.format.options import read_options, write_options
from millstream.engine.spark.format.places import Ranges
from millstream.engine.spark.format.reader import BatchReader
from millstream.engine.spark.format.stream_reader import StreamReader
from millstream.engine.spark.format.writer import Wrote
from millstream.errors import (
    Fenced,
    InvalidName,
    SeqPastEnd,
    SeqTrimmed,
    ShardOutOfRange,
    StoreFailed,
    UnknownStream,
    Unsupported,
    UsageError,
    WrongType,
)
from millstream.keyhash import shard_of

ORDER = pa.schema([("who", pa.utf8()), ("amount", pa.int64())])
ALL = ReadAllAvailable()
Offset = dict[str, Any]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file:{tmp_path}/log"


@pytest.fixture
def log(url: str) -> Iterator[millstream.Log]:
    with millstream.open(url) as log:
        yield log


def source(url: str, stream: str = "orders", **options: str) -> MillstreamSource:
    chosen = {"log": url, **options} if "streams" in options else {"log": url, "stream": stream, **options}
    return MillstreamSource(chosen)


def streaming(url: str, stream: str = "orders", **options: str) -> StreamReader:
    made = source(url, stream, **options)
    return made.streamReader(made.schema())


def table(reader: BatchReader, tasks: Iterable[Ranges]) -> pa.Table:
    """What all tasks read."""
    return pa.Table.from_batches([batch for task in tasks for batch in reader.read(task)])


def read(made: MillstreamSource) -> pa.Table:
    reader = made.reader(made.schema())
    return table(reader, reader.partitions())


def seqs(reader: StreamReader, start: Offset, end: Offset) -> list[tuple[int, int]]:
    tasks = reader.partitions(start, end)
    found = [batch for task in tasks for batch in reader.read(task)]
    return [(row["shard"], row["seq"]) for batch in found for row in batch.to_pylist()]


def after(reader: StreamReader, start: Offset, limit: ReadLimit = ALL) -> Offset:
    """The next offset, as it comes back from Spark's checkpoint."""
    found: Offset = json.loads(json.dumps(reader.latestOffset(start, limit)))
    return found


def fill(log: millstream.Log, stream: str, count: int, shard: int = 0) -> None:
    for number in range(count):
        log.append(stream, b"%d" % number, key=b"k", timestamp=1_000 * number, shard=shard)


def write(url: str, given: pa.Table, schema: StructType, **options: str) -> None:
    """One task writes all."""
    writer = source(url, **options).writer(schema, overwrite=False)
    writer.commit([writer.write(iter(given.to_batches()))])


# -- options


def test_an_unknown_option_is_refused_with_the_known_ones(url: str) -> None:
    with pytest.raises(UsageError, match="'steam' for reading; it knows log, stream, streams, start"):
        read_options({"log": url, "steam": "orders"})
    with pytest.raises(UsageError, match="'start' for writing; it knows log, stream, writer, batch"):
        write_options({"log": url, "stream": "orders", "start": "latest"})


def test_options_are_known_in_any_case_and_sparks_own_are_let_through(url: str) -> None:
    given = {"LOG": url, "Stream": "orders", "FAILONDATALOSS": "False"}
    assert not read_options(given).fail_on_data_loss
    sparks = {"checkpointlocation": "x", "queryname": "y"}
    assert write_options({"log": url, "stream": "orders", **sparks}).stream == "orders"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"stream": "orders"}, 'the option "log" is missing'),
        ({"log": "file:/a"}, 'one of the options "stream"'),
        ({"log": "file:/a", "stream": "orders", "streams": "*"}, 'one of the options "stream"'),
        ({"log": "file:/a", "stream": "o", "start": "yesterday"}, "'yesterday' is no place in a stream"),
        ({"log": "file:/a", "stream": "o", "start": '{"0": "x"}'}, "is no place in a stream"),
        (
            {"log": "file:/a", "stream": "o", "flatten": "perhaps"},
            "\"flatten\" is 'perhaps': expected true or",
        ),
        ({"log": "file:/a", "stream": "o", "maxRecordsPerBatch": "0"}, "expected a whole number from 1 on"),
    ],
)
def test_what_is_wrong_with_options_is_said(given: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_options(given)


def test_a_batch_without_a_writer_and_a_bad_name_are_refused() -> None:
    with pytest.raises(UsageError, match='name it by the option "writer"'):
        write_options({"log": "file:/a", "stream": "orders", "batch": "3"})
    with pytest.raises(InvalidName):
        write_options({"log": "file:/a", "stream": "orders", "writer": "a b"})


def test_options_never_show_where_the_log_is() -> None:
    given = {"log": "redis://ann:secret@host", "stream": "orders"}
    assert "secret" not in repr(read_options(given)) + repr(write_options(given))
    with pytest.raises(UsageError) as failure:
        read_options({**given, "password": "secret"})
    assert "secret" not in str(failure.value)


def test_a_log_that_processes_cannot_share_is_refused() -> None:
    with pytest.raises(Unsupported, match="'memory:' log does not support several processes at once"):
        source("memory:").schema()
    with pytest.raises(UsageError, match="is a relative path"):
        source("file:log").schema()


# -- columns


def test_a_field_that_is_called_like_a_column_is_refused_and_can_be_read_within_the_value(
    url: str, log: millstream.Log
) -> None:
    log.create("orders", value=pa.schema([("timestamp", pa.int64())]))
    log.append("orders", {"timestamp": 7}, timestamp=0)
    with pytest.raises(UsageError, match=r"a field 'timestamp', .* use value\.timestamp"):
        source(url).schema()
    assert read(source(url, flatten="false")).column("value").to_pylist() == [{"timestamp": 7}]


def test_types_that_spark_lacks_become_wider_ones_or_are_refused(url: str, log: millstream.Log) -> None:
    log.create("orders", value=pa.schema([("small", pa.uint8()), ("many", pa.list_(pa.uint32()))]))
    log.append("orders", {"small": 255, "many": [2**32 - 1]})
    assert (
        source(url).schema().simpleString().startswith("struct<key:binary,small:smallint,many:array<bigint>,")
    )
    assert read(source(url)).select(["small", "many"]).to_pylist() == [{"small": 255, "many": [2**32 - 1]}]
    log.create("huge", value=pa.schema([("n", pa.uint64())]))
    with pytest.raises(WrongType, match="no type for the column 'n', which is uint64"):
        source(url, "huge").schema()


def test_only_the_columns_that_are_asked_for_are_read(url: str, log: millstream.Log) -> None:
    log.create("orders", value=ORDER)
    log.append("orders", {"who": "ann", "amount": 2})
    made = source(url)
    wanted = StructType([made.schema()["amount"], made.schema()["key"]])
    reader = made.reader(wanted)
    assert table(reader, reader.partitions()).to_pylist() == [{"amount": 2, "key": None}]
    with pytest.raises(WrongType, match="has no column 'price': it has key binary, who string"):
        made.reader(StructType().add("price", "integer"))
    with pytest.raises(WrongType, match="'amount' is bigint, not string"):
        made.reader(StructType().add("amount", "string"))


def test_a_tombstone_has_no_fields_and_becomes_one_again(url: str, log: millstream.Log) -> None:
    log.create("orders", value=pa.schema([pa.field("who", pa.utf8(), nullable=False), ("n", pa.int64())]))
    log.append("orders", {"who": "ann", "n": None}, key=b"a", timestamp=1)
    log.append("orders", None, key=b"a", timestamp=2)
    found = read(source(url))
    assert found.column("who").to_pylist() == ["ann", None]
    log.create("copy", value=log.settings("orders").value)
    write(url, found.drop(["seq"]), _without_seq(source(url).schema()), stream="copy")
    [batch] = log.read("copy", 0, 0).batches
    assert batch.column(3).to_pylist() == [{"who": "ann", "n": None}, None]
    assert batch.column(1).to_pylist() == [1, 2]


def test_several_streams_are_read_with_their_names(url: str, log: millstream.Log) -> None:
    for name in ("orders-a", "orders-b", "others"):
        log.create(name)
        log.append(name, name.encode())
    found = read(source(url, streams="orders-*"))
    assert found.select(["stream", "value"]).to_pylist() == [
        {"stream": "orders-a", "value": b"orders-a"},
        {"stream": "orders-b", "value": b"orders-b"},
    ]
    log.create("orders-c", value=ORDER)
    with pytest.raises(UsageError, match="'orders-a' and 'orders-c' have values of different types"):
        source(url, streams="orders-*").schema()
    with pytest.raises(UnknownStream, match=r"'bills-\*': it has orders-a, orders-b, orders-c, others"):
        source(url, streams="bills-*").schema()


# -- from where to where


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, range(10)),
        ({"start": "latest"}, range(0)),
        ({"start": "1970-01-01T00:00:03Z"}, range(3, 10)),
        ({"start": "1970-01-01 01:00:03+01:00", "end": "7000"}, range(3, 7)),
        ({"start": '{"0": 4}', "end": '{"orders": {"0": 6}}'}, range(4, 6)),
        ({"recordsPerTask": "3"}, range(10)),
    ],
)
def test_a_read_begins_and_ends_where_it_is_told(
    url: str, log: millstream.Log, options: dict[str, str], expected: range
) -> None:
    log.create("orders")
    fill(log, "orders", 10)
    reader = source(url, **options).reader(source(url).schema())
    found = [row["seq"] for task in reader.partitions() for b in reader.read(task) for row in b.to_pylist()]
    assert found == list(expected)


def test_seqs_that_are_not_there_are_refused(url: str, log: millstream.Log) -> None:
    log.create("orders", shards=2)
    fill(log, "orders", 10)

    def tasks(start: str) -> list[Ranges]:
        return source(url, start=start).reader(source(url).schema()).partitions()

    with pytest.raises(UsageError, match="a seq is missing for stream 'orders', shard 1"):
        tasks('{"0": 1}')
    with pytest.raises(UsageError, match="no stream 'orders' with a shard 2"):
        tasks('{"0": 1, "1": 0, "2": 0}')
    with pytest.raises(SeqPastEnd, match="there is no seq 11; it has 0 to 10"):
        tasks('{"0": 11, "1": 0}')
    log.trim("orders", 0, 5)
    reader = source(url, start='{"0": 1, "1": 0}').reader(source(url).schema())
    with pytest.raises(SeqTrimmed, match="seq 1 is gone"):
        table(reader, reader.partitions())


# -- reading on and on


def test_a_query_that_is_restarted_before_its_first_batch_is_done_begins_at_the_same_place(
    url: str, log: millstream.Log
) -> None:
    log.create("orders")
    fill(log, "orders", 3)
    reader = streaming(url, start="latest")
    first = reader.initialOffset()
    end = after(reader, first)
    fill(log, "orders", 2)
    again = streaming(url, start="latest")  # the offset was logged, the batch was not done
    assert again.initialOffset() == first
    assert seqs(again, first, end) == []
    assert seqs(again, end, after(again, end)) == [(0, 3), (0, 4)]


def test_a_batch_is_as_large_as_it_may_be_and_shards_advance_together(url: str, log: millstream.Log) -> None:
    log.create("orders", shards=2)
    fill(log, "orders", 10, shard=0)
    fill(log, "orders", 3, shard=1)
    reader = streaming(url, maxRecordsPerBatch="4")
    assert reader.getDefaultReadLimit() == ReadMaxRows(4)
    start, found = reader.initialOffset(), []
    while (end := after(reader, start, ReadMaxRows(4))) != start:
        found.append(seqs(reader, start, end))
        start = end
    assert [len(batch) for batch in found] == [4, 4, 4, 1]
    assert found[0] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert sorted(seq for batch in found for seq in batch) == [(0, n) for n in range(10)] + [
        (1, n) for n in range(3)
    ]


def test_without_anything_new_the_offset_stays_as_it_is(url: str, log: millstream.Log) -> None:
    log.create("orders")
    reader = streaming(url)
    end = after(reader, reader.initialOffset())
    assert after(reader, end) == end
    assert reader.partitions(end, end) == []


def test_new_shards_and_streams_are_read_from_their_beginning(url: str, log: millstream.Log) -> None:
    log.create("orders-a")
    reader = streaming(url, streams="orders-*", start="latest")
    start = after(reader, reader.initialOffset())
    log.alter("orders-a", shards=2)
    log.create("orders-b")
    fill(log, "orders-a", 1, shard=1)
    fill(log, "orders-b", 1)
    assert seqs(reader, start, after(reader, start)) == [(1, 0), (0, 0)]


def test_what_comes_later_is_not_read_by_a_query_for_what_is_available_now(
    url: str, log: millstream.Log
) -> None:
    log.create("orders")
    fill(log, "orders", 2)
    reader = streaming(url)
    reader.prepareForTriggerAvailableNow()
    fill(log, "orders", 2)
    end = after(reader, reader.initialOffset())
    assert seqs(reader, reader.initialOffset(), end) == [(0, 0), (0, 1)]
    assert after(reader, end) == end


def test_records_that_are_gone_before_they_were_read_stop_the_query(url: str, log: millstream.Log) -> None:
    log.create("orders")
    fill(log, "orders", 4)
    reader = streaming(url)
    start = reader.initialOffset()
    end = after(reader, start, ReadMaxRows(1))
    log.trim("orders", 0, 3)
    with pytest.raises(SeqTrimmed, match="would go on at seq 1, and the log begins at 3: 2 seqs") as failure:
        after(reader, end)
    assert (failure.value.first, failure.value.missing) == (3, 2)
    with pytest.raises(SeqTrimmed):  # a batch that is done again
        seqs(reader, start, end)
    lenient = streaming(url, failOnDataLoss="false")
    assert seqs(lenient, start, end) == []
    assert seqs(lenient, end, after(lenient, end, ReadMaxRows(1))) == [(0, 3)]


def test_a_stream_that_was_deleted_stops_the_query(url: str, log: millstream.Log) -> None:
    log.create("orders-a")
    log.create("orders-b")
    reader = streaming(url, streams="orders-*")
    end = after(reader, reader.initialOffset())
    log.delete("orders-a")
    with pytest.raises(UnknownStream, match="stream 'orders-a' is without its shard 0"):
        after(reader, end)


def test_the_groups_offsets_follow_the_query(url: str, log: millstream.Log) -> None:
    log.create("orders")
    fill(log, "orders", 3)
    reader = streaming(url, group="spark")
    end = after(reader, reader.initialOffset())
    assert log.offsets("spark") == {}
    for _ in range(2):
        reader.commit(end)
        assert log.offsets("spark") == {("orders", 0): 3}
    fill(log, "orders", 2)
    end = after(reader, end)
    assert log.offsets("spark") == {("orders", 0): 3}
    assert after(reader, end) == end  # it is asked for the next batch when this one is done
    assert log.offsets("spark") == {("orders", 0): 5}


# -- writing

ROWS = StructType().add("key", "string").add("value", "string")


def rows(*values: str) -> pa.Table:
    return pa.table({"key": list(values), "value": list(values)})


def values_of(log: millstream.Log, stream: str = "orders") -> list[bytes | None]:
    shards = range(log.settings(stream).shards)
    return [record.value for shard in shards for record in log.read(stream, shard, 0).records()]


def test_a_batch_under_a_name_is_written_once(url: str, log: millstream.Log) -> None:
    log.create("orders")
    for _ in range(2):
        write(url, rows("a", "b"), ROWS, writer="load", batch="7")
    assert values_of(log) == [b"a", b"b"]
    with pytest.raises(Fenced, match="batch 7 is not written to stream 'orders'"):
        write(url, rows("a"), ROWS, writer="load", batch="7")  # not what was written as batch 7
    with pytest.raises(Fenced, match="its writer has written a later one"):
        write(url, rows("a"), ROWS, writer="load", batch="6")
    write(url, rows("c"), ROWS, writer="load", batch="8")
    write(url, rows("c"), ROWS)
    write(url, rows("c"), ROWS)
    assert values_of(log) == [b"a", b"b", b"c", b"c", b"c"]


def test_nothing_is_visible_before_the_commit_nor_without_a_task(url: str, log: millstream.Log) -> None:
    log.create("orders")
    writer = source(url).writer(ROWS, overwrite=False)
    wrote = writer.write(iter(rows("a").to_batches()))
    assert values_of(log) == []
    with pytest.raises(StoreFailed, match="1 tasks of 2 have not told"):
        writer.commit([wrote, None])
    writer.commit([wrote, Wrote((), 0, None)])
    assert values_of(log) == [b"a"]


def test_keys_go_to_their_shards_and_keep_their_order(url: str, log: millstream.Log) -> None:
    log.create("orders", shards=4)
    keys = [f"k{number % 9}" for number in range(500)]
    given = pa.table({"key": keys, "value": [str(number) for number in range(500)]})
    write(url, given, ROWS)
    seen: dict[bytes | None, list[int]] = {}
    for shard in range(4):
        for record in log.read("orders", shard, 0).records():
            assert record.key is not None
            assert shard_of(record.key, 4) == shard
            seen.setdefault(record.key, []).append(int(record.value))
    assert sum(map(len, seen.values())) == 500
    assert all(found == sorted(found) for found in seen.values())


def test_a_shard_may_be_given(url: str, log: millstream.Log) -> None:
    log.create("orders", shards=3)
    schema = StructType().add("value", "binary").add("shard", "integer")
    write(url, pa.table({"value": [b"a", b"b"], "shard": pa.array([2, 1], pa.int32())}), schema)
    assert [log.read("orders", shard, 0).num_records for shard in range(3)] == [0, 1, 1]
    with pytest.raises(ShardOutOfRange, match="no shard 3"):
        write(url, pa.table({"value": [b"a"], "shard": pa.array([3], pa.int32())}), schema)


def test_columns_that_do_not_fit_are_named(url: str, log: millstream.Log) -> None:
    log.create("orders")
    log.create("columnar", value=ORDER)
    for stream, schema, words in [
        ("orders", "value integer", "'value' must be binary, not int: cast it"),
        ("orders", "value binary, seq long", "'seq' is the log's to give"),
        ("orders", "value binary, extra integer", "has no column 'extra': it has key binary, value binary"),
        ("orders", "key binary", "'value' is missing"),
        ("columnar", "who string", "'amount' is missing"),
        ("columnar", "who string, amount double", "'amount' must be bigint, not double"),
    ]:
        with pytest.raises(WrongType, match=words):
            source(url, stream).writer(_parsed(schema), overwrite=False)
    with pytest.raises(UsageError, match="a stream only grows"):
        source(url).writer(ROWS, overwrite=True)


def test_a_timestamp_is_cut_to_milliseconds_and_must_be_there(url: str, log: millstream.Log) -> None:
    log.create("orders")
    schema = StructType().add("value", "binary").add("timestamp", "timestamp")
    times = pa.array([-1, 1_999], pa.timestamp("us", "UTC"))
    write(url, pa.table({"value": [b"a", b"b"], "timestamp": times}), schema)
    assert [record.timestamp for record in log.read("orders", 0, 0).records()] == [-1, 1]
    with pytest.raises(WrongType, match="'timestamp' has nulls"):
        write(url, pa.table({"value": [b"a"], "timestamp": pa.nulls(1, times.type)}), schema)


def test_a_stream_that_is_not_there_is_refused_or_made(url: str, log: millstream.Log) -> None:
    with pytest.raises(UnknownStream, match='by the option "create" = "true"'):
        source(url).writer(ROWS, overwrite=False)
    write(url, rows("a"), ROWS, create="true", shards="3")
    assert (log.settings("orders").shards, log.settings("orders").value) == (3, None)
    schema = StructType().add("key", "binary").add("who", "string").add("amount", "long")
    given = pa.table({"key": [b"k"], "who": ["ann"], "amount": [2]})
    write(url, given, schema, stream="columnar", create="true")
    assert log.settings("columnar").value == pa.struct(list(ORDER))
    assert [record.value for record in log.read("columnar", 0, 0).records()] == [{"who": "ann", "amount": 2}]


def test_a_stream_that_is_missing_is_refused_with_those_that_there_are(url: str, log: millstream.Log) -> None:
    log.create("bills")
    with pytest.raises(UnknownStream, match="no stream 'orders': it has bills"):
        source(url).schema()


def _without_seq(schema: StructType) -> StructType:
    return StructType([column for column in schema if column.name != "seq"])


def _parsed(text: str) -> StructType:
    """A schema, without a session that would parse it."""
    schema = StructType()
    for column in text.split(", "):
        name, kind = column.split()
        schema = schema.add(name, kind)
    return schema
