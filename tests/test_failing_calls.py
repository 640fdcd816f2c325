"""The N-th call to the machine fails, for every N: an error of ours, nothing half done, nothing lost.

A script does a bit of everything. Each of its steps that fails leaves the log as it was (what is not a
commit may have happened before the error), and goes through once the trouble is over. A failed sync
ends the log until it is opened again.
"""

from __future__ import annotations

import errno
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from random import SystemRandom
from shutil import rmtree

import apsw
import pytest

from millstream.clock import ManualClock
from millstream.errors import MillstreamError, SyncFailed
from millstream.log.commit import Append, Commit, Fence, Mark, Offset
from millstream.log.file.disk import Piece, translated
from millstream.log.file.log import FileLog
from tests.crash.oracle import View, difference, view_of
from tests.crash.recorder import SeededDisk
from tests.crash.workload import small_limits

STEP = 5  # every call in turn takes minutes, see the long test
KINDS = {
    "EIO": (errno.EIO, {"open", "read", "write", "truncate", "sync", "name"}),
    "ENOSPC": (errno.ENOSPC, {"write", "truncate", "name"}),
    "short": (0, {"write"}),  # the call takes a part of the bytes, then goes on
    "short, then ENOSPC": (errno.ENOSPC, {"write"}),
}


class FailingDisk(SeededDisk):
    """A disk on which the call of some number fails: once, or from then on until it is lifted."""

    def __init__(self, root: str, kind: str, number: int, *, lasting: bool) -> None:
        """Fail so; number 0: never."""
        super().__init__(root, "boot")
        self.errno, self.calls = KINDS[kind]
        self.short = kind.startswith("short")
        self.number = number
        self.lasting = lasting
        self.count = 0
        self.fired: Counter[str] = Counter()
        self.active = True
        self._halved = False
        self.vfs = f"failing-{id(self):x}"
        self._vfs = FailingVFS(self)

    def forget(self) -> None:
        """Take the VFS away."""
        self._vfs.unregister()

    def due(self, call: str) -> bool:
        """Whether this call is to fail."""
        if not self.active or call not in self.calls:
            return False
        self.count += 1
        hit = self.number > 0 and (self.count == self.number or (self.lasting and self.count > self.number))
        self.fired[call] += hit  # a call that was not hit counts as none
        return hit

    def meet(self, call: str) -> None:
        """Fail, if it is due."""
        if self.due(call):
            raise OSError(self.errno, os.strerror(self.errno))

    @contextmanager
    def calm(self) -> Iterator[None]:
        """Nothing fails, and nothing counts."""
        self.active = False
        try:
            yield
        finally:
            self.active = True

    def _open(self, name: str, flags: int) -> int:
        with translated(name):
            self.meet("name" if flags & os.O_CREAT else "open")
        return super()._open(name, flags)

    def make_dir(self, name: str) -> None:
        """See `Disk`."""
        with translated(name):
            self.meet("name")
        super().make_dir(name)

    def read(self, fd: int, length: int, position: int) -> bytes:
        """See `Disk`."""
        with translated(fd):
            self.meet("read")
        return super().read(fd, length, position)

    def _write(self, fd: int, pieces: Sequence[Piece], position: int) -> int:
        if self._halved and not (self.short and self.errno):
            self._halved = False
        elif self._halved:
            self._halved = False
            raise OSError(self.errno, os.strerror(self.errno))
        elif self.due("write"):
            if not self.short:
                raise OSError(self.errno, os.strerror(self.errno))
            data = b"".join(map(bytes, pieces))
            self._halved = len(data) > 1
            if self._halved or not self.errno:
                return super()._write(fd, [data[: max(1, len(data) // 2)]], position)
            raise OSError(self.errno, os.strerror(self.errno))
        return super()._write(fd, pieces, position)

    def truncate(self, fd: int, length: int) -> None:
        """See `Disk`."""
        with translated(fd):
            self.meet("truncate")
        super().truncate(fd, length)

    def sync(self, fd: int) -> None:
        """See `Disk`."""
        with translated(fd):
            self.meet("sync")
        super().sync(fd)

    def sync_dir(self, name: str) -> None:
        """See `Disk`."""
        with translated(name):
            self.meet("sync")
        super().sync_dir(name)

    def unlink(self, name: str) -> None:
        """See `Disk`."""
        with translated(name):
            self.meet("name")
        super().unlink(name)


class FailingVFS(apsw.VFS):
    """SQLite's own, failing with the disk's calls."""

    def __init__(self, disk: FailingDisk) -> None:
        """Register it under the disk's name for it."""
        super().__init__(disk.vfs, "")
        self.disk = disk

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> FailingFile:  # noqa: N802
        """Open a file."""
        if self.disk.due("open"):
            raise apsw.CantOpenError("failing as planned")
        return FailingFile(self.disk, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        """Remove a file."""
        if self.disk.due("name"):
            raise apsw.IOError("failing as planned")
        super().xDelete(filename, syncdir)


class FailingFile(apsw.VFSFile):
    """A file of SQLite's."""

    def __init__(self, disk: FailingDisk, filename: str | apsw.URIFilename | None, flags: list[int]) -> None:
        """Open it."""
        super().__init__("", filename, flags)
        self.disk = disk

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        """Read."""
        if self.disk.due("read"):
            raise apsw.IOError("failing as planned")
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        """Write, or only a part of it."""
        if self.disk.due("write") and self.disk.errno:
            if self.disk.short:
                super().xWrite(data[: len(data) // 2], offset)
            full = self.disk.errno == errno.ENOSPC
            raise (apsw.FullError if full else apsw.IOError)("failing as planned")
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        """Cut."""
        if self.disk.due("truncate"):
            raise apsw.IOError("failing as planned")
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        """Sync."""
        if self.disk.due("sync"):
            raise apsw.IOError("failing as planned")
        super().xSync(flags)


# -- the script


def rows(count: int, size: int) -> list[tuple[int, bytes | None, bytes, None]]:
    """Records that need so much room."""
    return [(number, b"k%d" % (number % 3), b"v" * size, None) for number in range(count)]


def everything(log: FileLog) -> None:
    """One commit with all that a commit may have."""
    log.commit(
        Commit(
            (Append("a", 0, rows(2, 10)), Append("a", 1, rows(30, 100)), Append("b", 0, rows(1, 5))),
            offsets=(Offset("group", "a", 0, None, 2),),
            fence=Fence("sink", 1, 1, b"d", b"here"),
            marks=(Mark("a", 0, "w", 5),),
        ),
        "synced",
    )


def staged(log: FileLog) -> None:
    """Records put down first, and named by a commit then; what was put down may be left over."""
    batch = log.read("a", 1, 0).batches[0]
    token = log.stage("b", 0, [batch.drop_columns(["seq"])])
    log.commit(Commit(staged=(token,)))


def small(log: FileLog) -> None:
    """A commit that fits into the journal."""
    log.commit(Commit((Append("a", 0, rows(1, 10)),)))


def large(log: FileLog) -> None:
    """A commit that goes to segments."""
    log.commit(Commit((Append("a", 0, rows(40, 50)), Append("b", 0, rows(20, 200)))))


def folded(log: FileLog) -> None:
    """A fold."""
    with log._folded():
        pass


# Each step, and whether it is one commit: if it fails, nothing of it is there.
SCRIPT: list[tuple[Callable[[FileLog], object], bool]] = [
    (lambda log: log.create("a", shards=2), False),
    (lambda log: log.create("b", cleanup="compact"), False),
    (small, True),
    (everything, True),
    (large, True),
    (staged, False),
    (small, True),
    (lambda log: log.trim("a", 1, 3), False),
    (folded, False),
    (large, True),
    (lambda log: log.merge(), False),
    (lambda log: log.compact(), False),
    (lambda log: log.read("a", 0, 0), False),
    (lambda log: log.take_over("sink"), False),
    (lambda log: log.delete("b"), False),
    (small, True),
]
REOPEN = (4, 10, 15)  # the log is closed and opened again before these


class Player:
    """Plays the script on a disk that fails, and looks after each error."""

    def __init__(self, root: str, views: list[View], disk: FailingDisk) -> None:
        """Take what the log shows after each step."""
        self.root = root
        self.disk = disk
        self.views = views
        self.errors: Counter[str] = Counter()
        self.log: FileLog | None = None

    def play(self) -> None:
        """All steps; at the end everything is there."""
        for number, (step, is_commit) in enumerate(SCRIPT):
            if number in REOPEN:
                self._close()
            log = self._opened()
            try:
                step(log)
            except MillstreamError as error:
                with self.disk.calm():
                    self._after(error, step, number, is_commit=is_commit)
                self.disk.number *= not self.disk.lasting  # the trouble is over
        self._close()
        with FileLog(self.root, clock=ManualClock()) as log:
            assert_shows(log, self.views[-1])
            assert log.verify() == []

    def _opened(self) -> FileLog:
        if self.log is None:
            try:
                self.log = self._open()
            except MillstreamError as error:
                self.errors[type(error).__name__] += 1
                with self.disk.calm():
                    self.log = self._open()
                self.disk.number *= not self.disk.lasting
        return self.log

    def _open(self) -> FileLog:
        return FileLog(self.root, clock=ManualClock(), disk=self.disk, upkeep=False)

    def _close(self) -> None:
        if self.log is not None:
            self.log.close()
        self.log = None

    def _after(
        self, error: MillstreamError, step: Callable[[FileLog], object], number: int, *, is_commit: bool
    ) -> None:
        """What is there after an error, and that it goes on from there."""
        self.errors[type(error).__name__] += 1
        log = self._opened()
        before, after = self.views[number], self.views[number + 1]
        if isinstance(error, SyncFailed):
            with pytest.raises(SyncFailed, match=r"until .* is opened again"):
                small(log)
            self._close()
            log = self._opened()
        elif is_commit:
            assert_shows(log, before)
        found = seen(log)
        if found == before or found not in (before, after):
            step(log)
        assert_shows(log, after)
        assert log.verify() == []


def seen(log: FileLog) -> View:
    """What a log shows; staged records that nobody names any more do not count."""
    view = view_of(log)
    view.staged.clear()
    return view


def assert_shows(log: FileLog, view: View) -> None:
    found = seen(log)
    assert found == view, difference(found, view)


def views_of_the_script(root: str) -> list[View]:
    """What a log shows before and after each step, when nothing fails."""
    views = [View()]
    with FileLog(root, clock=ManualClock(), upkeep=False) as log:
        for step, _ in SCRIPT:
            step(log)
            views.append(seen(log))
    return views


def fail_calls(folder: Path, kind: str, *, lasting: bool, first: int, step: int) -> None:
    """Play the script with call `first` failing, then with every `step`-th after it, until none is left."""
    fired: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    with small_limits():
        views = views_of_the_script(str(folder / "model"))
        for number in count(first, step):
            disk = FailingDisk(str(folder / f"log-{number}"), kind, number, lasting=lasting)
            player = Player(disk.root, views, disk)
            try:
                player.play()
            except BaseException as error:
                error.add_note(f"kind {kind}, call {number}, lasting {lasting}, fired {disk.fired}")
                raise
            finally:
                disk.forget()
                rmtree(disk.root, ignore_errors=True)
            if not disk.fired.total():
                break
            fired += disk.fired
            errors += player.errors
    print(f"{kind}, from call {first} in steps of {step} to {number}: {dict(fired)}, errors {dict(errors)}")
    assert number > 50
    assert fired.total() > 20
    assert step > 1 or fired.keys() == KINDS[kind][1]


WHEN = pytest.mark.parametrize("lasting", [False, True], ids=["once", "until lifted"])


@WHEN
@pytest.mark.parametrize("kind", KINDS)
def test_whichever_call_fails_it_is_an_error_of_ours_and_nothing_is_lost(
    kind: str, lasting: bool, memory_path: Path
) -> None:
    first = SystemRandom().randint(1, STEP)
    fail_calls(memory_path, kind, lasting=lasting, first=first, step=STEP)


@pytest.mark.long
@WHEN
@pytest.mark.parametrize("kind", KINDS)
def test_each_call_in_turn_fails(kind: str, lasting: bool, memory_path: Path) -> None:
    fail_calls(memory_path, kind, lasting=lasting, first=1, step=1)


def test_calls_that_signals_interrupt_go_on(tmp_path: Path) -> None:
    interrupted = 0

    def interrupt(*_: object) -> None:
        nonlocal interrupted
        interrupted += 1

    views = views_of_the_script(str(tmp_path / "model"))
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.000_5, 0.000_5)
    try:
        for number in range(5):
            assert views_of_the_script(str(tmp_path / f"log-{number}")) == views
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupted > 50
