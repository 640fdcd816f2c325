"""A folder in memory, for tests that write much and to which a real disk would say nothing new."""

import os
import tempfile


def memory_folder() -> str:
    """A folder in memory, where the system has one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()  # noqa: S108
