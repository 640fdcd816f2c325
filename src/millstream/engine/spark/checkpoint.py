"""What Spark keeps of a job, looked over before Spark is started on it.

Spark does not sync what it writes, so a power cut may take its newest files or leave them empty, and what it
does then is an error of its own or, for some combinations, something worse. Here the newest epoch is found of
which everything is there: its offsets, its commit, its states. What is newer is put aside; it is done again,
by the plans that the log has.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_SST = re.compile(r'"dfsSstFileName"\s*:\s*"([^"/]+)"')
_STATE = re.compile(r"(\d+)(?:_[0-9a-f-]+)?\.(changelog|zip)")


class Whole(NamedTuple):
    """The newest batch of which all is there (-1: none), and the files that were put aside."""

    batch: int
    aside: tuple[str, ...]


def committed(folder: Path, batch: int) -> bool:
    """Whether a batch was committed."""
    return batch < 0 or (folder / "commits" / str(batch)).exists()


def heal(folder: Path, pages: int, depth: int) -> Whole:
    """Go back to the newest batch that is whole; give which that is."""
    offsets = {number for number, path in _numbered(folder / "offsets") if _is_log(path)}
    commits = {number for number, path in _numbered(folder / "commits") if _is_log(path)}
    newest = max(offsets | commits, default=-1)
    whole = next(
        (
            batch
            for batch in range(newest, -1, -1)
            if batch in offsets
            and batch in commits
            and _has_states(folder / "state", batch + 1, pages, depth)
        ),
        -1,
    )
    aside = []
    next_offset = whole + 1 in offsets
    for name, last in (("offsets", whole + next_offset), ("commits", whole)):
        aside += [path for number, path in _numbered(folder / name) if number > last]
        aside += [path for path in _sums(folder / name) if int(path.name[1:-4]) > last]
    aside += [path for path, version in _states(folder / "state") if version > whole + 1]
    metadata = folder / "metadata"
    aside += [metadata] if metadata.exists() and not metadata.stat().st_size else []
    moved = tuple(_put_aside(folder, path) for path in aside)
    return Whole(whole, moved)


def _numbered(folder: Path) -> Iterator[tuple[int, Path]]:
    """The files of one of Spark's logs, by batch."""
    if folder.is_dir():
        for path in sorted(folder.iterdir()):
            if path.name.isdecimal():
                yield int(path.name), path


def _sums(folder: Path) -> list[Path]:
    """The checksums beside them."""
    if not folder.is_dir():
        return []
    return [path for path in folder.iterdir() if re.fullmatch(r"\.\d+\.crc", path.name)]


def _is_log(path: Path) -> bool:
    """Whether a file of one of Spark's logs is all there: a version, and lines of JSON."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    if not lines or not re.fullmatch(r"v\d+", lines[0]) or len(lines) < 2:
        return False
    try:
        json.loads(lines[-1])
    except json.JSONDecodeError:
        return False
    return True


def _states(folder: Path) -> Iterator[tuple[Path, int]]:
    """The files of the state stores, and the version that each brings a store to."""
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        found = _STATE.fullmatch(path.name)
        if found and path.is_file():
            yield path, int(found[1])


def _has_states(folder: Path, version: int, pages: int, depth: int) -> bool:
    """Whether each store of each page can be brought to a version."""
    if not depth:
        return True
    stores: dict[Path, dict[str, set[int]]] = {}
    for path, number in _states(folder):
        if path.stat().st_size and (path.suffix != ".zip" or _is_snapshot(path)):
            kinds = stores.setdefault(path.parent, {"changelog": set(), "zip": set()})
            kinds[path.suffix[1:]].add(number)
    return len(stores) >= pages * depth and all(
        _reaches(kinds["zip"], kinds["changelog"], version) for kinds in stores.values()
    )


def _reaches(snapshots: set[int], changes: set[int], version: int) -> bool:
    """Whether a snapshot, and all changes since, bring a store to a version."""
    start = max((number for number in snapshots if number <= version), default=0)
    return all(number in changes for number in range(start + 1, version + 1))


def _is_snapshot(path: Path) -> bool:
    """Whether all files that a snapshot is made of are there."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = _SST.findall(archive.read("metadata").decode())
    except (zipfile.BadZipFile, KeyError, UnicodeDecodeError, OSError, EOFError):
        return False
    files = [path.parent / "SSTs" / name for name in names]
    return all(file.exists() and file.stat().st_size for file in files)


def _put_aside(folder: Path, path: Path) -> str:
    """Move a file out of Spark's sight; it is kept for who wants to look."""
    name = path.relative_to(folder)
    target = folder.parent / f"{folder.name}.aside" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    path.rename(target)
    return str(name)
