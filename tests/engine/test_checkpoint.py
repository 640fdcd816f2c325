"""The newest files of Spark's checkpoint are lost or empty: a job goes on exactly, or says what to do.

Spark does not sync what it writes, so a power cut may take any of them.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import chain, combinations
from pathlib import Path
from random import Random, SystemRandom
from typing import NamedTuple

import pytest

import millstream
from millstream.engine.spark.checkpoint import committed, heal
from millstream.errors import Damaged
from tests.engine.shop import fill, problems, shop

RECORDS = 6_000
MORE = 500
KINDS = ("offsets", "commits", "state")


class Loss(NamedTuple):
    """Of these folders the newest so many versions are gone, or empty."""

    folders: tuple[str, ...]
    newest: int
    emptied: bool


LOSSES = [
    Loss(folders, newest, emptied)
    for folders in chain.from_iterable(combinations(KINDS, size) for size in (1, 2, 3))
    for newest in (1, 2, 3)
    for emptied in (False, True)
]


def run(url: str, **options: object) -> None:
    """The shop, until the end."""
    shop().run(url, until="end", master="local[2]", pages=2, **options)


@pytest.fixture(scope="module")
def shopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log, and a job that has done some epochs of it."""
    folder = tmp_path_factory.mktemp("shop")
    url = f"file:{folder}/log"
    with millstream.open(url) as log:
        fill(log, RECORDS)
    run(url, records_max=RECORDS // 6)
    return folder


@pytest.fixture
def again(shopped: Path, tmp_path: Path) -> Path:
    """A copy of it, with more orders."""
    folder = tmp_path / "copy"
    shutil.copytree(shopped, folder)
    with millstream.open(f"file:{folder}/log") as log:
        fill(log, MORE, first=RECORDS)
    return folder


def checkpoint_in(folder: Path) -> Path:
    """What Spark keeps."""
    return folder / "log.jobs" / "shop" / "shop.parities" / "checkpoint-0"


def versions(folder: Path, kind: str) -> dict[int, list[Path]]:
    """The files of a part of a checkpoint, by what they bring it to."""
    found: dict[int, list[Path]] = {}
    for path in (folder / kind).rglob("*") if kind == "state" else (folder / kind).iterdir():
        number = path.name.split(".")[0].split("_")[0]
        wanted = path.suffix in {".changelog", ".zip"} if kind == "state" else path.name.isdecimal()
        if wanted and number.isdecimal():
            found.setdefault(int(number), []).append(path)
    return found


def lose(folder: Path, loss: Loss) -> None:
    """Take the files away, or empty them."""
    for kind in loss.folders:
        found = versions(folder, kind)
        for version in sorted(found)[-loss.newest :]:
            for path in found[version]:
                path.write_bytes(b"") if loss.emptied else path.unlink()
                path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def named(loss: Loss) -> str:
    """For the test's name."""
    return f"{'+'.join(loss.folders)}-{loss.newest}-{'emptied' if loss.emptied else 'gone'}"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("loss", LOSSES, ids=map(named, LOSSES))
def test_it_goes_back_to_the_newest_epoch_that_is_whole(again: Path, loss: Loss) -> None:
    folder = checkpoint_in(again)
    newest = max(versions(folder, "commits"))
    lose(folder, loss)
    whole = heal(folder, pages=2, depth=2)
    assert newest - 3 <= whole.batch < newest
    assert committed(folder, whole.batch)
    left = {kind: max(versions(folder, kind)) for kind in KINDS}
    assert left["commits"] == whole.batch
    assert left["state"] == whole.batch + 1
    assert left["offsets"] in {whole.batch, whole.batch + 1}
    assert heal(folder, pages=2, depth=2) == (whole.batch, ())


def some_losses() -> Iterator[Loss]:
    """Two of them, by a seed that is told."""
    seed = SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    yield from Random(seed).sample(LOSSES, 2)


@pytest.mark.timeout(300)
def test_a_job_goes_on_exactly_after_a_loss(shopped: Path, tmp_path: Path) -> None:
    for number, loss in enumerate(some_losses()):
        go_on(shopped, tmp_path / str(number), loss)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_job_goes_on_exactly_after_every_loss(shopped: Path, tmp_path: Path) -> None:
    for loss in LOSSES:
        go_on(shopped, tmp_path / named(loss), loss)


def go_on(shopped: Path, folder: Path, loss: Loss) -> None:
    """A copy suffers a loss, and goes on."""
    print(loss)
    shutil.copytree(shopped, folder)
    url = f"file:{folder}/log"
    with millstream.open(url) as log:
        fill(log, MORE, first=RECORDS)
    lose(checkpoint_in(folder), loss)
    run(url)
    with millstream.open(url) as log:
        assert problems(log, RECORDS + MORE) == [], loss
    shutil.rmtree(folder)


@pytest.mark.timeout(300)
def test_a_checkpoint_that_is_gone_is_refused_and_rebuilt_with_nothing_written_twice(again: Path) -> None:
    url = f"file:{again}/log"
    run(url, records_max=100, max_epochs=12)  # further than may be done again
    shutil.rmtree(checkpoint_in(again))
    with pytest.raises(Damaged, match=r"whole up to epoch -1, and the job was at \d+\. .*rebuild=True"):
        run(url)
    run(url, rebuild=True)
    with millstream.open(url) as log:
        assert problems(log, RECORDS + MORE) == []
