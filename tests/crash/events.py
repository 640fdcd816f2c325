"""The calls that change a directory, and what may be left of them.

The fault model: bytes are durable from the next sync of their file on, names from the next sync of
their folder on. Of everything else a power cut may keep, drop, tear at any sector or garble each piece
on its own, whatever came before or after it. Bytes that are durable stay as they are, also when
others are written into the same sector. A killed process loses nothing but the rest of its last write.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias

SECTOR_BYTES = 512
FOLDER = -1  # in place of a file's number


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes were written to a file."""

    file: int
    position: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Truncate:
    """A file was cut, or made longer."""

    file: int
    length: int


@dataclass(frozen=True, slots=True)
class Sync:
    """A file's bytes were made durable."""

    file: int


@dataclass(frozen=True, slots=True)
class Name:
    """A name was given to a file or folder, or (None) taken away."""

    name: str
    file: int | None


@dataclass(frozen=True, slots=True)
class SyncFolder:
    """A folder's names were made durable."""

    folder: str


Change: TypeAlias = Write | Truncate
Event: TypeAlias = Write | Truncate | Sync | Name | SyncFolder


@dataclass
class Content:
    """A file's durable bytes, and what was done to it since."""

    durable: bytes = b""
    pending: list[Change] = field(default_factory=list)

    def now(self) -> bytes:
        """What every process sees."""
        return changed(self.durable, self.pending)


@dataclass
class Image:
    """What is in a directory."""

    files: dict[str, bytes]
    folders: set[str]


@dataclass
class Machine:
    """A directory as the disk under it knows it."""

    contents: dict[int, Content] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)  # the durable ones
    renamed: dict[str, list[int | None]] = field(default_factory=dict)  # since the folder's last sync

    @classmethod
    def of(cls, image: Image) -> Machine:
        """One that has just started with all of this on its disk."""
        machine = cls()
        machine.names = dict.fromkeys(image.folders, FOLDER)
        for number, (name, data) in enumerate(sorted(image.files.items())):
            machine.contents[number] = Content(data)
            machine.names[name] = number
        return machine

    def copy(self) -> Machine:
        """The same, to go on with."""
        return Machine(
            {number: Content(c.durable, list(c.pending)) for number, c in self.contents.items()},
            dict(self.names),
            {name: list(files) for name, files in self.renamed.items()},
        )

    def apply(self, event: Event) -> None:
        """Go on by one call."""
        match event:
            case Write() | Truncate():
                self.contents[event.file].pending.append(event)
            case Sync():
                content = self.contents[event.file]
                self.contents[event.file] = Content(content.now())
            case Name():
                self.renamed.setdefault(event.name, []).append(event.file)
                if event.file is not None and event.file not in self.contents and event.file != FOLDER:
                    self.contents[event.file] = Content()
            case SyncFolder():
                inside = [name for name in self.renamed if posixpath.dirname(name) == event.folder]
                for name in inside:
                    self._name(self.names, name, self.renamed.pop(name)[-1])

    def names_now(self) -> dict[str, int]:
        """The names that every process sees."""
        names = dict(self.names)
        for name, files in self.renamed.items():
            self._name(names, name, files[-1])
        return names

    def now(self) -> Image:
        """What every process sees, and the next one after a kill."""
        names = self.names_now()
        return self._image(names, {n: self.contents[n].now() for n in names.values() if n != FOLDER})

    def durable(self) -> Image:
        """The least that a power cut leaves."""
        return self._image(self.names, {n: c.durable for n, c in self.contents.items()})

    def cut(self, random: Random, faults: Counter[str]) -> Image:
        """Something that a power cut may leave."""
        names = dict(self.names)
        for name, files in self.renamed.items():
            kept = random.choice((0, random.randint(0, len(files)), len(files)))
            if kept:
                self._name(names, name, files[kept - 1])
            if kept < len(files):
                faults["name lost" if files[-1] is not None else "name back"] += 1
        found = {n: left(self.contents[n], random, faults) for n in names.values() if n != FOLDER}
        return self._image(names, found)

    @staticmethod
    def _name(names: dict[str, int], name: str, file: int | None) -> None:
        if file is None:
            names.pop(name, None)
        else:
            names[name] = file

    @staticmethod
    def _image(names: dict[str, int], contents: dict[int, bytes]) -> Image:
        """Names whose folder is lost are lost too."""
        folders = {name for name, file in names.items() if file == FOLDER}
        found = Image({}, {name for name in folders if _inside(name, folders)})
        for name, file in names.items():
            if file != FOLDER and _inside(name, folders):
                found.files[name] = contents[file]
        return found


