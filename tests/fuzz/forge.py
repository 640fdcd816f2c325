"""Content that is wrong under checksums that are right: what no accident makes, and an enemy may."""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Callable
from random import Random
from typing import Any

import apsw
import msgspec
from zlib_ng.zlib_ng import crc32

from millstream.log.entry import Committed, decode_entries
from millstream.log.file.journal import FRAME, HEADER_BYTES, MAGIC
from millstream.log.file.manifest import NAME, Kept, Sum, name_of, sealed
from millstream.log.file.segment import message_crc, segment_path
from tests.crash.events import Image
from tests.fuzz.damage import flip
from tests.fuzz.template import Template

_encode = msgspec.msgpack.Encoder().encode
_HEADER = struct.Struct("<8sQQII")


# -- values


def odd(random: Random, value: Any) -> Any:  # noqa: ANN401 - whatever msgpack can say
    """Another value in the place of this one, more often one of the same type."""
    if isinstance(value, bool) or random.random() < 0.15:
        return random.choice((None, True, -1, 0, 1.5, math.nan, "", b"", [], {}, [[1, 2]], {"a": 1}))
    if isinstance(value, int):
        edges = (0, 1, 7, 2**31, 2**40, 2**53, 2**62 - 1, 2**62, 2**63 - 1, 2**64 - 1, -1, -(2**63))
        return random.choice((*edges, value + 1, max(0, value - 1), value * 2 % 2**63))
    if isinstance(value, str):
        names = (
            "",
            "x" * 300,
            "../../../outside",
            "b/../../x",
            "/etc/hosts",
            "b",
            "c",
            "..",
            "a\0b",
            "\ud7ff",
        )
        return random.choice((*names, value + "x", value[:-1]))
    if isinstance(value, bytes):
        return random.choice((b"", value[:-1], value + b"\0", random.randbytes(20), flip(value, random)))
    if isinstance(value, list):
        shuffled = random.sample(value, len(value))
        return random.choice((value[:-1], value + value[-1:], [*value, 0], shuffled, [*value, *value], []))
    return random.choice((None, 0, "", b"", [], {}))


def changed(random: Random, value: Any) -> Any:  # noqa: ANN401 - as above
    """A value with something in it that is odd, however deep."""
    if isinstance(value, list) and value and random.random() < 0.92:
        at = random.randrange(len(value))
        return [*value[:at], changed(random, value[at]), *value[at + 1 :]]
    if isinstance(value, dict) and value and random.random() < 0.92:
        key = random.choice(list(value))
        return {**value, key: changed(random, value[key])}
    if isinstance(value, bytes) and random.random() < 0.7:
        inner = _decoded(value)
        if isinstance(inner, list | dict) and inner:
            return _encoded(changed(random, inner), value)
    return odd(random, value)


def _decoded(data: bytes) -> Any:  # noqa: ANN401 - as above
    try:
        return msgspec.msgpack.decode(data, strict=False)
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError):
        return None


def _encoded(value: Any, otherwise: bytes) -> bytes:  # noqa: ANN401 - as above
    try:
        return _encode(value)
    except (TypeError, ValueError, OverflowError):
        return otherwise


def forged_row(random: Random, data: bytes) -> bytes:
    """A row or payload of msgpack that says something else, or nothing sensible."""
    if random.random() < 0.2:
        return flip(data, random)
    return _encoded(changed(random, _decoded(data)), flip(data, random))


# -- the journal


def frame(payload: bytes) -> bytes:
    """A frame with the checksums that fit it."""
    head = struct.pack("<II", len(payload), crc32(payload))
    return head + crc32(head).to_bytes(4, "little") + payload


def _payloads(data: bytes) -> list[bytes]:
    found, at = [], HEADER_BYTES
    while at + FRAME.size <= len(data):
        length = FRAME.unpack_from(data, at)[0]
        found.append(data[at + FRAME.size : at + FRAME.size + length])
        at += FRAME.size + length
    return found


def _forge_journal(template: Template, files: dict[str, bytes], random: Random) -> str:
    data = files[template.journal]
    payloads = _payloads(data)
    at = random.randrange(len(payloads))
    match random.choice(("entry", "entry", "entry", "entry", "order", "length", "header", "closed")):
        case "entry":
            payloads[at] = forged_row(random, payloads[at])
            told = f"frame {at} says something else"
        case "order":
            payloads.insert(random.randrange(len(payloads)), payloads[at])
            told = f"frame {at} twice"
        case "closed":
            payloads.insert(at, b"")
            told = "it is closed in its midst"
        case "length":
            size = random.choice((1 << 20, 200 << 20, 256 << 20, (1 << 32) - 1))
            head = struct.pack("<II", size, 1)
            rest = head + crc32(head).to_bytes(4, "little")
            files[template.journal] = data[:HEADER_BYTES] + b"".join(map(frame, payloads[:at])) + rest
            return f"frame {at} says that it has {size} bytes"
        case _:
            generation, base = random.choice((0, 1, 2, 2**63, 2**64 - 1)), random.choice((0, 5, 2**64 - 1))
            crc = crc32(struct.pack("<8sQQ", MAGIC, generation, base))
            header = _HEADER.pack(MAGIC, generation, base, crc, 0)
            files[template.journal] = header + data[HEADER_BYTES:]
            return f"its header says generation {generation}, base {base}"
    files[template.journal] = data[:HEADER_BYTES] + b"".join(map(frame, payloads))
    return told


