"""Batches: a user's function from Arrow to Arrow, and the rows that come of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from millstream.codec.arrow import from_arrow, to_arrow
from millstream.errors import WrongType, shown
from millstream.flow.node import Pure

Row = tuple[Any, int, Any]  # key, timestamp, value


def run_batch(node: Pure, rows: Sequence[Row]) -> list[Row]:
    """Give the function some rows, and take what it makes of them."""
    before = node.upstream[0]
    keys = [row[0] for row in rows]
    batch = pa.RecordBatch.from_arrays(
        [
            to_arrow(keys, before.key),
            pa.array([row[1] for row in rows], pa.int64()),
            to_arrow([row[2] for row in rows], before.value),
        ],
        names=["key", "timestamp", "value"],
    )
    found = _table(node.function(batch) if node.function else batch)
    values = from_arrow(found.column("value"), node.value)
    same = found.num_rows == len(rows)
    if "key" in found.column_names:
        known = {repr(key): key for key in keys}
        given = from_arrow(found.column("key"), before.key)
        if strange := [key for key in given if repr(key) not in known]:
            raise WrongType(
                f"it gave the key {shown(strange[0])}, which it was not given: use group_by to change keys"
            )
        keys = [known[repr(key)] for key in given]
    elif not same:
        raise WrongType(
            f"it was given {len(rows)} rows and gave {found.num_rows}: give the column 'key' as well, to say "
            "which is whose"
        )
    if "timestamp" in found.column_names:
        times = found.column("timestamp").cast(pa.int64()).to_pylist()
    else:
        times = [row[1] for row in rows] if same else [max(row[1] for row in rows)] * found.num_rows
    return list(zip(keys, times, values, strict=True))


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
