"""Blocks: many records on their way through a stage, as columns.

Keys are kept as numbers into the different ones there are, so that each is hashed, compared and looked up
once. Values are Python objects, or still bytes as a source has them, or an Arrow column.

>>> keys = Keys.of([b"a", b"b", b"a"])
>>> keys.take(np.array([2, 1])).plain(), keys.unique
([b'a', b'b'], [b'a', b'b'])
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.flow.node import Source

Numbers: TypeAlias = npt.NDArray[np.int64]
Key: TypeAlias = bytes | None


class Forms:
    """The different keys of a column as arrays, made once for all parts of it."""

    __slots__ = ("_arrow", "_table", "_unique")

    def __init__(self, unique: list[Key], arrow: pa.Array | None = None) -> None:
        """Made when they are asked for."""
        self._unique = unique
        self._arrow = arrow
        self._table: npt.NDArray[np.object_] | None = None

    @property
    def table(self) -> npt.NDArray[np.object_]:
        """As objects."""
        if self._table is None:
            self._table = np.empty(len(self._unique), object)
            self._table[:] = self._unique
        return self._table

    @property
    def arrow(self) -> pa.Array:
        """As Arrow."""
        if self._arrow is None:
            self._arrow = pa.array(self._unique, pa.binary())
        return self._arrow


class Keys:
    """A column of keys: numbers into the different ones."""

    __slots__ = ("_forms", "_list", "codes", "unique")

    def __init__(self, codes: Numbers, unique: list[Key], forms: Forms | None = None) -> None:
        """Take the number of each row's key; `forms` are those of the same keys, if there are some."""
        self.codes = codes
        self.unique = unique
        self._list: list[Key] | None = None
        self._forms = Forms(unique) if forms is None else forms

    @classmethod
    def of(cls, keys: Sequence[Key] | pa.Array) -> Keys:
        """From plain keys."""
        column = keys if isinstance(keys, pa.Array) else pa.array(keys, pa.binary())
        coded = column.dictionary_encode("encode")
        unique = coded.dictionary.to_pylist()
        return cls(coded.indices.to_numpy().astype(np.int64), unique, Forms(unique, coded.dictionary))

    @classmethod
    def same(cls, key: Key, count: int) -> Keys:
        """One key for all rows."""
        return cls(np.zeros(count, np.int64), [key])

    def plain(self) -> list[Key]:
        """The key of each row."""
        if self._list is None:
            self._list = self._forms.table[self.codes].tolist()
        return self._list

    def arrow(self) -> pa.Array:
        """The same as Arrow."""
        return self.different.take(pa.array(self.codes))

    @property
    def different(self) -> pa.Array:
        """The different ones as Arrow."""
        return self._forms.arrow

    def take(self, rows: Numbers) -> Keys:
        """Those of some rows."""
        return Keys(self.codes[rows], self.unique, self._forms)

    def with_codes(self, codes: Numbers) -> Keys:
        """The same keys for other rows."""
        return Keys(codes, self.unique, self._forms)


class Values:
    """A column of values, in one of three forms."""

    __slots__ = ("column", "objects", "raw", "reader")

    def __init__(
        self,
        objects: list[Any] | None = None,
        raw: pa.Array | None = None,
        column: pa.Array | None = None,
        reader: Source | None = None,
    ) -> None:
        """Take objects; or bytes, and the source whose codec reads them; or an Arrow column."""
        self.objects = objects
        self.raw = raw
        self.column = column
        self.reader = reader

    def __len__(self) -> int:
        """How many."""
        found = next(one for one in (self.objects, self.raw, self.column) if one is not None)
        return len(found)

    @property
    def form(self) -> tuple[str, int]:
        """Values of one form can be put together."""
        if self.objects is not None:
            return "objects", 0
        column = self.column
        return ("raw", id(self.reader)) if column is None else (str(column.type), 0)

    def take(self, rows: Numbers) -> Values:
        """Those of some rows."""
        if self.objects is not None:
            objects = self.objects
            return Values([objects[row] for row in rows.tolist()])
        indices = pa.array(rows)
        if self.raw is not None:
            return Values(raw=self.raw.take(indices), reader=self.reader)
        column = self.column
        return Values(column=None if column is None else column.take(indices), reader=self.reader)

    def slice(self, start: int, stop: int) -> Values:
        """Those that lie together."""
        if self.objects is not None:
            return Values(self.objects[start:stop])
        if self.raw is not None:
            return Values(raw=self.raw.slice(start, stop - start), reader=self.reader)
        column = self.column
        part = None if column is None else column.slice(start, stop - start)
        return Values(column=part, reader=self.reader)

    def keep(self, flags: list[Any], rows: Numbers) -> Values:
        """Those whose flag is set, which are these rows."""
        return Values(list(compress(self.objects, flags))) if self.objects is not None else self.take(rows)


