"""How the tests run: what Hypothesis does, so that a failure can be run again from what it prints."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.memory import memory_folder

pytest_plugins = ["pytester"]  # for the tests of our own plugin; pytest wants it said up here

# Machines that run tests are shared: a slow example says nothing, a failing one prints how to repeat it.
settings.register_profile("millstream", deadline=None, print_blob=True)
settings.load_profile("millstream")


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """A folder of the test's own that is not on a disk, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="millstream-", dir=memory_folder()) as folder:
        yield Path(folder)
