"""Values as Python objects: read when a step asks for them, and not before."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.codec import key_codec
from millstream.codec.arrow import from_arrow
from millstream.engine.stage.block import Block, Key, Keys
from millstream.engine.stage.turn import Turn, without
from millstream.errors import Bug
from millstream.flow.codecs import key_codec_of, value_codec_of
from millstream.flow.node import Node, Source


def as_objects(block: Block, before: Node, turn: Turn) -> Block:
    """A block with its values as Python objects; what cannot be read is left to the source's policy."""
    values = block.values
    if values.objects is not None:
        return block
    if values.column is not None:
        return block.with_values(from_arrow(values.column, before.value))
    reader, raw = values.reader, values.raw
    if reader is None or raw is None:
        raise Bug("bytes of values without a source that can read them")
    codec = value_codec_of(reader)
    decode = codec.bare_decode
    reading = decode if not raw.null_count else lambda data: None if data is None else decode(data)
    found, bad = turn.each(reader, block, reading, raw.to_pylist(), why=codec.decode)
    return (without(block, bad) if bad else block).with_values(found)


def with_keys_read(node: Source, block: Block, turn: Turn) -> Block:
    """A block with the keys that a source reads in those it was given: one key is one text of bytes."""
    said, own = key_codec_of(node), key_codec(node.key)
    if said.name == own.name and _are_sure(own.name, block.keys.unique):
        return block
    unique: list[Key] = []
    bad: list[int] = []
    values = block.values.raw if block.values.raw is not None else block.values.column
    for code, key in enumerate(block.keys.unique):
        try:
            unique.append(None if key is None else own.encode(said.decode(key)))
        except Exception as error:  # noqa: BLE001 - what a user's own class raises
            unique.append(None)
            for row in np.flatnonzero(block.keys.codes == code).tolist():
                turn.fail_at(node, error, block, row, None if values is None else values[row].as_py())
                bad.append(row)
    keys = Keys(block.keys.codes, unique)
    whole = Block(block.rows, block.times, keys, block.values)
    return without(whole, bad) if bad else whole


def _are_sure(codec: str, keys: list[Key]) -> bool:
    """Whether keys are certain to be what they would be written as."""
    if codec == "bytes":
        return True
    try:
        return codec == "str" and pa.array(keys, pa.binary()).cast(pa.utf8()) is not None
    except pa.ArrowException:
        return False