class Block:
    """Records under way: `rows` says of which of the task's input records each came, `times` are in ms."""

    __slots__ = ("keys", "partial", "rows", "times", "values")

    def __init__(
        self, rows: Numbers, times: Numbers, keys: Keys, values: Values, *, partial: bool = False
    ) -> None:
        """Take columns of one length. `partial`: the values are parts of an aggregate."""
        self.rows = rows
        self.times = times
        self.keys = keys
        self.values = values
        self.partial = partial

    def __len__(self) -> int:
        """How many."""
        return len(self.rows)

    def take(self, rows: Numbers) -> Block:
        """Some of them."""
        return Block(
            self.rows[rows],
            self.times[rows],
            self.keys.take(rows),
            self.values.take(rows),
            partial=self.partial,
        )

    def slice(self, start: int, stop: int) -> Block:
        """Those that lie together."""
        keys = self.keys.with_codes(self.keys.codes[start:stop])
        values = self.values.slice(start, stop)
        return Block(self.rows[start:stop], self.times[start:stop], keys, values, partial=self.partial)

    def keep(self, flags: list[Any]) -> Block:
        """Those whose flag is set."""
        rows = np.flatnonzero(np.fromiter(map(bool, flags), bool, len(flags)))
        if len(rows) == len(self):
            return self
        return Block(self.rows[rows], self.times[rows], self.keys.take(rows), self.values.keep(flags, rows))

    def with_values(self, values: list[Any]) -> Block:
        """Other values, one for each."""
        return Block(self.rows, self.times, self.keys, Values(values))

    def spread(self, counts: Sequence[int], values: list[Any]) -> Block:
        """So many values for each."""
        rows = np.repeat(np.arange(len(self)), np.fromiter(counts, np.int64, len(counts)))
        return Block(self.rows[rows], self.times[rows], self.keys.take(rows), Values(values))


def joined(blocks: Sequence[Block]) -> Block:
    """Blocks of one form, one after the other."""
    if len(blocks) == 1:
        return blocks[0]
    rows = np.concatenate([block.rows for block in blocks])
    times = np.concatenate([block.times for block in blocks])
    first = blocks[0].keys
    if all(block.keys.unique is first.unique for block in blocks):
        keys = first.with_codes(np.concatenate([block.keys.codes for block in blocks]))
    else:
        keys = Keys.of(pa.concat_arrays([block.keys.arrow() for block in blocks]))
    return Block(rows, times, keys, _joined([block.values for block in blocks]), partial=blocks[0].partial)


def interleaved(blocks: Sequence[Block]) -> Block:
    """Blocks of one form, in the order of the input records that they came of; then in the order given."""
    whole = joined(blocks)
    if len(blocks) == 1:
        return whole
    order = np.argsort(whole.rows, kind="stable")
    return whole.take(order)


def _joined(values: Sequence[Values]) -> Values:
    if values[0].raw is not None:
        return Values(raw=pa.concat_arrays([one.raw for one in values]), reader=values[0].reader)
    if values[0].column is not None:
        return Values(column=pa.concat_arrays([one.column for one in values]), reader=values[0].reader)
    objects: list[Any] = []
    for one in values:
        objects += one.objects or []
    return Values(objects)
