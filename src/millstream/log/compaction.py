"""Compaction: of the records under one key only the latest stays; those without a key all stay.

>>> form = pa.schema(
...     [("seq", pa.int64()), ("timestamp", pa.int64()), ("key", pa.binary()), ("value", pa.binary())]
... )
>>> batch = pa.record_batch([[0, 1, 2], [5, 5, 5], [b"a", b"a", None], [b"1", b"2", b"3"]], form)
>>> survivors(batch, latest_seqs([batch]), tombstones_before_ms=0).to_pylist()
[False, True, True]
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc


def latest_seqs(batches: Iterable[pa.RecordBatch]) -> pa.Array:
    """The seq of the last record of each key, and of every record without one."""
    latest: pa.Table | None = None
    kept = []
    for batch in batches:
        with_key = batch.column("key").is_valid()
        kept.append(batch.column("seq").filter(pc.invert(with_key)))
        found = pa.table({"key": batch.column("key"), "seq": batch.column("seq")}).filter(with_key)
        both = found if latest is None else pa.concat_tables([latest, found])
        latest = both.group_by("key").aggregate([("seq", "max")]).rename_columns(["key", "seq"])
    seqs = [] if latest is None else latest.column("seq").chunks
    return pa.chunked_array([*kept, *seqs], pa.int64()).combine_chunks()


def survivors(batch: pa.RecordBatch, latest: pa.Array, *, tombstones_before_ms: int) -> pa.BooleanArray:
    """Which records of a batch stay; tombstones older than that go as well."""
    stay = pc.is_in(batch.column("seq"), value_set=latest)
    tombstone = pc.and_(batch.column("value").is_null(), batch.column("key").is_valid())
    old = pc.less(batch.column("timestamp"), tombstones_before_ms)
    return pc.and_not(stay, pc.and_(tombstone, old))
