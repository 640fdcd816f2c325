"""Damage done to the files of a log: by chance, or at a place that a test names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

from millstream.log.file.journal import generation_of
from millstream.log.file.manifest import NAME as MANIFEST


def flip(path: Path, position: int, mask: int = 1) -> None:
    """Flip bits of one byte; negative positions count from the end."""
    data = bytearray(path.read_bytes())
    data[position] ^= mask
    path.write_bytes(data)


def cut(path: Path, size: int) -> None:
    """Cut a file; a negative size takes so many bytes from its end."""
    path.write_bytes(path.read_bytes()[:size])


def overwrite(path: Path, position: int, data: bytes) -> None:
    """Put other bytes in the place of some."""
    content = bytearray(path.read_bytes())
    content[position : position + len(data)] = data
    path.write_bytes(content)


def segments(root: Path, stream: str = "*") -> list[Path]:
    """The segments of a stream, or of all."""
    return sorted((root / "streams").glob(f"{stream}/*.arrow"))


def manifest(root: Path) -> Path:
    return root / MANIFEST


def journals(root: Path) -> list[Path]:
    """The generations of the journal that are there."""
    return sorted(path for path in root.iterdir() if generation_of(path.name))


# -- by chance


def _flip(random: Random, path: Path) -> str:
    position, mask = random.randrange(path.stat().st_size), 1 << random.randrange(8)
    flip(path, position, mask)
    return f"{path.name}: bit {mask:#x} flipped at {position}"


def _cut(random: Random, path: Path) -> str:
    size = random.randrange(path.stat().st_size)
    cut(path, size)
    return f"{path.name}: cut to {size}"


def _block(random: Random, path: Path) -> str:
    """A block of the device that reads as something else."""
    length = random.choice((16, 512, 4096))
    position = random.randrange(path.stat().st_size) // length * length
    data = random.choice((bytes(length), b"\xff" * length, random.randbytes(length)))
    overwrite(path, position, data[: path.stat().st_size - position])
    return f"{path.name}: {length} other bytes at {position}, {data[:3]!r}.."


def _grow(random: Random, path: Path) -> str:
    with path.open("ab") as file:
        file.write(random.randbytes(random.choice((1, 8, 100))))
    return f"{path.name}: bytes added"


def _remove(_: Random, path: Path) -> str:
    path.unlink()
    return f"{path.name}: removed"


_WAYS: dict[Callable[[Random, Path], str], int] = {_flip: 6, _cut: 2, _block: 3, _grow: 1, _remove: 2}


def harm(random: Random, root: Path) -> str:
    """Damage one file of a log in some way; says what was done."""
    kinds = [journals(root), [manifest(root)], segments(root), segments(root), [root / "synced"]]
    files = [path for path in random.choice([kind for kind in kinds if kind]) if path.exists()]
    full = [path for path in files if path.stat().st_size]
    if not full:
        return "nothing"
    way = random.choices(list(_WAYS), list(_WAYS.values()))[0]
    return way(random, random.choice(full))
