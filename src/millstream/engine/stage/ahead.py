"""Aggregates combined before they travel: of many values of a key one part goes on."""

from __future__ import annotations

from operator import attrgetter, length_hint
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.engine.stage.block import Block, Values
from millstream.engine.stage.objects import as_objects
from millstream.engine.stage.stateful import last_rows
from millstream.engine.stage.turn import Turn
from millstream.flow.aggregate import Field
from millstream.flow.node import Node, Stateful
from millstream.flow.steps import Combine

_SUM_MAX = 1 << 62


def combined_ahead(node: Stateful, block: Block, before: Node, turn: Turn) -> Block:
    """The parts of an aggregate that a block adds up to, one for each key, where its last record was."""
    step = node.step
    if not isinstance(step, Combine):
        return block
    if block.values.column is None:
        block = as_objects(block, before, turn)
    sums = _by_columns(step, block)
    if sums is None:
        block = as_objects(block, before, turn)
        sums = _by_loop(node, step, block, turn)
    last = block.take(last_rows(block.keys))
    values = [sums[code] for code in last.keys.codes.tolist()]
    return Block(last.rows, last.times, last.keys, Values(values), partial=True)


def _by_loop(node: Stateful, step: Combine, block: Block, turn: Turn) -> dict[int, Any]:
    """By the user's functions, one value after the other."""
    plus, lift = step.plus, step.lift
    sums: dict[int, Any] = {}
    values = block.values.objects or []
    left = iter(values)
    try:
        for code, value in zip(block.keys.codes.tolist(), left, strict=True):
            part = value if lift is None else lift(value)
            sums[code] = plus(sums[code], part) if code in sums else part
    except Exception as error:  # noqa: BLE001 - whatever the user's function raises
        row = len(values) - length_hint(left) - 1
        turn.fail_at(node, error, block, row, values[row])
    return sums


def _by_columns(step: Combine, block: Block) -> dict[int, Any] | list[Any] | None:
    """By Arrow, where the values are columns and the aggregate is one that Arrow knows; else None."""
    if step.title == "count":
        counts: list[int] = np.bincount(block.keys.codes, minlength=len(block.keys.unique)).tolist()
        return counts
    column, objects = block.values.column, block.values.objects
    if step.title != "sum" or not isinstance(step.of, Field):
        return None
    if objects is not None:
        return _sums(step.of, block, objects)
    if column is None:
        return None
    field = pa.compute.struct_field(column, step.of.name) if pa.types.is_struct(column.type) else None
    if field is None or field.null_count or column.null_count or not _adds_up(field):
        return None
    table = pa.table({"code": block.keys.codes, "value": field})
    found = table.group_by("code").aggregate([("value", "sum")])
    return dict(zip(found["code"].to_pylist(), found["value_sum"].to_pylist(), strict=True))


def _sums(field: Field, block: Block, objects: list[Any]) -> list[Any] | None:
    """The sums of a field of objects, where all are whole numbers that are not too large; else None."""
    try:
        found = list(map(attrgetter(field.name), objects))
        numbers = pa.array(found, pa.int64()) if set(map(type, found)) == {int} else None
    except Exception:  # noqa: BLE001 - whose fault it is, and what to do then, one by one
        return None
    if numbers is None or not _adds_up(numbers):
        return None
    sums = np.zeros(len(block.keys.unique), np.int64)
    np.add.at(sums, block.keys.codes, numbers.to_numpy())
    return sums.tolist()


def _adds_up(field: pa.Array) -> bool:
    """Whether the sum is what Python would make of it: no number is so large that it could run over."""
    if pa.types.is_floating(field.type):
        return bool(field.type == pa.float64())
    if not pa.types.is_integer(field.type) or not len(field):
        return False
    ends = pa.compute.min_max(field).as_py()
    return bool(max(abs(ends["min"]), abs(ends["max"])) * len(field) < _SUM_MAX)
