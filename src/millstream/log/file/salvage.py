"""Salvage: reading a manifest as far as it can be read, and telling what is wrong with it.

Opening a log stops at the first row that is damaged; here every row is read that still can be. What
SQLite cannot give in order it may give in reverse order, so that one damaged page hides no more than
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import apsw
import msgspec

from millstream.errors import Damaged, ManifestLost, StoreFailed, WrongVersion
from millstream.log.file.disk import Disk
from millstream.log.file.manifest import (
    APPLICATION,
    END,
    NAME,
    START,
    SUM,
    VERSION,
    Kept,
    Sum,
    end_name,
    kept_of,
    name_of,
    opened,
)
from millstream.log.finding import Finding
from millstream.log.state import ShardKey, State

T = TypeVar("T")
Row = tuple[Any, ...]

_STATE = "SELECT kind, key, data FROM state ORDER BY kind {0}, key {0}"
_EXTENTS = (
    "SELECT stream, shard, first, newest, segment, data FROM extents "
    "ORDER BY stream {0}, shard {0}, first {0}"
)
_PROBLEMS_MAX = 20  # of those that SQLite finds; more say nothing new


def open_damaged(disk: Disk) -> apsw.Connection:
    """The manifest's file, whatever state it is in; `ManifestLost` if there is none."""
    try:
        disk.close(disk.open_read(NAME))
    except FileNotFoundError as error:
        raise ManifestLost(f"{NAME} is gone: {error}") from error
    try:
        return apsw.Connection(disk.path(NAME), flags=apsw.SQLITE_OPEN_READWRITE, vfs=disk.vfs or None)
    except apsw.CantOpenError as error:
        raise StoreFailed(f"{NAME} cannot be opened: {error}; check the device, then try again") from error


class Salvage:
    """What could be read of a manifest."""

    def __init__(self, db: apsw.Connection) -> None:
        """Read all of it."""
        self._db = db
        self.ended: set[ShardKey] = set()  # shards of which it is known where their extents end
        self.findings: list[Finding] = []
        self.missing: list[tuple[ShardKey, int, int]] = []  # seqs of which the rows of extents are gone
        self.version = self._fact("version", msgspec.msgpack.Decoder(int).decode)
        self.start = self._fact("start", START.decode)
        self.rows: list[tuple[str, bytes, bytes]] = []
        self.extents: list[tuple[ShardKey, Kept]] = []  # every one whose row is good, in order
        self.state_lost = 0  # rows of it that are gone; -1: nobody knows how many
        self._check_pages()
        self._read_state()
        self._read_extents()

    def _check_pages(self) -> None:
        try:
            version, application = self._db.pragma("user_version"), self._db.pragma("application_id")
            if VERSION not in {version, self.version}:
                raise WrongVersion(f"{NAME} is of version {version}: use the millstream that wrote it")
            if (version, application) != (VERSION, APPLICATION):
                self._tell(f"{NAME} says that it is of version {version}, and its rows are of {VERSION}")
            for (line,) in self._db.execute(f"PRAGMA integrity_check({_PROBLEMS_MAX})"):
                if line != "ok":
                    self._tell(f"SQLite says: {line}")
        except (apsw.Error, UnicodeDecodeError) as error:
            self._tell(f"SQLite cannot check it: {error}")

    def _read_state(self) -> None:
        found: dict[tuple[str, bytes], Row] = {}
        for row in self._rows(_STATE):
            found.setdefault((row[0], row[1]), row)
        total = Sum()
        scratch = State()
        for kind, key, data in found.values():
            try:
                row_data = opened(name_of(kind, key), data)
                scratch.load(kind, key, row_data)
            except (Damaged, msgspec.DecodeError, TypeError, AttributeError) as error:
                self._tell(f"{error}" if isinstance(error, Damaged) else f"{NAME}: the row '{kind}': {error}")
                continue
            total = total.changed(data, 1)
            self.rows.append((kind, key, row_data))
        expected = self._fact("state", SUM.decode)
        if total != expected:
            self.state_lost = -1 if expected is None else max(1, expected.rows - total.rows)
            self._tell(
                f"{NAME}: rows of the state are missing"
                if expected is None
                else f"{NAME}: {self.state_lost} of {expected.rows} rows of the state are missing"
            )

    def _read_extents(self) -> None:
        last: ShardKey | None = None
        seq, first = 0, -1
        for row in self._rows(_EXTENTS):
            try:
                kept = kept_of(row)
            except (Damaged, TypeError) as error:
                self._tell(str(error), segment=str(row[4]))
                continue
            key = (row[0], row[1])
            if key != last:
                self._end(last, seq)
                last, seq, first = key, 0, -1
            if kept.extent.first <= first:
                continue  # SQLite gave it from both ends
            first = kept.extent.first
            if kept.before > seq:
                self.missing.append((key, seq, kept.before))
            seq = max(seq, kept.extent.next)
            self.extents.append((key, kept))
        self._end(last, seq)
        # All names first: an error in another query of a table can set one back that is at the same row.
        for row in list(self._rows("SELECT name FROM facts WHERE name GLOB 'end *' ORDER BY name {0}")):
            try:
                stream, shard = map(int, str(row[0]).split()[1:])
            except ValueError:
                self._tell(f"{NAME}: a fact has the name {row[0]!r}")
                continue
            if (stream, shard) not in self.ended:
                self._end((stream, shard), 0)

    def _end(self, key: ShardKey | None, seq: int) -> None:
        """Compare where the extents of a shard end with where they should."""
        if key is None:
            return
        end = self._fact(end_name(key), END.decode)
        if end is None:
            self._tell(f"{NAME} does not say where stream number {key[0]}, shard {key[1]} ends")
            return
        self.ended.add(key)
        if end > seq:
            self.missing.append((key, seq, end))

    def _fact(self, name: str, decode: Callable[[bytes], T]) -> T | None:
        try:
            row = self._db.execute("SELECT data FROM facts WHERE name = ?", (name,)).fetchone()
            return None if row is None else decode(opened(name, row[0]))
        except (apsw.Error, Damaged, msgspec.DecodeError) as error:
            self._tell(str(error))
        except UnicodeDecodeError as error:  # a flipped bit makes text of bytes
            self._tell(f"{NAME}: the row '{name}' cannot be read: {error}")
        return None

    def _rows(self, query: str) -> Iterator[Row]:
        """All rows that SQLite gives, from either end, in order; those it gives from both ends once."""
        seen = 0
        try:
            for row in self._db.execute(query.format("ASC")):
                seen += 1
                yield row
        except (apsw.Error, UnicodeDecodeError) as error:
            self._tell(f"{NAME} is damaged: {error}")
        else:
            return
        rest: list[Row] = []
        try:
            rest.extend(self._db.execute(query.format("DESC")))
        except (apsw.Error, UnicodeDecodeError) as error:
            self._tell(f"{NAME} is damaged: {error}")
        yield from reversed(rest)

    def _tell(self, what: str, *, segment: str = NAME) -> None:
        finding = Finding(what, segment=segment)
        if finding not in self.findings:
            self.findings.append(finding)
