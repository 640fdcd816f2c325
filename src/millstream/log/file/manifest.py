"""The manifest: one SQLite file that says where records lie, and what the state was when it was written.

It is written only when the journal is folded into it, by one transaction, and by upkeep. SQLite has
no checksums, and a flipped bit in one of its pages can make rows vanish. So each row carries a checksum
of its own, the rows of the state are counted, and each extent says where the one before it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Annotated, Any

import apsw
import msgspec
from zlib_ng.zlib_ng import crc32

from millstream.errors import Damaged, ManifestLost, ReadOnly, StoreFailed, StoreFull, WrongVersion
from millstream.log.entry import Extent, Signed, Whole
from millstream.log.file.disk import Disk
from millstream.log.state import Change, ShardKey

NAME = "manifest.sqlite"
VERSION = 1
APPLICATION = 0x4D53544D  # "MSTM"
_BUSY_MS = 10_000
_ANY_BYTES = 1 << 62
_EXTENTS_AT_ONCE = 256
_SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE state (kind TEXT, key BLOB, data BLOB NOT NULL, PRIMARY KEY (kind, key)) WITHOUT ROWID;
CREATE TABLE extents (
    stream INTEGER, shard INTEGER, first INTEGER, newest INTEGER NOT NULL, segment TEXT NOT NULL,
    data BLOB NOT NULL, PRIMARY KEY (stream, shard, first)
) WITHOUT ROWID;
CREATE INDEX extents_by_segment ON extents (segment);
"""
_ALL = "SELECT stream, shard, first, newest, segment, data FROM extents"
_FROM = f"""
{_ALL} WHERE stream = ?1 AND shard = ?2 AND first >= coalesce(
    (SELECT max(first) FROM extents WHERE stream = ?1 AND shard = ?2 AND first <= ?3), ?3)
ORDER BY first LIMIT ?4
"""  # noqa: S608 - nothing but constants
_FROM_TIME = f"""
{_ALL} WHERE stream = ?1 AND shard = ?2 AND first >= ?3 AND newest >= ?4 ORDER BY first LIMIT 1
"""
_BACKWARDS = f"{_ALL} WHERE stream = ?1 AND shard = ?2 ORDER BY first DESC"
_LAST_BEFORE = f"{_ALL} WHERE stream = ?1 AND shard = ?2 AND first < ?3 ORDER BY first DESC LIMIT 1"
_FIRST_AT = f"{_ALL} WHERE stream = ?1 AND shard = ?2 AND first >= ?3 ORDER BY first LIMIT 1"


class Start(msgspec.Struct, frozen=True, array_like=True):
    """Which generation of the journal goes on from this manifest, and after which entry."""

    generation: Annotated[int, msgspec.Meta(ge=0, le=99_999_999)]  # what the name of its file has room for
    base: Whole


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """An extent that was folded, and the marks of the shard's writers at its end."""

    extent: Extent
    marks: dict[str, Signed]
    before: Whole = 0  # where the extent before it ends; 0 for the first of a shard


class Sum(msgspec.Struct, frozen=True, array_like=True):
    """How many rows the state has, and the sum of their checksums."""

    rows: int = 0
    crcs: int = 0

    def changed(self, sealed: bytes, by: int) -> Sum:
        """The sum with a row more (1), or less (-1)."""
        return Sum(self.rows + by, self.crcs + by * int.from_bytes(sealed[:4], "little"))


class Fold(msgspec.Struct, frozen=True):
    """What one fold writes: all of it, or nothing."""

    start: Start
    rows: Sequence[Change]  # of the state
    extents: Sequence[tuple[ShardKey, Kept]]
    firsts: dict[ShardKey, int]  # extents that end at or before these go
    streams_gone: Sequence[int]