def _inside(name: str, folders: set[str]) -> bool:
    folder = posixpath.dirname(name)
    return not folder or (folder in folders and _inside(folder, folders))


def changed(data: bytes, changes: list[Change]) -> bytes:
    """Bytes after some changes; what was skipped is zeros."""
    if not changes:
        return data
    new = bytearray(data)
    for change in changes:
        if isinstance(change, Truncate):
            length = change.length
            new[length:] = bytes(max(0, length - len(new)))
        else:
            if len(new) < change.position:
                new += bytes(change.position - len(new))
            new[change.position : change.position + len(change.data)] = change.data
    return bytes(new)


def left(content: Content, random: Random, faults: Counter[str]) -> bytes:
    """What may be left of a file: each change since its last sync on its own."""
    count = len(content.pending)
    if not count:
        return content.durable
    fates = random.choice((_any, _begin, _end))(random, count)
    kept: list[Change] = []
    for change, fate in zip(content.pending, fates, strict=True):
        kept += _kept(change, fate, random, faults)
    if any(fates[number] == "dropped" and "kept" in fates[number:] for number in range(count)):
        faults["reordered"] += 1
    return changed(content.durable, kept)


def _any(random: Random, count: int) -> list[str]:
    return random.choices(("kept", "dropped", "torn", "garbled"), (5, 3, 2, 2), k=count)


def _begin(random: Random, count: int) -> list[str]:
    """In order, as far as it came."""
    whole = random.randint(0, count)
    rest = count - whole
    last = [random.choice(("torn", "garbled", "dropped"))] if rest else []
    return ["kept"] * whole + last + ["dropped"] * (rest - 1)


def _end(random: Random, count: int) -> list[str]:
    """The newest only."""
    lost = random.randint(0, count)
    return ["dropped"] * lost + ["kept"] * (count - lost)


def _kept(change: Change, fate: str, random: Random, faults: Counter[str]) -> list[Change]:
    """What is left of one change."""
    if isinstance(change, Truncate):
        faults["truncate " + ("dropped" if fate == "dropped" else "kept")] += 1
        return [] if fate == "dropped" else [change]
    faults[fate] += 1
    if fate == "kept":
        return [change]
    if fate == "dropped":
        return []
    return _torn(change, random) if fate == "torn" else _garbled(change, random)


def _sectors(change: Write) -> list[tuple[int, int]]:
    """Where a write's sectors begin and end in its data."""
    edges = [0]
    first = SECTOR_BYTES - change.position % SECTOR_BYTES
    edges += list(range(first, len(change.data), SECTOR_BYTES))
    return list(zip(edges, [*edges[1:], len(change.data)], strict=True))


def _torn(change: Write, random: Random) -> list[Change]:
    """The first sectors only, or any of them; of a write within one sector the first bytes."""
    sectors = _sectors(change)
    if len(sectors) == 1:
        return [Write(change.file, change.position, change.data[: random.randrange(len(change.data) or 1)])]
    if random.random() < 0.5:
        some = sectors[: random.randrange(len(sectors))]
    else:
        some = [sector for sector in sectors if random.random() < 0.5]
    return [Write(change.file, change.position + a, change.data[a:b]) for a, b in some]


def _garbled(change: Write, random: Random) -> list[Change]:
    """As long as it was; some of it is zeros, a flipped bit, or anything."""
    data = bytearray(change.data)
    start, stop = random.choice(_sectors(change))
    match random.choice(("zeros", "bit", "noise")):
        case "zeros":
            data[start:stop] = bytes(stop - start)
        case "bit" if data:
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        case _:
            data[start:stop] = random.randbytes(stop - start)
    return [Write(change.file, change.position, bytes(data))]