def _forge_arrow(template: Template, files: dict[str, bytes], random: Random) -> str:
    """A batch within a frame is changed."""
    data = files[template.journal]
    payloads = _payloads(data)
    places = [
        (at, number, part)
        for at, payload in enumerate(payloads)
        for number, entry in enumerate(decode_entries(payload))
        if isinstance(entry, Committed)
        for part, each in enumerate(entry.parts)
        if each.arrow is not None
    ]
    at, number, part = random.choice(places)
    entries: Any = msgspec.msgpack.decode(payloads[at])
    entries[number][3][part][7] = flip(entries[number][3][part][7], random)
    payloads[at] = _encode(entries)
    files[template.journal] = data[:HEADER_BYTES] + b"".join(map(frame, payloads))
    return f"the batch in frame {at} is changed"


# -- the manifest


def _in_manifest(
    files: dict[str, bytes], folder: str, act: Callable[[apsw.Connection, Random], str], random: Random
) -> str:
    path = os.path.join(folder, "forged.sqlite")
    with open(path, "wb") as file:
        file.write(files[NAME])
    db = apsw.Connection(path)
    try:
        with db:
            told = act(db, random)
    finally:
        db.close()
    with open(path, "rb") as file:
        files[NAME] = file.read()
    os.unlink(path)
    return told


def _forge_state(db: apsw.Connection, random: Random) -> str:
    rows: list[Any] = list(db.execute("SELECT kind, key, data FROM state"))
    kind, key, data = random.choice(rows)
    new_kind, new_key, held = kind, key, data[4:]
    if random.random() < 0.15:
        new_key = forged_row(random, key)
    elif random.random() < 0.1:
        new_kind = random.choice((*sorted({row[0] for row in rows}), "other", ""))
    else:
        held = forged_row(random, held)
    db.execute("DELETE FROM state WHERE kind = ? AND key = ?", (kind, key))
    row = (new_kind, new_key, sealed(name_of(new_kind, new_key), held))
    db.execute("INSERT OR REPLACE INTO state VALUES (?, ?, ?)", row)
    total = Sum()
    for (each,) in db.execute("SELECT data FROM state"):
        assert isinstance(each, bytes)
        total = total.changed(each, 1)
    db.execute("UPDATE facts SET data = ? WHERE name = 'state'", (sealed("state", _encode(total)),))
    return f"row {kind} {key!r}: {held!r}"


def _forge_fact(db: apsw.Connection, random: Random) -> str:
    name, data = random.choice(list(db.execute("SELECT name, data FROM facts")))
    assert isinstance(name, str)
    assert isinstance(data, bytes)
    held = forged_row(random, data[4:])
    db.execute("UPDATE facts SET data = ? WHERE name = ?", (sealed(name, held), name))
    return f"fact {name}: {held!r}"


def _forge_extent(db: apsw.Connection, random: Random) -> str:
    row: Any = random.choice(
        list(db.execute("SELECT stream, shard, first, newest, segment, data FROM extents"))
    )
    held = forged_row(random, row[5][4:])
    stream, shard, first, newest, segment = row[:5]
    known = _decoded(held)
    if random.random() < 0.7 and isinstance(known, list) and known and isinstance(known[0], list):
        extent = known[0]
        if len(extent) == 10 and all(isinstance(n, int) and abs(n) < 2**63 for n in (extent[5], extent[9])):
            first, newest, segment = extent[5], extent[9], extent[0]
    if not isinstance(segment, str):
        segment = "b/x"
    seal = sealed(f"{(stream, shard)} {first} {newest} {segment}", held)
    db.execute("DELETE FROM extents WHERE stream = ? AND shard = ? AND first = ?", row[:3])
    db.execute(
        "INSERT OR REPLACE INTO extents VALUES (?, ?, ?, ?, ?, ?)",
        (stream, shard, first, newest, segment, seal),
    )
    return f"extent {row[:5]}: {held!r}"


