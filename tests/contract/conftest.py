"""The stores as fixtures, and what becomes of a test that a store cannot pass."""

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from millstream.errors import Unsupported
from millstream.log import Log
from millstream.log.can import Can
from tests.contract.stores import STORES, Store
from tests.manual_clock import ManualClock


@pytest.fixture(scope="session", params=STORES, ids=lambda store: store.scheme)
def store(request: pytest.FixtureRequest) -> Store:
    found = request.param
    assert isinstance(found, Store)
    return found


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def log(store: Store, tmp_path: Path, clock: ManualClock) -> Iterator[Log]:
    with store.open(tmp_path, clock) as log:
        yield log


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(*abilities): without them, the test asserts `Unsupported`")


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Turn a test around where the store lacks an ability that it needs: it must be told so."""
    wanted = {ability for mark in pyfuncitem.iter_markers("needs") for ability in mark.args}
    store = pyfuncitem.funcargs.get("store")
    missing = wanted - store.can if isinstance(store, Store) else set()
    if not missing:
        return (yield)
    assert isinstance(store, Store)
    try:
        yield
    except Unsupported as error:
        assert_told(error, missing, store)
        return True
    raise AssertionError(f"a '{store.scheme}:' log says that it cannot {missing}, and did it")


def assert_told(error: Unsupported, missing: set[Can], store: Store) -> None:
    """The words name what is missing, and everything the store can do."""
    words, _, able = str(error).partition("It supports: ")
    assert f"a '{store.scheme}:' log does not support" in words
    assert any(str(ability) in words for ability in missing)
    assert all(str(ability) in able for ability in store.can)
    assert "Use a log that can" in able
