"""A stream's records as the columns that Spark sees, and back.

>>> import pyarrow as pa
>>> order = pa.struct([("who", pa.utf8()), ("amount", pa.int64())])
>>> schema_of("orders", Form(order, flat=True)).names
['key', 'who', 'amount', 'timestamp', 'headers', 'shard', 'seq']
>>> schema_of("orders", Form(order, flat=False)).simpleString()[:52]
'struct<key:binary,value:struct<who:string,amount:big'
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import (
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from millstream.errors import UsageError, WrongType
from millstream.log.stream import Settings
from millstream.record import HEADERS_TYPE, rows_schema

STREAM = "stream"
TIME = pa.timestamp("us", "UTC")
OURS = ("key", "value", "timestamp", "headers", "shard", "seq", STREAM)

_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.string_view(): pa.utf8(),
    pa.binary_view(): pa.binary(),
}
_WHOLE = ByteType, ShortType, IntegerType, LongType


class Form(NamedTuple):
    """How records are shown: `flat` with the fields of values as columns, `named` with a column `stream`."""

    value: pa.DataType
    flat: bool
    named: bool = False


def form_of(settings: Settings, *, flatten: bool, named: bool = False) -> Form:
    """The form of a stream."""
    return Form(settings.value_type, flatten and pa.types.is_struct(settings.value_type), named)


def arrow_schema(stream: str, form: Form) -> pa.Schema:
    """The columns of a stream, in Arrow; a field that is called like one of ours is refused."""
    values = list(form.value) if form.flat else [pa.field("value", form.value)]
    clash = [field.name for field in values if form.flat and field.name.lower() in OURS]
    if clash:
        raise UsageError(
            f"stream '{stream}': its values have a field '{clash[0]}', and every record has one of its own: "
            f'take values as one column, by the option "flatten" = "false", and use value.{clash[0]}'
        )
    named = [pa.field(STREAM, pa.utf8())] if form.named else []
    return pa.schema(
        [
            *named,
            pa.field("key", pa.binary()),
            # A record without a value, a tombstone, has no fields either, whatever their types promise.
            *(field.with_nullable(True) for field in values),
            pa.field("timestamp", TIME),
            pa.field("headers", HEADERS_TYPE),
            pa.field("shard", pa.int32()),
            pa.field("seq", pa.int64()),
        ]
    )


def schema_of(stream: str, form: Form) -> StructType:
    """The columns of a stream, as Spark has them."""
    fields = arrow_schema(stream, form)
    return StructType([StructField(field.name, spark_type(stream, field)) for field in fields])


def spark_type(stream: str, field: pa.Field) -> DataType:
    """The type that Spark has for a column."""
    try:
        return from_arrow_type(_plain(field.type), prefer_timestamp_ntz=True)
    except PySparkTypeError:
        raise WrongType(
            f"stream '{stream}': Spark has no type for the column '{field.name}', which is {field.type}; "
            "read the stream by millstream's own consumer, or keep it with another type"
        ) from None


def check_wanted(stream: str, form: Form, wanted: StructType) -> None:
    """The columns that were asked for by `schema(...)`: some of the stream's, in any order."""
    known = schema_of(stream, form)
    for column in wanted:
        if column.name not in known.names:
            raise WrongType(f"stream '{stream}' has no column '{column.name}': {_listed(known)}")
        own = known[column.name].dataType
        if own.simpleString() != column.dataType.simpleString():
            raise WrongType(
                f"stream '{stream}': the column '{column.name}' is {own.simpleString()}, not "
                f"{column.dataType.simpleString()}: read it so, and cast it afterwards"
            )