class Manifest:
    """The SQLite file of a log."""

    def __init__(self, disk: Disk, *, write: bool, name: str = NAME) -> None:
        """Open it; `ManifestLost` if it is not there, `WrongVersion` if it is of another version."""
        self._disk = disk
        flags = apsw.SQLITE_OPEN_READWRITE if write else apsw.SQLITE_OPEN_READONLY
        with self._errors("opened"):
            try:
                self.db = apsw.Connection(disk.path(name), flags=flags, vfs=disk.vfs or None)
            except apsw.CantOpenError as error:
                if name in disk.names(""):
                    raise
                raise ManifestLost(
                    f"{NAME} is gone: {disk.repair_call} brings back the commits whose records are all there"
                ) from error
            self._prepare()

    @classmethod
    def create(cls, disk: Disk, name: str = NAME) -> None:
        """A new one, durably, for an empty log."""
        with _translated("made"):
            db = apsw.Connection(disk.path(name), vfs=disk.vfs or None)
            try:
                db.execute("PRAGMA journal_mode = TRUNCATE")
                db.execute("PRAGMA synchronous = EXTRA")
                with db:
                    db.execute(_SCHEMA)
                    db.execute(f"PRAGMA application_id = {APPLICATION}")
                    db.execute(f"PRAGMA user_version = {VERSION}")
                    for fact, value in (("version", VERSION), ("start", Start(1, 0)), ("state", Sum())):
                        db.execute("INSERT INTO facts VALUES (?, ?)", (fact, sealed(fact, _encode(value))))
            finally:
                db.close()
        disk.sync_dir("")

    @classmethod
    def unfinished(cls, disk: Disk) -> bool:
        """Whether the file is one whose making was cut short: it is made again by `create`."""
        with _translated("opened"):
            db = apsw.Connection(disk.path(NAME), flags=apsw.SQLITE_OPEN_READWRITE, vfs=disk.vfs or None)
            try:
                return next(iter(db.execute("SELECT 1 FROM sqlite_schema LIMIT 1")), None) is None
            finally:
                db.close()

    def _prepare(self) -> None:
        self.db.set_busy_timeout(_BUSY_MS)
        application = self.db.pragma("application_id")
        version = self.db.pragma("user_version")
        if application != APPLICATION or version != VERSION:
            self.db.close()
            raise WrongVersion(
                f"{NAME} is of version {version} (application {application:#x}): this is millstream for "
                f"version {VERSION}; open it with the millstream that wrote it"
            )
        self.db.execute("PRAGMA journal_mode = TRUNCATE")
        self.db.execute("PRAGMA synchronous = EXTRA")

    # -- reading

    def start(self) -> Start:
        """Where the journal goes on."""
        with self._errors("read"):
            data = self._fact("start")
            start = None if data is None else START.decode(data)
        if start is None:
            raise Damaged(f"{NAME} does not say where the journal goes on; run {self._disk.repair_call}")
        return start

    def load(self) -> tuple[Start, list[tuple[str, bytes, bytes]]]:
        """The rows of the state, and where the journal goes on, as of one moment."""
        found = []
        with self._errors("read"), self.db:
            total = Sum()
            for kind, key, data in self.db.execute("SELECT kind, key, data FROM state"):
                if not isinstance(kind, str) or not isinstance(key, bytes):
                    raise Damaged(f"{NAME}: a row of the state has the key {key!r:.80} of kind {kind!r:.80}")
                found.append((kind, key, opened(name_of(kind, key), data)))
                total = total.changed(data, 1)
            if total != self._sum():
                raise Damaged(f"{NAME}: rows of the state are missing")
            start = self.start()
        return start, found

    def _fact(self, name: str) -> bytes | None:
        row = self.db.execute("SELECT data FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else opened(name, row[0])

    def _put_fact(self, name: str, value: object) -> None:
        self.db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, sealed(name, _encode(value))))

    def _sum(self) -> Sum:
        data = self._fact("state")
        return Sum(-1) if data is None else SUM.decode(data)

    def end(self, key: ShardKey) -> int:
        """Where the last extent of a shard ends; 0 if there is none."""
        with self._errors("read"):
            data = self._fact(end_name(key))
            return 0 if data is None else END.decode(data)

    def extents(
        self, key: ShardKey, from_seq: int, count: int, size: int = _ANY_BYTES
    ) -> tuple[list[Kept], bool]:
        """Extents of a shard in order, from the one that may hold `from_seq` on, and whether that is all.

        There are at most `count`, and no more than it takes for `size` bytes.
        """
        with self._errors("read"):
            found, all_of_it = self._extents(key, from_seq, count, size)
            if self._missing(key, from_seq, found, all_of_it) is not None:  # or it was changed in between
                with self.db:
                    found, all_of_it = self._extents(key, from_seq, count, size)
                    self._raise_missing(key, self._missing(key, from_seq, found, all_of_it))
            return found, all_of_it

    def _extents(self, key: ShardKey, from_seq: int, count: int, size: int) -> tuple[list[Kept], bool]:
        found: list[Kept] = []
        for row in self.db.execute(_FROM, (*key, from_seq, count)):
            kept = kept_of(row)
            found.append(kept)
            size -= kept.extent.length if kept.extent.first >= from_seq else 0
            if size <= 0:
                return found, False
        return found, len(found) < count

    def _missing(
        self, key: ShardKey, seq: int, found: Sequence[Kept], all_of_it: bool
    ) -> tuple[int, int] | None:
        """The seqs, from one on, of which a row must have been, and is not there."""
        for kept in found:
            if kept.before > seq:
                return seq, kept.before
            seq = max(seq, kept.extent.next)
        if all_of_it and (end := self.end(key)) > seq:
            return seq, end
        return None

    def _raise_missing(self, key: ShardKey, seqs: tuple[int, int] | None) -> None:
        if seqs is not None:
            raise Damaged(
                f"{NAME}: a row of stream number {key[0]}, shard {key[1]} is missing, with seqs of "
                f"{seqs[0]} to {seqs[1] - 1}"
            )

    def extents_from(self, key: ShardKey, seq: int) -> Iterator[Kept]:
        """All extents of a shard, in order, that hold this seq or later ones; it may change meanwhile."""
        whole = False
        while not whole:
            found, whole = self.extents(key, seq, _EXTENTS_AT_ONCE)
            for kept in found:
                if kept.extent.next > seq:
                    yield kept
            if found:
                seq = found[-1].extent.next

    def extent_of_time(self, key: ShardKey, from_first: int, timestamp: int) -> Kept | None:
        """The first extent, beginning at `from_first` or later, that has a record not older than this."""
        with self._errors("read"):
            rows = self.db.execute(_FROM_TIME, (*key, from_first, timestamp))
            return next((kept_of(row) for row in rows), None)

    def extents_backwards(self, key: ShardKey) -> Iterator[Kept]:
        """All extents of a shard, the last one first."""
        with self._errors("read"):
            for row in self.db.execute(_BACKWARDS, key).fetchall():
                yield kept_of(row)

    def names_segment(self, segment: str) -> bool:
        """Whether some extent lies in this segment; no is only said after a look at every row."""
        with self._errors("read"):
            for how in ("INDEXED BY extents_by_segment", "NOT INDEXED"):
                rows = self.db.execute(f"SELECT 1 FROM extents {how} WHERE segment = ? LIMIT 1", (segment,))  # noqa: S608
                if next(iter(rows), None) is not None:
                    return True
            return False

    def end_of_segment(self, segment: str) -> int:
        """Where the last extent of a segment ends, after a look at every row; 0 if there is none."""
        with self._errors("read"):
            rows = self.db.execute(f"{_ALL} NOT INDEXED WHERE segment = ?", (segment,))
            return max((kept.extent.position + kept.extent.length for kept in map(kept_of, rows)), default=0)

    def segment_ends(self) -> dict[str, int]:
        """Where the last extent of each segment ends."""
        ends: dict[str, int] = {}
        with self._errors("read"):
            for row in self.db.execute(_ALL):
                extent = kept_of(row).extent
                ends[extent.segment] = max(extent.position + extent.length, ends.get(extent.segment, 0))
        return ends

    # -- writing

    def fold(self, fold: Fold) -> set[str]:
        """Write it; gives the segments in which an extent went."""
        self.settle()
        with self._errors("written"), self.db:
            self._put_rows(fold.rows)
            in_order = sorted(fold.extents, key=lambda item: (item[0], item[1].extent.first))
            for key, kepts in groupby(in_order, key=lambda item: item[0]):
                self._link(key, self.end(key), [kept for _, kept in kepts])
            touched: set[str] = set()
            for key, first in fold.firsts.items():
                touched |= self._delete_before(key, first)
            for stream in fold.streams_gone:
                rows = self.db.execute("DELETE FROM extents WHERE stream = ? RETURNING segment", (stream,))
                touched |= {segment for (segment,) in rows}
                self.db.execute("DELETE FROM facts WHERE name GLOB ?", (f"{end_name((stream, 0))[:-1]}*",))
            self._put_fact("start", fold.start)
        return touched

    def _put_rows(self, rows: Iterable[Change]) -> None:
        total = self._sum()
        for kind, key, data in rows:
            deleted = "DELETE FROM state WHERE kind = ? AND key = ? RETURNING data"
            for row in self.db.execute(deleted, (kind, key)).fetchall():
                old: Any = row[0]
                total = total.changed(old, -1)
            if data is not None:
                new = sealed(name_of(kind, key), data)
                self.db.execute("INSERT INTO state VALUES (?, ?, ?)", (kind, key, new))
                total = total.changed(new, 1)
        self._put_fact("state", total)

    def _link(self, key: ShardKey, before: int, kepts: Iterable[Kept]) -> None:
        """Put in extents after the one that ends at `before`, and mend the link of what follows them."""
        last = -1
        for kept in kepts:
            self._put_extent(key, kept, before)
            before, last = kept.extent.next, kept.extent.first
        where = (*key, max(last + 1, before))
        following = self.db.execute(_FIRST_AT, where).fetchone()
        if following is None:
            self._put_fact(end_name(key), before)
        else:
            self._put_extent(key, kept_of(following), before)

    def _put_extent(self, key: ShardKey, kept: Kept, before: int) -> None:
        extent = kept.extent
        kept = Kept(extent, kept.marks, before)
        row = (*key, extent.first, extent.newest, extent.segment)
        self.db.execute(
            "INSERT OR REPLACE INTO extents VALUES (?, ?, ?, ?, ?, ?)", (*row, _sealed_extent(key, kept))
        )

    def _delete(self, key: ShardKey, extents: Iterable[Extent]) -> None:
        self.db.executemany(
            "DELETE FROM extents WHERE stream = ? AND shard = ? AND first = ?",
            ((*key, extent.first) for extent in extents),
        )

    def _delete_before(self, key: ShardKey, first: int) -> set[str]:
        """Drop the extents that lie wholly before a seq."""
        gone = []
        for row in self.db.execute(_FROM, (*key, 0, 1 << 62)):
            extent = kept_of(row).extent
            if extent.next > first:
                break
            gone.append(extent)
        if gone:
            self._delete(key, gone)
            self._link(key, 0, ())
        return {extent.segment for extent in gone}

    def replace(self, key: ShardKey, old: Sequence[Extent], new: Sequence[Kept]) -> None:
        """Put extents in the place of others of the same shard, which follow each other."""
        self.settle()
        with self._errors("written"), self.db:
            row = self.db.execute(_LAST_BEFORE, (*key, old[0].first)).fetchone()
            self._delete(key, old)
            self._link(key, 0 if row is None else kept_of(row).extent.next, new)

    def settle(self) -> None:
        """Make durable what was written last, by whomever; after that no power cut takes it back.

        It is so when a transaction returns. But a process may have been killed after it emptied SQLite's
        own journal, by which the transaction counts, and before that was synced. A power cut may bring
        back what was in there, and mix it with what the next transaction writes to the same place.
        """
        try:
            fd = self._disk.open_write(f"{NAME}-journal")
        except FileNotFoundError:
            return
        try:
            self._disk.sync(fd)
        finally:
            self._disk.close(fd)

    def close(self) -> None:
        """Close the file."""
        self.db.close()

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        """SQLite's errors, as ours, and what to do about damage."""
        try:
            with _translated(what):
                yield
        except WrongVersion:
            raise
        except Damaged as error:
            if self._disk.repair_call in str(error):
                raise
            raise Damaged(f"{error}; run {self._disk.repair_call}") from error


