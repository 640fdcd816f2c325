"""Protections taken away: the fuzz must notice that each is missing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import pyarrow as pa

import millstream.log.file.journal as journals
import millstream.log.file.manifest as manifests
import millstream.log.file.reader as readers
import millstream.log.file.segment as segments
from millstream.log.file import books
from tests.crash.canaries import fits


def _unsealed(_: str, data: bytes) -> bytes:
    return data[4:]


def _not_looked_over(buffer: pa.Buffer, schema: pa.Schema, *_: object, **__: object) -> pa.RecordBatch:
    return pa.ipc.read_record_batch(pa.ipc.read_message(buffer), schema)


def _nothing(*_: object) -> None:
    return None


CANARIES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "journal-checksum": lambda: mock.patch.object(journals, "crc32", fits),
    "segment-checksum": lambda: mock.patch.object(readers, "message_crc", fits),
    "row-checksum": lambda: mock.patch.object(manifests, "opened", _unsealed),
    "messages-not-looked-over": lambda: mock.patch.object(segments, "read_batch", _not_looked_over),
    "entries-not-judged": lambda: mock.patch.object(books, "judge_entry", _nothing),
    "rows-not-judged": lambda: mock.patch.object(books, "judge_rows", _nothing),
}