def _forge_column(db: apsw.Connection, random: Random) -> str:
    """SQLite keeps any type in any column."""
    table, column = random.choice(
        (
            *(("facts", name) for name in ("name", "data")),
            *(("state", name) for name in ("kind", "key", "data")),
            *(("extents", name) for name in ("stream", "shard", "first", "newest", "segment", "data")),
        )
    )
    value = random.choice(("text", b"bytes", 7, -1, 2**62, 1.5, ""))
    keys = {"facts": "name", "state": "key", "extents": "segment"}[table]
    (one,) = random.choice(list(db.execute(f"SELECT {keys} FROM {table}")))  # noqa: S608 - names of ours
    db.execute(f"UPDATE OR REPLACE {table} SET {column} = ? WHERE {keys} = ?", (value, one))  # noqa: S608
    return f"{table}.{column} = {value!r}"


def _forge_schema(db: apsw.Connection, random: Random) -> str:
    """Tables are missing, or others than they should be."""
    what = random.choice(
        (
            "DROP TABLE facts",
            "DROP TABLE state",
            "DROP TABLE extents",
            "DROP INDEX extents_by_segment",
            "ALTER TABLE extents RENAME COLUMN newest TO oldest",
            "ALTER TABLE state RENAME TO status",
            "DELETE FROM facts",
            "DELETE FROM extents",
            "CREATE TRIGGER t AFTER INSERT ON state BEGIN DELETE FROM facts; END",
            "PRAGMA user_version = 99",
            "PRAGMA application_id = 1",
        )
    )
    db.execute(what)
    return what


# -- segments


def _forge_message(files: dict[str, bytes], folder: str, random: Random) -> str:
    """A batch of a segment is changed, and its checksum everywhere too."""

    def forge(db: apsw.Connection, random: Random) -> str:
        row: Any = random.choice(
            list(db.execute("SELECT stream, shard, first, newest, segment, data FROM extents"))
        )
        kept = msgspec.msgpack.decode(row[5][4:], type=Kept)
        extent = kept.extent
        name = segment_path(extent.segment)
        message = files[name][extent.position : extent.position + extent.length]
        new = _forged_message(message, random)
        files[name] = files[name][: extent.position] + new + files[name][extent.position + len(new) :]
        told = msgspec.structs.replace(
            kept, extent=msgspec.structs.replace(extent, crc=message_crc(memoryview(new)))
        )
        seal = sealed(f"{(row[0], row[1])} {row[2]} {row[3]} {row[4]}", _encode(told))
        db.execute(
            "UPDATE extents SET data = ? WHERE stream = ? AND shard = ? AND first = ?", (seal, *row[:3])
        )
        return f"batch of {name}, position {extent.position}, is changed"

    return _in_manifest(files, folder, forge, random)


def _forged_message(message: bytes, random: Random) -> bytes:
    """As long as it was; the head is where lengths and offsets are."""
    head = 8 + int.from_bytes(message[4:8], "little")
    new = bytearray(message)
    match random.choice(("head", "head", "body", "number")):
        case "head":
            new[8:head] = flip(bytes(new[8:head]), random)
        case "body":
            new[head:] = flip(bytes(new[head:]), random)
        case _:
            at = random.randrange(0, len(new) - 8, 4)
            value = random.choice((0, 2**31 - 1, 2**32 - 1, 2**62, 2**63, 2**64 - 1, 1 << 36, 1))
            new[at : at + 8] = value.to_bytes(8, "little")
    return bytes(new)


def _forge_mark(template: Template, files: dict[str, bytes], random: Random) -> str:
    generation = random.choice((0, 1, int(template.journal[-8:]), int(template.journal[-8:]), 2**64 - 1))
    position = random.choice((0, 31, 40, len(files[template.journal]), 2**40, 2**64 - 1))
    place = struct.pack("<QQ", generation, position)
    files["synced"] = place + crc32(place).to_bytes(4, "little")
    return f"the mark says generation {generation}, position {position}"


_FORGED = (
    *("journal", "journal", "arrow", "state", "state", "fact"),
    *("extent", "column", "schema", "message", "message", "mark"),
)


def forged(template: Template, folder: str, random: Random, only: str | None = None) -> tuple[Image, str]:
    """The template with something forged in it, and what."""
    files = dict(template.image.files)
    match only or random.choice(_FORGED):
        case "journal":
            told = f"{template.journal}: {_forge_journal(template, files, random)}"
        case "arrow":
            told = _forge_arrow(template, files, random)
        case "message":
            told = _forge_message(files, folder, random)
        case "mark":
            told = _forge_mark(template, files, random)
        case kind:
            acts = {
                "state": _forge_state,
                "fact": _forge_fact,
                "extent": _forge_extent,
                "column": _forge_column,
                "schema": _forge_schema,
            }
            told = f"{NAME}: {_in_manifest(files, folder, acts[kind], random)}"
    return Image(files, set(template.image.folders)), told