@contextmanager
def _translated(what: str) -> Iterator[None]:
    """SQLite's errors, as ours."""
    try:
        yield
    except apsw.FullError as error:
        raise StoreFull(f"no room left on the device ({NAME}): {error}; make room, then try again") from error
    except apsw.ReadOnlyError as error:
        raise ReadOnly(f"{NAME} cannot be written: {error}; check its owner and permissions") from error
    except (
        apsw.CorruptError,
        apsw.NotADBError,
        apsw.SQLError,
        msgspec.DecodeError,
        UnicodeDecodeError,
    ) as error:
        raise Damaged(f"{NAME} is damaged: {error}") from error
    except apsw.Error as error:
        raise StoreFailed(f"{NAME} could not be {what}: {error}") from error


def name_of(kind: str, key: bytes) -> str:
    """What a row of the state is sealed with."""
    return f"{kind} {key.hex()}"


def end_name(key: ShardKey) -> str:
    """The fact that says where the last extent of a shard ends."""
    return f"end {key[0]} {key[1]}"


def sealed(name: str, data: bytes) -> bytes:
    """What a row keeps: the checksum of what it is and holds, and what it holds."""
    return crc32(data, crc32(name.encode())).to_bytes(4, "little") + data


def opened(name: str, data: bytes) -> bytes:
    """What a row holds; `Damaged` if it is not what was written under this name."""
    if not isinstance(data, bytes) or len(data) < 4:
        raise Damaged(f"{NAME}: the row '{name}' is cut short")
    held = data[4:]
    if crc32(held, crc32(name.encode())) != int.from_bytes(data[:4], "little"):
        raise Damaged(f"{NAME}: the row '{name}' does not match its checksum")
    return held


def _sealed_extent(key: ShardKey, kept: Kept) -> bytes:
    extent = kept.extent
    return sealed(f"{key} {extent.first} {extent.newest} {extent.segment}", _encode(kept))


def kept_of(row: tuple[Any, ...]) -> Kept:
    """The extent that a row keeps; `Damaged` if it is not what was written."""
    stream, shard, first, newest, segment, data = row
    try:
        kept = _KEPT.decode(opened(f"{(stream, shard)} {first} {newest} {segment}", data))
        extent = kept.extent
        if (extent.first, extent.newest, extent.segment) != (first, newest, segment):
            raise Damaged(f"{NAME}: a row is about another extent than it holds")
        return kept
    except (Damaged, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Damaged(
            f"{NAME}: the row of segment {segment}, stream number {stream}, shard {shard}, first seq {first} "
            f"does not match its checksum"
        ) from error


_encode = msgspec.msgpack.Encoder().encode
_KEPT = msgspec.msgpack.Decoder(Kept)
START = msgspec.msgpack.Decoder(Start)
SUM = msgspec.msgpack.Decoder(Sum)
END = msgspec.msgpack.Decoder(Whole)
