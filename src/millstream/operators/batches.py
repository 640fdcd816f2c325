"""Batches: a user's function from Arrow to Arrow, and the rows that come of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from millstream.codec.arrow import from_arrow, to_arrow
from millstream.errors import WrongType, shown
from millstream.flow.node import Pure

Row = tuple[Any, int, Any]  # key, timestamp, value


class Columns(NamedTuple):
    """What a function made of a batch. `keys` None: each row has the key and the place that it had."""

    keys: pa.ChunkedArray | None
    times: pa.ChunkedArray | pa.Array
    values: pa.ChunkedArray


def run_columns(node: Pure, keys: pa.Array, times: pa.Array, values: pa.Array) -> Columns:
    """Give the function some rows as Arrow, and take what it makes of them."""
    batch = pa.RecordBatch.from_arrays([keys, times, values], names=["key", "timestamp", "value"])
    found = _table(node.function(batch) if node.function else batch)
    same = found.num_rows == batch.num_rows
    if "key" not in found.column_names and not same:
        raise WrongType(
            f"it was given {batch.num_rows} rows and gave {found.num_rows}: give the column 'key' as well, "
            "to say which is whose"
        )
    if "timestamp" in found.column_names:
        times = found.column("timestamp").cast(pa.int64())
    elif not same:
        times = pa.repeat(pc.max(times), found.num_rows)
    return Columns(found.column("key") if "key" in found.column_names else None, times, found.column("value"))


def unknown_key(key: Any) -> WrongType:
    """The error for a key that a function was not given."""
    return WrongType(f"it gave the key {shown(key)}, which it was not given: use group_by to change keys")


def run_batch(node: Pure, rows: Sequence[Row]) -> list[Row]:
    """The same for rows of Python objects."""
    before = node.upstream[0]
    keys = [row[0] for row in rows]
    found = run_columns(
        node,
        to_arrow(keys, before.key),
        pa.array([row[1] for row in rows], pa.int64()),
        to_arrow([row[2] for row in rows], before.value),
    )
    if found.keys is not None:
        known = {repr(key): key for key in keys}
        given = from_arrow(found.keys, before.key)
        if strange := [key for key in given if repr(key) not in known]:
            raise unknown_key(strange[0])
        keys = [known[repr(key)] for key in given]
    return list(zip(keys, found.times.to_pylist(), from_arrow(found.values, node.value), strict=True))


def _table(found: Any) -> pa.Table:
    """What a function gave, as Arrow's own table."""
    if isinstance(found, pa.RecordBatch):
        found = pa.Table.from_batches([found])
    elif not isinstance(found, pa.Table):
        if not (hasattr(found, "__arrow_c_stream__") or hasattr(found, "__arrow_c_array__")):
            raise WrongType(
                f"it gave {shown(found)}: expected a pyarrow table or batch, or what speaks Arrow"
            )
        found = pa.table(found)
    if "value" not in found.column_names:
        raise WrongType(
            f"it gave the columns {', '.join(found.column_names) or 'none'}: there must be 'value'"
        )
    return found