def to_spark(
    batch: pa.RecordBatch, stream: str, shard: int, form: Form, wanted: StructType
) -> pa.RecordBatch:
    """Records of the log as Spark's columns: those that are wanted."""
    seqs, times, keys, values, headers = batch.columns
    count = batch.num_rows
    columns = dict(zip((f.name for f in form.value), values.flatten(), strict=True)) if form.flat else {}
    columns |= {} if form.flat else {"value": values}
    columns |= {"key": keys, "headers": headers, "seq": seqs}
    arrays, fields = [], []
    for column in wanted:
        field = pa.field(column.name, to_arrow_type(column.dataType, timezone="UTC"), column.nullable)
        if column.name == "timestamp":
            array = times.cast(pa.timestamp("ms", "UTC"))
        elif column.name == "shard":
            array = pa.repeat(pa.scalar(shard, pa.int32()), count)
        elif column.name == STREAM:
            array = pa.repeat(pa.scalar(stream), count)
        else:
            array = columns[column.name]
        arrays.append(
            _cast(array, field.type, f"stream '{stream}', shard {shard}: the column '{column.name}'")
        )
        fields.append(field)
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def check_written(stream: str, form: Form, given: StructType) -> None:
    """The columns of what is to be written: all of the value's, and what else there is to a record."""
    known = schema_of(stream, form)
    optional = {"key", "timestamp", "headers", "shard"}
    for column in given:
        name, kind = column.name, column.dataType
        if name == "seq":
            raise WrongType("the column 'seq' is the log's to give: drop it before writing")
        if name not in known.names:
            raise WrongType(f"stream '{stream}' has no column '{name}': {_listed(known, without='seq')}")
        own = known[name].dataType
        same = own.simpleString() == kind.simpleString()
        text = isinstance(kind, StringType) and isinstance(own, BinaryType) and name in ("key", "value")
        number = isinstance(own, _WHOLE) and isinstance(kind, _WHOLE)
        if not (same or text or number):
            raise WrongType(
                f"stream '{stream}': the column '{name}' must be {own.simpleString()}, not "
                f"{kind.simpleString()}: cast it before writing"
            )
    if missing := [name for name in known.names if name not in {*given.names, *optional, "seq"}]:
        raise WrongType(f"the column '{missing[0]}' is missing: stream '{stream}' needs {', '.join(missing)}")


def value_type_of(given: StructType) -> pa.DataType | None:
    """The type of the values of a stream that is made for these columns; None: bytes."""
    own = [column for column in given if column.name not in OURS]
    if own:
        return pa.struct(
            [pa.field(c.name, to_arrow_type(c.dataType, timezone="UTC"), c.nullable) for c in own]
        )
    kinds = [column.dataType for column in given if column.name == "value"]
    if not kinds:
        raise WrongType("there is nothing to write: a column 'value' is missing, or columns that make one")
    if isinstance(kinds[0], BinaryType | StringType):
        return None
    return to_arrow_type(kinds[0], timezone="UTC")


def from_spark(
    batch: pa.RecordBatch, stream: str, form: Form, now_ms: int
) -> tuple[pa.RecordBatch, pa.Array]:
    """Spark's columns as records without seqs, and the shard of each where one is given (else null)."""
    count = batch.num_rows
    given = dict(zip(batch.schema.names, batch.columns, strict=True))

    def column(name: str, kind: pa.DataType) -> pa.Array:
        return _cast(given[name], kind, f"stream '{stream}': the column '{name}'") if name in given else None

    key, headers, shard = (
        column("key", pa.binary()),
        column("headers", HEADERS_TYPE),
        column("shard", pa.int64()),
    )
    if form.flat:
        value = _struct([column(field.name, field.type) for field in form.value], form.value)
    else:
        value = column("value", form.value)
    rows = pa.RecordBatch.from_arrays(
        [
            _milliseconds(given["timestamp"], stream) if "timestamp" in given else _all(now_ms, count),
            pa.nulls(count, pa.binary()) if key is None else key,
            value,
            pa.nulls(count, HEADERS_TYPE) if headers is None else headers,
        ],
        schema=rows_schema(form.value),
    )
    return rows, pa.nulls(count, pa.int64()) if shard is None else shard


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type itself, or the nearest that Spark has, if that holds all of its values."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    return _WIDER.get(kind, kind)


def _cast(array: pa.Array, kind: pa.DataType, what: str) -> pa.Array:
    try:
        return array.cast(kind)
    except pa.ArrowException as error:
        raise WrongType(f"{what} cannot be {kind}: {error}") from None


def _struct(fields: list[pa.Array], kind: pa.DataType) -> pa.Array:
    """A column of structs; where all fields are null there is no value."""
    nulls = [field.is_null().to_numpy(zero_copy_only=False) for field in fields]
    return pa.StructArray.from_arrays(
        fields, fields=list(kind), mask=pa.array(np.logical_and.reduce(nulls) if nulls else [])
    )


def _milliseconds(times: pa.Array, stream: str) -> pa.Array:
    """A record's timestamp knows milliseconds: what is finer is cut off."""
    if times.null_count:
        raise WrongType(
            f"stream '{stream}': the column 'timestamp' has nulls, and every record has a timestamp"
        )
    return pa.array(np.floor_divide(times.cast(TIME).cast(pa.int64()).to_numpy(), 1_000))


def _all(number: int, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(number, pa.int64()), count)


def _listed(known: StructType, without: str = "") -> str:
    return "it has " + ", ".join(
        f"{field.name} {field.dataType.simpleString()}" for field in known if field.name != without
    )
