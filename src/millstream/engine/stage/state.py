"""The state of a page: chunks of some kilobytes, of which an epoch reads and writes those that it touches.

A chunk holds the states of all steps under some keys. Their number grows with what is stored, one split at
a time (linear hashing), so a chunk stays small. What keeps them (Spark's state store, or a dict in a
simulation) sees numbers and bytes only.

>>> kept: dict[int, bytes] = {}
>>> state = PageState(kept, Cache(), ("job", 0))
>>> state.touch([b"ann"])
>>> state.of("total").set(b"ann", b"7")
>>> state.save()
>>> again = PageState(kept, Cache(), ("job", 0))
>>> again.touch([b"ann"])
>>> again.of("total").get(b"ann")
b'7'
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from secrets import randbits
from typing import Protocol, TypeVar

import msgspec
import numpy as np
import pyarrow as pa

from millstream.engine.stage.block import Key
from millstream.errors import Damaged
from millstream.keyhash import hashes_of

CHUNK_BYTES = 8 << 10
CACHE_BYTES = 128 << 20  # in one worker
DIRECTORY = -1

T = TypeVar("T")
Chunk = dict[str, dict[Key, bytes]]  # step, key


class Store(Protocol):
    """What keeps the chunks of one page."""

    def get(self, number: int) -> bytes | None:
        """A chunk; None: there is none."""

    def __setitem__(self, number: int, data: bytes) -> None:
        """Keep a chunk."""


class Directory(msgspec.Struct, array_like=True):
    """How many chunks there are, how much is in them, and which state of the page this is."""

    chunks: int = 1
    bytes: int = 0
    version: int = 0


class Cache:
    """Chunks as this worker saw them last: good for a page while its version is still the same.

    Whoever uses an entry takes it out, and puts it back when all went well.
    """

    def __init__(self, bytes_max: int = CACHE_BYTES) -> None:
        """Keep so much at most."""
        self._bytes_max = bytes_max
        self._bytes = 0
        self._pages: OrderedDict[Hashable, tuple[int, dict[int, bytes]]] = OrderedDict()

    def take(self, page: Hashable, version: int) -> dict[int, bytes]:
        """The chunks of a page, if they are of this version; they are not here any more then."""
        known, chunks = self._pages.pop(page, (0, {}))
        self._bytes -= _size(chunks)
        return chunks if known == version else {}

    def give(self, page: Hashable, version: int, chunks: dict[int, bytes]) -> None:
        """Keep the chunks of a page; those of pages that were not asked for go first."""
        self._pages[page] = version, chunks
        self._bytes += _size(chunks)
        while self._bytes > self._bytes_max and self._pages:
            _, (_, old) = self._pages.popitem(last=False)
            self._bytes -= _size(old)


class StepStates:
    """The states of one step, in the chunks that were touched."""

    __slots__ = ("_name", "_page")

    def __init__(self, page: PageState, name: str) -> None:
        """A view of a page's state."""
        self._page = page
        self._name = name

    def get(self, key: Key) -> bytes | None:
        """What is kept under a key."""
        return self._page.chunk(key).get(self._name, {}).get(key)

    def set(self, key: Key, data: bytes | None) -> None:
        """Keep another; None: nothing."""
        self._page.put(self._name, key, data)

    def all(self) -> Iterator[tuple[Key, bytes]]:
        """Every key that has one, in all chunks."""
        return self._page.all(self._name)


