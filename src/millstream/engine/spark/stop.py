"""The wish to stop: a file that the driver makes and the planner, in its own process, looks for."""

from __future__ import annotations

from pathlib import Path


class StopFile:
    """Whether a job shall plan no further epochs."""

    def __init__(self, folder: str) -> None:
        """In the job's folder."""
        self._path = Path(folder, "stop")

    def set(self) -> None:
        """Wish it."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.touch()

    def clear(self) -> None:
        """Wish it no more."""
        self._path.unlink(missing_ok=True)

    def is_set(self) -> bool:
        """Whether it is wished."""
        return self._path.exists()
