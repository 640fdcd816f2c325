"""What a consumer can be asked for: every choice, its default, and which ones go together.

>>> checked("orders", {}).start
<Start.BEGINNING: 'beginning'>
>>> checked("orders", {"start": "begining"})
Traceback (most recent call last):
millstream.errors.UsageError: start='begining': expected 'beginning', 'end' or 'committed'
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, TypedDict

import msgspec

from millstream.errors import UsageError, WrongType, shown
from millstream.log.batch import DEFAULT_LIMITS, Limits
from millstream.log.check import check_limits, check_positive
from millstream.log.commit import Durability
from millstream.log.group import Place
from millstream.names import check_name


class Deliver(enum.StrEnum):
    """What a consumer prefers when it cannot have everything."""

    LATEST = "latest"  # at most once, and fresh: begins at the end, skips what it cannot keep up with
    REPEAT = "repeat"  # at least once: a group's offset moves after a record was processed
    ONCE = "once"  # exactly once: a group's offset moves in the same commit as what came of it


class Start(enum.StrEnum):
    """Where to begin in a shard for which there is no committed offset."""

    BEGINNING = "beginning"
    END = "end"
    COMMITTED = "committed"  # nowhere else: a shard without a committed offset is an error


class Trimmed(enum.StrEnum):
    """What to do when records were removed before they were read."""

    RAISE = "raise"
    SKIP = "skip"  # go on with the first that is left, and count how many are gone


class Changed(enum.StrEnum):
    """What to do when a power cut took back records that were read."""

    RAISE = "raise"
    REWIND = "rewind"  # go back to where the histories part, and count


class ConsumerOptions(TypedDict, total=False):
    """The keywords of `Log.consumer`; `Options` says what each means."""

    group: str | None
    member: str | None
    assign: Sequence[Place] | None
    deliver: Deliver | str
    start: Start | str | None
    until: str | None
    lease: float
    commit_every: float | None
    commit_records: int | None
    on_trimmed: Trimmed | str | None
    on_history: Changed | str | None
    behind: int
    limits: Limits
    durability: Durability | str


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a consumer was asked for, checked.

    - `group`: share the streams' shards with the other members of the group, and keep offsets for it.
    - `member`: this member's name in the group; by default one that no other has.
    - `assign`: read exactly these shards, instead of streams. With a group it keeps the group's offsets,
      without being a member of it.
    - `deliver`: "latest", "repeat" or "once", see `Deliver`.
    - `start`: "beginning" (the default), "end" (that of "latest") or "committed", see `Start`.
    - `until`: "end" stops at the ends that the shards had when the consumer was made; None waits for more.
    - `lease`: for how many seconds a member that does not answer keeps its shards.
    - `commit_every`, `commit_records`: commit offsets after so many seconds, so many records, and at the
      close; both None: only when `commit` is called.
    - `on_trimmed`: "raise" (the default) or "skip" (that of "latest"), see `Trimmed`.
    - `on_history`: "raise" (the default) or "rewind" (that of "latest"), see `Changed`.
    - `behind`: "latest" skips ahead when more than so many seqs of a shard are unread.
    - `limits`: the size of a batch.
    - `durability`: of commits, both of offsets and of transactions.
    """

    group: str | None = None
    member: str | None = None
    assign: tuple[Place, ...] | None = None
    deliver: Deliver = Deliver.REPEAT
    start: Start = Start.BEGINNING
    until: str | None = None
    lease: float = 10.0
    commit_every: float | None = 5.0
    commit_records: int | None = None
    on_trimmed: Trimmed = Trimmed.RAISE
    on_history: Changed = Changed.RAISE
    behind: int = 10_000
    limits: Limits = DEFAULT_LIMITS
    durability: Durability = Durability.WRITTEN

    @property
    def commits_by_itself(self) -> bool:
        """Whether offsets are committed without being asked."""
        timed = self.commit_every is not None or self.commit_records is not None
        return timed and self.group is not None and self.deliver is Deliver.REPEAT


