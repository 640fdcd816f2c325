"""What happens to files by accident: nobody makes a checksum fit."""

from __future__ import annotations

from random import Random

from tests.crash.events import SECTOR_BYTES, Image

_PAGE_BYTES = 4096


def damaged(image: Image, random: Random, only: str | None = None) -> tuple[Image, str]:
    """The image with one file damaged, sometimes two, and what was done."""
    files = dict(image.files)
    told = []
    for _ in range(random.choice((1, 1, 1, 2))):
        # Each kind of file as often as any other, however many there are of it.
        kind = only or random.choice(sorted({_kind(name) for name in files} or {""}))
        names = [name for name in sorted(files) if _kind(name) == kind]
        if not names:
            break
        name = random.choice(names)
        how = random.choice(sorted(_WAYS))
        told.append(f"{name}: {how}")
        if how == "gone":
            del files[name]
        elif how == "empty":
            files[name] = b""
        elif how == "another file's bytes":
            files[name] = files[random.choice(sorted(files))]
        else:
            files[name] = _WAYS[how](files[name], random)
    return Image(files, set(image.folders)), ", ".join(told)


def _kind(name: str) -> str:
    if name.endswith(".lock"):
        return "lock"
    return "segment" if name.startswith("streams/") else name.partition("-0")[0]


def flip(data: bytes, random: Random) -> bytes:
    """Some bits the other way round."""
    new = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 3, 10)) if data else 0):
        new[random.randrange(len(new))] ^= 1 << random.randrange(8)
    return bytes(new)


def _cut(data: bytes, random: Random) -> bytes:
    return data[: random.randrange(len(data) + 1)]


def _longer(data: bytes, random: Random) -> bytes:
    more = random.choice((bytes(random.randrange(1, 300)), random.randbytes(random.randrange(1, 300)), data))
    return data + more


def _over(data: bytes, random: Random, piece: bytes, step: int) -> bytes:
    """A piece put over what is at a place."""
    at = random.randrange(max(1, len(data) // step)) * step
    return data[:at] + piece[: len(data) - at] + data[at + len(piece) :]


def _zeros(data: bytes, random: Random) -> bytes:
    size = random.choice((4, SECTOR_BYTES, _PAGE_BYTES))
    return _over(data, random, bytes(size), size)


def _noise(data: bytes, random: Random) -> bytes:
    size = random.choice((1, 4, 64, SECTOR_BYTES, _PAGE_BYTES))
    return _over(data, random, random.randbytes(size), random.choice((1, size)))


def _moved(data: bytes, random: Random) -> bytes:
    """A part of it in another place too."""
    size = random.choice((12, 64, SECTOR_BYTES, _PAGE_BYTES))
    at = random.randrange(len(data) or 1)
    return _over(data, random, data[at : at + size], random.choice((1, size)))


def _missing(data: bytes, random: Random) -> bytes:
    """Some bytes in the midst of it left out."""
    at = random.randrange(len(data) or 1)
    return data[:at] + data[at + random.choice((1, 8, 64, SECTOR_BYTES)) :]


_WAYS = {  # three of them need no function of their own, and are told by their names
    "another file's bytes": flip,
    "bits": flip,
    "cut": _cut,
    "empty": flip,
    "gone": flip,
    "longer": _longer,
    "missing bytes": _missing,
    "moved bytes": _moved,
    "noise": _noise,
    "zeros": _zeros,
}
