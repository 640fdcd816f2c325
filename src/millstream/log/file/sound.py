"""Whether what was read makes sense: rows that name what there is, entries that follow the one before.

A checksum says that a row is as it was written, and not by whom. What was written by us always makes
sense, and the rest of the store goes by that, so it is checked once, where things are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from millstream.errors import UsageError
from millstream.log.check import SEQ_MAX, SHARDS_MAX, check_settings
from millstream.log.commit import Fence
from millstream.log.entry import Changed, Entry, Extent, Part
from millstream.log.rules import NOTHING_YET
from millstream.log.state import Change, FenceRow, ShardKey, ShardRow, State
from millstream.log.stream import Settings
from millstream.names import check_name

Key = tuple[str, object]  # table, and the row's key in it


SEQS_MAX = 2**61  # in a shard: half of what can be written, so that nobody gets there


class Unsound(ValueError):
    """What was read makes no sense; the message says why."""


def judge_entry(entry: Entry, state: State) -> None:
    """Refuse an entry that the state it comes after cannot have led to."""
    if isinstance(entry, Changed):
        return
    if entry.fence is not None:
        judge_fence(entry.fence.name, entry.fence)
    ends: dict[ShardKey, int] = {}
    for part in entry.parts:
        key = part.stream, part.shard
        _judge_shard(key, state)
        end = ends.get(key, state.shards.get(key, ShardRow()).end)
        if part.first != end or not part.first <= part.next <= SEQS_MAX:
            raise Unsound(
                f"a part of stream number {key[0]}, shard {key[1]} goes from {part.first} to {part.next}"
            )
        judge_part(part, state)
        ends[key] = part.next
    for _, stream, shard, _ in entry.offsets:
        _judge_shard((stream, shard), state)
    for stream, shard, _, _ in entry.marks:
        _judge_shard((stream, shard), state)


def judge_part(part: Part, state: State) -> None:
    """Refuse records that are not there once, in a form that their stream has."""
    if not part.first <= part.next <= SEQS_MAX or part.shard >= SHARDS_MAX:
        raise Unsound(f"a part of shard {part.shard} goes from {part.first} to {part.next}")
    kinds = (part.rows is not None) + (part.arrow is not None) + bool(part.extents)
    if kinds != (part.next > part.first):
        raise Unsound(f"the records {part.first} to {part.next - 1} are there {kinds} times")
    if part.rows is not None and state.streams[state.names[part.stream]].settings.value is not None:
        raise Unsound("a columnar stream has rows")
    if part.extents:
        _judge_extents(part.extents, part.first, part.next)


def _judge_extents(extents: Sequence[Extent], first: int, after: int) -> None:
    """They follow each other without a hole, as batches do that no compaction has come by yet."""
    for extent in extents:
        if extent.first != first or extent.next != first + extent.count:
            raise Unsound(
                f"a batch holds seqs {extent.first} to {extent.next - 1}, and {first} should follow"
            )
        first = extent.next
    if first != after:
        raise Unsound(f"batches end at {first}, and should end at {after}")


def _judge_shard(key: ShardKey, state: State) -> None:
    name = state.names.get(key[0])
    if name is None:
        raise Unsound(f"there is no stream of number {key[0]}")
    if key[1] >= state.streams[name].settings.shards:
        raise Unsound(f"stream '{name}' has no shard {key[1]}")


def judge_rows(state: State, changed: Changed | None = None) -> None:
    """Refuse rows that make no sense together: those that were changed last, or all."""
    names = None if changed is None else {table for table, _, _ in changed.rows}
    few = changed is not None and names is not None and state.streams.name not in names
    for table, key in state.keys_of(changed) if few and changed is not None else _all_keys(state):
        if key in state.tables[table]:
            _JUDGES[table](key, state)


def unsound_rows(state: State) -> list[tuple[Change, str]]:
    """The changes that take away each row that makes no sense, and why."""
    found = []
    for table, key in _all_keys(state):
        try:
            _JUDGES[table](key, state)
        except Unsound as error:
            found.append((state.tables[table].change(key, None), str(error)))
    return found


def judge_about(stream: str, settings: Settings) -> None:
    """Refuse a stream that could not have been made."""
    try:
        check_name("stream", stream)
        check_settings(
            shards=settings.shards,
            value=settings.value,
            codec=settings.codec,
            retention=settings.retention,
            cleanup=settings.cleanup,
            tombstones_ms=settings.tombstones_ms,
        )
    except UsageError as error:
        raise Unsound(str(error)) from None


def _all_keys(state: State) -> Iterator[Key]:
    for name, table in state.tables.items():
        for key in table:
            yield name, key


def _judge_stream(name: str, state: State) -> None:
    row = state.streams[name]
    judge_about(name, row.settings)
    if state.names.get(row.id) != name:
        raise Unsound(f"streams '{name}' and '{state.names.get(row.id)}' have the same number, {row.id}")


def _judge_shard_row(key: ShardKey, state: State) -> None:
    _judge_shard(key, state)
    row = state.shards[key]
    if not row.first <= row.end <= SEQS_MAX:
        raise Unsound(f"stream number {key[0]}, shard {key[1]} goes from {row.first} to {row.end}")


def _judge_offset(key: tuple[str, int, int], state: State) -> None:
    _judge_shard(key[1:], state)


def _judge_pin(name: str, state: State) -> None:
    for key in state.pins[name]:
        _judge_shard(key, state)


def _judge_group(name: str, state: State) -> None:
    for key in state.groups[name].owners:
        _judge_shard(key, state)


def _judge_staged(token: str, state: State) -> None:
    row = state.staged[token]
    _judge_shard((row.stream, row.shard), state)
    _judge_extents(row.extents, 0, row.count)


def _judge_fence_row(name: str, state: State) -> None:
    judge_fence(name, state.fences[name])


def judge_fence(name: str, fence: Fence | FenceRow) -> None:
    """Refuse a name that nobody can have taken, and numbers that nobody can have counted to."""
    try:
        check_name("fence", name)
    except UsageError as error:
        raise Unsound(str(error)) from None
    if not 0 <= fence.run <= SEQ_MAX or not NOTHING_YET <= fence.number <= SEQ_MAX:
        raise Unsound(f"fence '{name}' has run {fence.run} and number {fence.number}")


def _judge_nothing(key: object, state: State) -> None:
    """Such a row names nothing that could be missing."""


_JUDGES: dict[str, Callable[[Any, State], None]] = {
    "streams": _judge_stream,
    "shards": _judge_shard_row,
    "fences": _judge_fence_row,
    "offsets": _judge_offset,
    "groups": _judge_group,
    "pins": _judge_pin,
    "staged": _judge_staged,
    "cuts": _judge_nothing,
    "facts": _judge_nothing,
}
