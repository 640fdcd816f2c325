"""Ways between nodes on blocks: other keys, several streams as one, and out to a stream of the log."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from millstream.codec import Codec, key_codec
from millstream.codec.arrow import to_arrow
from millstream.codec.same import not_kept
from millstream.engine.stage.block import Block, Key, Keys, interleaved
from millstream.engine.stage.pures import guarded
from millstream.engine.stage.turn import Turn, without
from millstream.errors import WrongType
from millstream.flow.branch import Branch
from millstream.flow.codecs import key_codec_of, value_codec_of
from millstream.flow.node import Group, Merge, Sink

Step: TypeAlias = Callable[[Block, Turn], Block]

_SCALARS: dict[Any, set[type]] = {
    bool: {bool},
    int: {int},
    float: {float, int},
    str: {str},
    bytes: {bytes},
}


def group_step(node: Group) -> Step:
    """The keys that a group gives: they may have to go elsewhere then."""
    if node.function is None:
        return lambda block, _: block
    function, codec = guarded(node, node.function), key_codec(node.key)
    if codec.name == "str":
        return _text_group(node, function)

    def key_of(value: Any) -> Key:
        key = function(value)
        if key is None:
            return None
        data = codec.encode(key)
        if data not in known:
            codec.decode(data)
            known.add(data)
        return data

    known: set[bytes] = set()

    def step(block: Block, turn: Turn) -> Block:
        found, bad = turn.each(node, block, key_of, block.values.objects or [])
        block = without(block, bad) if bad else block
        return Block(block.rows, block.times, Keys.of(found), block.values)

    return step


def _text_group(node: Group, function: Callable[[Any], Any]) -> Step:
    """Keys that are text: Arrow writes them."""
    encode = key_codec(node.key).encode

    def key_of(value: Any) -> Any:
        key = function(value)
        if type(key) is not str and key is not None:
            encode(key)
        return key

    def step(block: Block, turn: Turn) -> Block:
        found, bad = turn.each(node, block, key_of, block.values.objects or [])
        block = without(block, bad) if bad else block
        try:
            keys = pa.array(found, pa.utf8()).cast(pa.binary())
        except (pa.ArrowException, UnicodeError):  # half of a pair is no text in UTF-8
            keys = pa.array([None if key is None else encode(key) for key in found], pa.binary())
        return Block(block.rows, block.times, Keys.of(keys), block.values)

    return step


def merge_step(node: Merge) -> Callable[[Sequence[tuple[int, Block]]], Block]:
    """Blocks that came by several ways as one, in the order of the records that they came of."""

    def step(blocks: Sequence[tuple[int, Block]]) -> Block:
        if not node.branches:
            return interleaved([block for _, block in blocks])
        named = []
        for place, block in blocks:
            name = node.branches[place]
            named.append(block.with_values([Branch(name, value) for value in block.values.objects or []]))
        return interleaved(named)

    return step


def sink_step(node: Sink, *, own: bool, column: pa.DataType | None) -> Callable[[Block, Turn], None]:
    """Records out to a stream; `own`: the flow reads it as well; `column`: the type of a columnar stream."""
    again = _recoded(key_codec(node.key), key_codec_of(node))
    values_of = _columns(node, column) if column is not None else _bytes(node, own=own)

    def step(block: Block, turn: Turn) -> None:
        block, values = values_of(block, turn)
        keys = block.keys
        if again is not None:
            keys = Keys(keys.codes, [None if key is None else again(key) for key in keys.unique])
        turn.write(node.stream, block.times, keys.arrow(), values)

    return step


def _recoded(one: Codec, other: Codec) -> Callable[[bytes], bytes] | None:
    """From the bytes of a key to those that a sink wants; None: they are the same."""
    return None if one.name == other.name else lambda data: other.encode(one.decode(data))


def _bytes(node: Sink, *, own: bool) -> Callable[[Block, Turn], tuple[Block, pa.Array]]:
    codec = value_codec_of(node)
    encode, decode = codec.encode, codec.decode
    scalars = _SCALARS.get(node.value)
    known = node.value is not Any
    swift = _swift(codec) if known and not own else None

    def checked(value: Any) -> bytes | None:
        if value is None:
            return None
        data = encode(value)
        if known or own:
            again = decode(data)
            if own and again != value:
                not_kept(value, again)
        return data

    def step(block: Block, turn: Turn) -> tuple[Block, pa.Array]:
        values = block.values.objects or []
        sure = scalars is not None and scalars.issuperset(map(type, values))
        if swift is not None and not sure:
            try:
                return block, pa.array(swift(values), pa.binary())
            except Exception:  # noqa: BLE001, S110 - which of them it is, and why, is found one by one
                pass
        found, bad = turn.each(node, block, codec.bare_encode if sure else checked, values, why=checked)
        return (without(block, bad) if bad else block), pa.array(found, pa.binary())

    return step


def _swift(codec: Codec) -> Callable[[list[Any]], list[bytes]] | None:
    """All values as bytes that are read again; None where an absent value would be taken for one."""
    try:
        codec.decode(codec.encode(None))
    except WrongType:
        pass
    else:
        return None

    def swift(values: list[Any]) -> list[bytes]:
        found = list(map(codec.bare_encode, values))
        deque(map(codec.bare_decode, found), maxlen=0)
        return found

    return swift


def _columns(node: Sink, column: pa.DataType) -> Callable[[Block, Turn], tuple[Block, pa.Array]]:
    """Values as one Arrow column; one that cannot be one is looked for record by record."""

    def one(value: Any) -> pa.Array:
        return to_arrow([value], node.value).cast(column)

    def step(block: Block, turn: Turn) -> tuple[Block, pa.Array]:
        given = block.values.column
        if given is not None:
            return block, given if given.type == column else given.cast(column)
        values = block.values.objects or []
        try:
            return block, to_arrow(values, node.value).cast(column)
        except (WrongType, pa.ArrowException):
            found, bad = turn.each(node, block, one, values)
            empty = [pa.array([], column)]
            return (without(block, bad) if bad else block), pa.concat_arrays(found or empty)

    return step
