"""Every error that millstream raises.

    MillstreamError
    |-- Bug                      ours: please report it
    |-- UsageError (ValueError)  yours: the call was wrong, and will be wrong again
    |   |-- InvalidName          a stream, group or writer name outside of the alphabet
    |   |-- UnknownScheme        no store has this kind of URL
    |   |-- MissingExtra         the store needs a package that is not installed
    |   |-- UnknownStream        no stream of this name
    |   |-- StreamExists         there is one already
    |   |-- ShardOutOfRange      the stream has fewer shards
    |   |-- WrongType            a value, key, header or timestamp of the wrong type or range
    |   |-- TooLarge             a record, commit or name over its limit
    |   |-- Unsupported          this store cannot do that, and says what it can
    |   |-- InvalidFlow          all that is wrong with a flow (`problems`)
    |   |-- StepFailed           a function of yours raised an error (`step`, `record`)
    |   `-- Closed               the handle was closed, or carried into another process
    `-- WorldError               the world: something is not as it was wanted
        |-- SeqTrimmed           the records asked for are gone (`first`, `missing`)
        |-- SeqPastEnd           nothing was ever written there (`end`)
        |-- HistoryChanged       a power cut took back what lay before this position
        |-- Fenced               a newer owner, run or plan has this name
        |-- Conflict             the log is not as the commit expected (an offset, an expected seq)
        |-- Pinned               a job or group still needs these records
        |-- Overflow             a producer's buffer is full and its policy is to say so
        |-- TimedOut             it took longer than was asked for
        |-- StoreFull            no room on the device
        |-- ReadOnly             the store cannot be written to
        |-- StoreFailed          the store's own call failed (an I/O error)
        |-- SyncFailed           a sync failed: this writer acknowledges nothing more
        `-- Damaged              what was stored is not what is there (segment, position, seqs)
            |-- ManifestLost     the manifest is gone; `repair` brings back what segments hold
            `-- WrongVersion     written by another version of the format

A message says what happened, the value, what was expected, and what to do next. `retriable` tells
whether the same call may work later. Errors can be copied, and sent from one process to another.

>>> import copy
>>> copy.copy(SeqPastEnd("seq 9 lies past the end, 7", end=7)).end
7
"""

from __future__ import annotations


class MillstreamError(Exception):
    """The root of all errors of this package."""

    retriable = False

    def __reduce__(self) -> tuple[object, ...]:
        """Made again from what it holds, not by calling its class, whose arguments are not the message's."""
        return _made_again, (type(self), self.args), self.__dict__


class Bug(MillstreamError):
    """An impossible state: a bug of millstream's, please report it."""


class UsageError(MillstreamError, ValueError):
    """The call was wrong; the same call will be wrong again."""


class InvalidName(UsageError):
    """A name outside of the alphabet `[a-zA-Z0-9._-]`, 1 to 249 characters, not `.` or `..`."""


class UnknownScheme(UsageError):
    """No store has this kind of URL."""


class MissingExtra(UsageError):
    """The store needs a package that is not installed."""


class UnknownStream(UsageError):
    """No stream of this name."""


class StreamExists(UsageError):
    """A stream of this name exists already."""


class ShardOutOfRange(UsageError):
    """The stream has fewer shards than that."""


class WrongType(UsageError):
    """A value, key, header or timestamp has the wrong type or lies out of range."""


class TooLarge(UsageError):
    """A record, a commit or a read over its limit."""


class Unsupported(UsageError):
    """This store cannot do that; the message says what it can do."""


class InvalidFlow(UsageError):
    """A flow cannot be run as it is described; `problems` lists all that is wrong with it."""

    def __init__(self, message: str, *, problems: tuple[str, ...]) -> None:
        """Keep the problems, each with its place in the user's file."""
        super().__init__(message)
        self.problems = problems


class StepFailed(UsageError):
    """A function of yours raised an error; the message names the step, the function and the record."""

    def __init__(self, message: str, *, step: str, record: str) -> None:
        """Keep the names of both."""
        super().__init__(message)
        self.step = step
        self.record = record


class Closed(UsageError):
    """The handle was closed, or carried over into another process by a fork."""


class WorldError(MillstreamError):
    """Something outside of the program is not as it was wanted."""


class SeqTrimmed(WorldError):
    """The records asked for are gone: `missing` of them, and `first` is the oldest that is left."""

    def __init__(self, message: str, *, first: int, missing: int) -> None:
        """Keep where reading can go on, and how many seqs are gone."""
        super().__init__(message)
        self.first = first
        self.missing = missing


class SeqPastEnd(WorldError):
    """The position lies past the end of the shard: nothing was ever written there."""

    def __init__(self, message: str, *, end: int) -> None:
        """Keep the end of the shard."""
        super().__init__(message)
        self.end = end


class HistoryChanged(WorldError):
    """A power cut took back records before this position; `end` is where the shared past ends."""

    def __init__(self, message: str, *, end: int) -> None:
        """Keep the position up to which old and new history agree."""
        super().__init__(message)
        self.end = end


class Fenced(WorldError):
    """A newer owner, another run or another plan has this name: stop, and do not try again."""


class Conflict(WorldError):
    """The log is not as the commit expected: nothing of the commit was applied."""


class Pinned(WorldError):
    """A job or group still needs these records."""


class Overflow(WorldError):
    """A producer's buffer is full, and its policy is to drop: this record was not written."""

    retriable = True


class TimedOut(WorldError):
    """It took longer than was asked for."""

    retriable = True


class StoreFull(WorldError):
    """No room left on the device: nothing of the commit is visible; it may be sent again."""

    retriable = True


class ReadOnly(WorldError):
    """The store cannot be written to."""


class StoreFailed(WorldError):
    """A call of the store's own failed; nothing of the commit is visible."""

    retriable = True


class SyncFailed(WorldError):
    """A sync failed: what is durable is not known, so this writer acknowledges nothing more."""


class Damaged(WorldError):
    """What was stored is not what is there; the message names segment, position and seqs."""


class ManifestLost(Damaged):
    """The manifest is gone; `repair` brings back the whole commits that the segments still hold."""


class WrongVersion(Damaged):
    """Written by another version of the format."""


def _made_again(kind: type[MillstreamError], args: tuple[object, ...]) -> MillstreamError:
    return kind.__new__(kind, *args)


def shown(value: object) -> str:
    """A value as an error message shows it: short."""
    if isinstance(value, str | bytes | bytearray):
        value = value[:80]  # what is too large is not made larger
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - a message is made whatever the user's class does
        text = f"<{type(value).__name__}, whose repr raises {type(error).__name__}>"
    return text if len(text) <= 80 else text[:77] + "..."
