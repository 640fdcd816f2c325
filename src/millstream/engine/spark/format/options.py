"""The options of the format, as Spark hands them over: texts, whose names may be written in any case.

>>> read_options({"log": "file:/data/log", "stream": "orders", "start": "latest"})
ReadOptions(stream='orders', streams=None, start='latest', end='latest', flatten=True, \
records_per_batch=None, records_per_task=1000000, fail_on_data_loss=True, group=None)
>>> read_options({"log": "file:/data/log", "steam": "orders"})
Traceback (most recent call last):
millstream.errors.UsageError: format("millstream") does not know the option 'steam' for reading; it knows \
log, stream, streams, start, end, flatten, maxRecordsPerBatch, recordsPerTask, failOnDataLoss, group
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from millstream.engine.spark.format.bounds import bound_of
from millstream.engine.spark.setup import log_at
from millstream.errors import UsageError, shown
from millstream.log.can import Can, unsupported
from millstream.log.check import check_durability
from millstream.log.commit import Durability
from millstream.log.log import Log
from millstream.names import check_name

READ = (
    "log",
    "stream",
    "streams",
    "start",
    "end",
    "flatten",
    "maxRecordsPerBatch",
    "recordsPerTask",
    "failOnDataLoss",
    "group",
)
WRITE = ("log", "stream", "writer", "batch", "create", "shards", "flatten", "durability")
SPARKS_OWN = {"checkpointlocation", "queryname"}  # Spark hands these over too


@dataclass(frozen=True)
class ReadOptions:
    """What is read, and from where to where. The log's address may hold a password: it is never shown."""

    log: str = field(repr=False)
    stream: str | None
    streams: str | None
    start: str
    end: str
    flatten: bool
    records_per_batch: int | None
    records_per_task: int
    fail_on_data_loss: bool
    group: str | None


@dataclass(frozen=True)
class WriteOptions:
    """What is written to. The log's address may hold a password: it is never shown."""

    log: str = field(repr=False)
    stream: str
    writer: str | None
    batch: int
    create: bool
    shards: int
    flatten: bool
    durability: Durability


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """The options of a read, checked."""
    options = _Given(given, READ, "reading")
    stream, streams = options.text("stream"), options.text("streams")
    if (stream is None) == (streams is None):
        raise UsageError(
            'give one of the options "stream" (a name) and "streams" (a pattern, as in "orders-*")'
        )
    group = options.text("group")
    return ReadOptions(
        log=options.log(),
        stream=None if stream is None else check_name("stream", stream),
        streams=streams,
        start=options.bound("start", "earliest"),
        end=options.bound("end", "latest"),
        flatten=options.flag("flatten", True),
        records_per_batch=options.number("maxRecordsPerBatch", None, least=1),
        records_per_task=options.number("recordsPerTask", 1_000_000, least=1),
        fail_on_data_loss=options.flag("failOnDataLoss", True),
        group=None if group is None else check_name("group", group),
    )


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """The options of a write, checked."""
    options = _Given(given, WRITE, "writing")
    stream, writer = options.text("stream"), options.text("writer")
    if stream is None:
        raise UsageError('the option "stream" is missing: name the stream to write to')
    if writer is None and options.text("batch") is not None:
        raise UsageError('the option "batch" counts the batches of a writer: name it by the option "writer"')
    return WriteOptions(
        log=options.log(),
        stream=check_name("stream", stream),
        writer=None if writer is None else check_name("writer", writer),
        batch=options.number("batch", 0, least=0),
        create=options.flag("create", False),
        shards=options.number("shards", 1, least=1),
        flatten=options.flag("flatten", True),
        durability=check_durability(options.text("durability") or Durability.WRITTEN),
    )


def shared_log(url: str, *needed: Can) -> Log:
    """The log, if Spark's processes can share it; opened once in each."""
    scheme, _, path = url.partition(":")
    if scheme == "file" and not PurePath(path).is_absolute():
        raise UsageError(
            f"the log {shown(url)} is a relative path, and each of Spark's processes has its own current "
            "directory: write the path from the root on, as in file:/data/log"
        )
    log = log_at(url)
    for ability in (Can.PROCESSES, *needed):
        if ability not in log.can:
            raise unsupported(log.scheme, ability, log.can)
    return log


class _Given:
    """Options as they were given, taken one by one."""

    def __init__(self, given: Mapping[str, str], known: tuple[str, ...], doing: str) -> None:
        """Refuse what is not known. Their values are not shown: nobody knows what is in them."""
        self._values = {name.lower(): value for name, value in given.items()}
        unknown = sorted(self._values.keys() - {name.lower() for name in known} - SPARKS_OWN)
        if unknown:
            raise UsageError(
                f'format("millstream") does not know the option {", ".join(map(repr, unknown))} for {doing}; '
                f"it knows {', '.join(known)}"
            )

    def text(self, name: str) -> str | None:
        return self._values.get(name.lower())

    def log(self) -> str:
        url = self.text("log")
        if url is None:
            raise UsageError('the option "log" is missing: say where the log is, as in file:/data/log')
        return url

    def number(self, name: str, default: Any, *, least: int) -> Any:
        return self._read(name, default, int, f"a whole number from {least} on", lambda found: found >= least)

    def bound(self, name: str, default: str) -> str:
        text = self.text(name) or default
        bound_of(text)  # what it means is looked up when the streams are known
        return text

    def flag(self, name: str, default: bool) -> bool:
        found: bool = self._read(name, default, _FLAGS.__getitem__, "true or false")
        return found

    def _read(
        self,
        name: str,
        default: Any,
        read: Callable[[str], Any],
        expected: str,
        fits: Callable[[Any], bool] = lambda _: True,
    ) -> Any:
        text = self.text(name)
        if text is None:
            return default
        try:
            found = read(text.strip().lower())
            if fits(found):
                return found
        except (ValueError, KeyError):
            pass
        raise UsageError(f'the option "{name}" is {shown(text)}: expected {expected}')


_FLAGS = {"true": True, "false": False}