class PageState:
    """The state of one page, while a task has it."""

    def __init__(self, store: Store, cache: Cache, page: Hashable) -> None:
        """Read what there is to know of it."""
        self._store = store
        self._cache = cache
        self._page = page
        data = store.get(DIRECTORY)
        self._directory = Directory() if data is None else _decoded(_DIRECTORIES, data)
        self._known = cache.take(page, self._directory.version)
        self._open: dict[int, Chunk] = {}
        self._changed: set[int] = set()
        self._place: dict[Key, int] = {}

    def touch(self, keys: Sequence[Key]) -> None:
        """Find out where keys are kept, all at once."""
        new = [key for key in keys if key not in self._place]
        self._place.update(zip(new, self._places(new, self._directory.chunks), strict=True))

    def of(self, step: str) -> StepStates:
        """The states of a step."""
        return StepStates(self, step)

    def chunk(self, key: Key) -> Chunk:
        """The chunk that a key is in."""
        number = self._place.get(key)
        if number is None:
            self.touch([key])
            number = self._place[key]
        return self._chunk(number)

    def put(self, step: str, key: Key, data: bytes | None) -> None:
        """Keep a state, or forget it."""
        states = self.chunk(key).setdefault(step, {})
        if states.get(key) == data:
            return
        if data is None:
            del states[key]
        else:
            states[key] = data
        self._changed.add(self._place[key])

    def all(self, step: str) -> Iterator[tuple[Key, bytes]]:
        """Every state of a step."""
        for number in range(self._directory.chunks):
            yield from list(self._chunk(number).get(step, {}).items())

    def everything(self) -> Iterator[tuple[str, Key, bytes]]:
        """Every state there is: step, key, state."""
        for number in range(self._directory.chunks):
            for step, states in self._chunk(number).items():
                for key, data in states.items():
                    yield step, key, data

    def save(self) -> None:
        """Write what has changed, and let the worker remember it."""
        if self._changed:
            self._grow()
            for number in sorted(self._changed):
                data = _CHUNKS_OUT.encode(self._open[number])
                self._directory.bytes += len(data) - len(self._known.get(number, b""))
                self._known[number] = data
                self._store[number] = data
            self._directory.version = randbits(62)
            self._store[DIRECTORY] = _DIRECTORIES_OUT.encode(self._directory)
            self._changed.clear()
        self._cache.give(self._page, self._directory.version, self._known)

    # -- chunks

    def _chunk(self, number: int) -> Chunk:
        found = self._open.get(number)
        if found is None:
            data = self._known.get(number)
            if data is None:
                data = self._store.get(number)
                if data is not None:
                    self._known[number] = data
            found = {} if data is None else _decoded(_CHUNKS, data)
            self._open[number] = found
        return found

    def _grow(self) -> None:
        """Split chunks, one after the other, until they are small again on the average."""
        size = self._directory.bytes
        for number in self._changed:
            size += _estimate(self._open[number]) - len(self._known.get(number, b""))
        before = self._directory.chunks
        wanted = max(before, min(size // CHUNK_BYTES, before + max(64, 4 * len(self._changed))))
        if wanted == before:
            return
        split = {_parent(number, before) for number in range(before, wanted)}
        for number in sorted(split):
            chunk = self._chunk(number)
            pairs = [(step, key) for step, states in chunk.items() for key in states]
            for (step, key), place in zip(
                pairs, self._places([key for _, key in pairs], wanted), strict=True
            ):
                if place != number:
                    self._open.setdefault(place, {}).setdefault(step, {})[key] = chunk[step].pop(key)
        self._changed.update(split, range(before, wanted))
        for number in range(before, wanted):
            self._open.setdefault(number, {})
        self._directory.chunks = wanted
        self._place.clear()

    def _places(self, keys: Sequence[Key], chunks: int) -> list[int]:
        """The chunk of each key, if there are so many."""
        if not keys:
            return []
        hashes = hashes_of(pa.array([b"" if key is None else key for key in keys], pa.binary()))
        mixed = (hashes.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(24)
        whole = 1 << (chunks - 1).bit_length()
        places = mixed & np.uint64(whole - 1)
        places = np.where(places >= chunks, places & np.uint64(whole // 2 - 1 if whole > 1 else 0), places)
        found: list[int] = places.astype(np.int64).tolist()
        return found


def _parent(number: int, before: int) -> int:
    """The chunk, of those there are now, that gives to a new one."""
    while number >= before:
        number -= 1 << (number.bit_length() - 1)
    return number


def _estimate(chunk: Chunk) -> int:
    return sum(len(key or b"") + len(data) + 6 for states in chunk.values() for key, data in states.items())


def _size(chunks: dict[int, bytes]) -> int:
    return sum(map(len, chunks.values()))


def _decoded(decoder: msgspec.msgpack.Decoder[T], data: bytes) -> T:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Damaged(
            f"the state of a page cannot be read: {error}; start the job again with rebuild"
        ) from None


_CHUNKS = msgspec.msgpack.Decoder(dict[str, dict[Key, bytes]])
_CHUNKS_OUT = msgspec.msgpack.Encoder()
_DIRECTORIES = msgspec.msgpack.Decoder(Directory)
_DIRECTORIES_OUT = msgspec.msgpack.Encoder()