def checked(streams: str | Sequence[str], given: ConsumerOptions) -> Options:
    """The options in full; `UsageError` for what does not go together."""
    unknown = sorted(given.keys() - set(Options.__struct_fields__))
    if unknown:
        raise UsageError(
            f"a consumer has no option {unknown[0]!r}: it has {', '.join(sorted(Options.__struct_fields__))}"
        )
    # None stands for the default, but where it is a choice of its own.
    values: dict[str, Any] = {k: v for k, v in given.items() if v is not None or k == "commit_every"}
    if values.get("deliver") == Deliver.LATEST:
        values = {**_OF_LATEST, **values}
    for name, kind in _KINDS.items():
        if name in values:
            values[name] = _one_of(name, kind, values[name])
    if "assign" in values:
        values["assign"] = _places(values["assign"])
    options = Options(**values)
    _check_values(options)
    _check_together(streams, options)
    return options


def _one_of(name: str, kind: type[enum.StrEnum], value: object) -> enum.StrEnum:
    """A choice, by name or as itself."""
    try:
        return kind(value)  # type: ignore[arg-type]  # whatever it is, it is one of them or refused
    except ValueError:
        *others, last = (repr(str(choice)) for choice in kind)
        expected = f"{', '.join(others)} or {last}"
        raise UsageError(f"{name}={shown(value)}: expected {expected}") from None


def _places(assign: Sequence[Place]) -> tuple[Place, ...]:
    """Shards named by hand."""
    try:
        places = tuple((check_name("stream", stream), shard) for stream, shard in assign)
    except (TypeError, ValueError):
        raise UsageError(
            f"assign={shown(assign)}: expected pairs of a stream's name and a shard, "
            'as in assign=[("orders", 0)]'
        ) from None
    if not places or len(set(places)) < len(places):
        raise UsageError(f"assign={shown(assign)}: expected at least one shard, and each once")
    return places


def _check_values(options: Options) -> None:
    for name in ("group", "member"):
        if getattr(options, name) is not None:
            check_name(name, getattr(options, name))
    if options.until not in (None, "end"):
        raise UsageError(
            f"until={shown(options.until)}: expected 'end', or None to wait for more; "
            "for a time, compare the records' timestamps"
        )
    for name in ("lease", "commit_every"):
        seconds = getattr(options, name)
        if seconds is not None and not (type(seconds) in {int, float} and seconds > 0):
            raise WrongType(f"{name}={shown(seconds)}: expected a positive number of seconds")
    check_positive("behind", options.behind)
    if options.commit_records is not None:
        check_positive("commit_records", options.commit_records)
    if not isinstance(options.limits, Limits):
        raise WrongType(f"limits={shown(options.limits)}: expected a millstream.Limits")
    check_limits(options.limits)


def _check_together(streams: str | Sequence[str], options: Options) -> None:
    """Refuse choices that contradict each other."""
    if options.assign is None and not streams:
        raise UsageError("nothing to read: name a stream, several, or a pattern like 'logs.*', or use assign")
    if options.assign is not None and streams:
        raise UsageError(
            f"both streams ({shown(streams)}) and assign: with streams, shards are chosen for you; "
            "with assign=[(stream, shard), ...] you name them all"
        )
    if options.member is not None and (options.group is None or options.assign is not None):
        raise UsageError(
            f"member={shown(options.member)}: only a group that shares its shards has members: "
            "give group= as well, and not assign="
        )
    if options.deliver is Deliver.ONCE and options.group is None:
        raise UsageError("deliver='once' commits offsets with the outputs: give group= a name to keep them")
    if options.start is Start.COMMITTED and options.group is None:
        raise UsageError("start='committed' needs a group, whose committed offsets are meant: give group=")
    if options.deliver is Deliver.LATEST and options.start is not Start.END:
        raise UsageError(
            f"start='{options.start}' and deliver='latest': the latest are at the end; "
            "for older records use deliver='repeat'"
        )


_KINDS = {
    "deliver": Deliver,
    "start": Start,
    "on_trimmed": Trimmed,
    "on_history": Changed,
    "durability": Durability,
}
_OF_LATEST = {"start": Start.END, "on_trimmed": Trimmed.SKIP, "on_history": Changed.REWIND}
