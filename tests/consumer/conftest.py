"""Logs for consumers: one whose clock stands still, and one in the machine's time."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import millstream
from millstream import Log
from millstream.clock import ManualClock
from tests.contract.stores import STORES, Store


@pytest.fixture(params=STORES, ids=lambda store: store.scheme)
def store(request: pytest.FixtureRequest) -> Store:
    found = request.param
    assert isinstance(found, Store)
    return found


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def log(store: Store, tmp_path: Path, clock: ManualClock) -> Iterator[Log]:
    """A log whose clock stands still."""
    with millstream.open(store.url.format(directory=tmp_path), clock=clock, upkeep=False) as log:
        yield log


@pytest.fixture
def live(store: Store, tmp_path: Path) -> Iterator[Log]:
    """A log in the machine's time, for those who wait."""
    with millstream.open(store.url.format(directory=tmp_path)) as log:
        yield log


@pytest.fixture
def orders(log: Log) -> Log:
    """The still log, with a stream of four shards."""
    log.create("orders", shards=4)
    return log
