"""Pure steps on blocks: one tight loop for all records of a block."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from millstream.codec import key_codec
from millstream.codec.arrow import from_arrow, to_arrow
from millstream.codec.same import apart
from millstream.engine.stage.block import Block, Keys, Values, joined
from millstream.engine.stage.turn import Turn, without
from millstream.flow.node import DeadLetters, Node, Pure
from millstream.operators.batches import run_columns, unknown_key

Step: TypeAlias = Callable[[Block, Turn], Block]


def pure_step(node: Pure) -> Step:
    """What a pure step makes of a block whose values are objects."""
    return _MADE[node.operation](node)


def guarded(node: Node, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function; where a letter may have to show its argument as it was, given a copy of it."""
    return (lambda value: function(apart(value))) if isinstance(node.on_error, DeadLetters) else function


def _map(node: Pure) -> Step:
    function = guarded(node, node.function or _same)

    def step(block: Block, turn: Turn) -> Block:
        found, bad = turn.each(node, block, function, block.values.objects or [])
        return (without(block, bad) if bad else block).with_values(found)

    return step


def _map_table(node: Pure) -> Step:
    function: Any = guarded(node, node.function or _same)

    def step(block: Block, turn: Turn) -> Block:
        given = block.values.objects or []
        made = lambda value: None if value is None else function(value)  # noqa: E731 - it is called in one place
        found, bad = turn.each(node, block, made, given)
        return (without(block, bad) if bad else block).with_values(found)

    return step


def _filter(node: Pure) -> Step:
    function = guarded(node, node.function or _same)

    def step(block: Block, turn: Turn) -> Block:
        flags, bad = turn.each(node, block, function, block.values.objects or [])
        return (without(block, bad) if bad else block).keep(flags)

    return step


def _collect(node: Pure) -> Step:
    function = guarded(node, node.function or _same)

    def step(block: Block, turn: Turn) -> Block:
        found, bad = turn.each(node, block, function, block.values.objects or [])
        block = (without(block, bad) if bad else block).with_values(found)
        return block.keep([value is not None for value in found])

    return step


def _flat_map(node: Pure) -> Step:
    inner: Any = node.function or _same
    function = guarded(node, lambda value: list(inner(value)))

    def step(block: Block, turn: Turn) -> Block:
        found, bad = turn.each(node, block, function, block.values.objects or [])
        block = without(block, bad) if bad else block
        return block.spread(list(map(len, found)), list(chain.from_iterable(found)))

    return step


def _with_key(node: Pure) -> Step:
    codec = key_codec(node.upstream[0].key)

    def step(block: Block, turn: Turn) -> Block:
        del turn
        known = [None if key is None else codec.decode(key) for key in block.keys.unique]
        keys = [known[code] for code in block.keys.codes.tolist()]
        return block.with_values(list(zip(keys, block.values.objects or [], strict=True)))

    return step


def _map_batches(node: Pure) -> Step:
    before = node.upstream[0]
    codec = key_codec(before.key)

    def columns(block: Block) -> Block:
        """Arrow in, Arrow out, without a Python object for any record where values are columns already."""
        known = [None if key is None else codec.decode(key) for key in block.keys.unique]
        keys = to_arrow(known, before.key).take(pa.array(block.keys.codes))
        given = block.values.column
        if given is None:
            given = to_arrow(block.values.objects or [], before.value)
        found = run_columns(node, keys, pa.array(block.times), given)
        times = found.times.to_numpy()
        values = Values(column=_one(found.values))
        if found.keys is None:
            return Block(block.rows, times, block.keys, values)
        codes = {codec.encode(key): code for code, key in enumerate(known) if key is not None}
        codes |= {b"": known.index(None)} if None in known else {}
        try:
            coded = _one(found.keys).dictionary_encode("encode")
            again = from_arrow(coded.dictionary, before.key)
            places = np.array([codes[b"" if key is None else codec.encode(key)] for key in again], np.int64)
            rows = places[coded.indices.to_numpy()]
        except KeyError:
            encoded = (key for key in again if (b"" if key is None else codec.encode(key)) not in codes)
            raise unknown_key(next(encoded)) from None
        last = np.full(len(rows), block.rows[-1] if len(block) else 0)
        return Block(last, times, Keys(rows, block.keys.unique), values)

    def step(block: Block, turn: Turn) -> Block:
        try:
            return columns(block)
        except Exception as error:  # noqa: BLE001 - one of the records is to blame: each is tried by itself
            if len(block) == 1:
                values, column = block.values.objects, block.values.column
                value = values[0] if values else column[0].as_py() if column is not None else None
                turn.fail_at(node, error, block, 0, value)
                return block.take(np.empty(0, np.int64)).with_values([])
        parts = [step(block.take(np.array([row])), turn) for row in range(len(block))]
        return joined([part for part in parts if len(part)] or parts[:1])

    return step


def _one(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found


def _same(value: Any) -> Any:
    return value


_MADE: dict[str, Callable[[Pure], Step]] = {
    "map": _map,
    "map_table": _map_table,
    "filter": _filter,
    "collect": _collect,
    "flat_map": _flat_map,
    "flatten": _flat_map,
    "with_key": _with_key,
    "map_batches": _map_batches,
}
