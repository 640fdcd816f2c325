"""The rules by which a commit is applied or refused, the same for every store.

>>> judge_fence(Fence("sink", run=1, number=2), FenceState("sink", 1, 1, b"", None, ()))
True
>>> judge_fence(Fence("sink", run=1, number=1), FenceState("sink", 1, 1, b"", None, ()))
False
"""

from __future__ import annotations

from millstream.errors import Conflict, Fenced, HistoryChanged, SeqPastEnd, SeqTrimmed, TooLarge
from millstream.log.check import SEQ_MAX
from millstream.log.commit import Expect, Fence, FenceState, Offset

NOTHING_YET = -1  # the number of a name that was taken over and has not committed since


def judge_fence(fence: Fence, known: FenceState | None) -> bool:
    """Whether to apply a commit (True), or to answer that it was done before (False); else `Fenced`."""
    if known is None:
        return True
    if fence.run == known.run:
        if fence.number > known.number:
            return True
        if fence.number == known.number and fence.digest == known.digest:
            return False
    if fence.run != known.run:
        why = f"run {fence.run} was replaced by run {known.run}: another has taken the name over"
    elif fence.number < known.number:
        why = f"number {fence.number} comes after {known.number} was committed"
    else:
        why = f"number {fence.number} was committed before with another digest: the plan has changed"
    raise Fenced(f"the commit under the name '{fence.name}' is refused: {why}. Stop; do not send it again")


def next_run(name: str, run: int) -> int:
    """The run of who takes a name over; `TooLarge` where runs have come to their end."""
    if run >= SEQ_MAX:
        raise TooLarge(f"fence '{name}' is at run {run}, the last one there is: commit under another name")
    return run + 1


def judge_offset(offset: Offset, current: int | None, generation: int) -> None:
    """Refuse an offset that is not based on the group's own, or comes from an owner that was replaced."""
    place = f"group '{offset.group}', stream '{offset.stream}', shard {offset.shard}"
    if offset.generation != generation:
        raise Fenced(
            f"{place}: generation {offset.generation} does not own the shard any more "
            f"(the owner's is {generation}); its work since then is the new owner's to do"
        )
    if offset.expected != current:
        raise Conflict(
            f"{place}: the offset is {current}, and the commit expected {offset.expected}; "
            "read the group's offsets and go on from there"
        )


def judge_expect(expect: Expect, end: int) -> None:
    """Refuse a conditional append whose shard has grown."""
    if expect.seq != end:
        raise Conflict(
            f"stream '{expect.stream}', shard {expect.shard} ends at {end}, and the commit expected "
            f"{expect.seq}; read what is new, and decide again"
        )


def judge_position(stream: str, shard: int, seq: int, first: int, end: int) -> None:
    """Refuse to read before the first record or past the end."""
    if seq < first:
        raise SeqTrimmed(
            f"stream '{stream}', shard {shard}: seq {seq} is gone, with {first - seq:,} seqs before {first}, "
            "the first that is left; go on from there, or raise the stream's retention",
            first=first,
            missing=first - seq,
        )
    if seq > end:
        raise SeqPastEnd(
            f"stream '{stream}', shard {shard}: seq {seq} lies past the end, {end}; "
            "read from the end or before",
            end=end,
        )


def judge_history(stream: str, shard: int, seq: int, shared: int) -> None:
    """Refuse a position past the place where the caller's history and the log's part ways."""
    if seq > shared:
        raise HistoryChanged(
            f"stream '{stream}', shard {shard}: a power cut took back what lay from seq {shared} on, and "
            f"seq {seq} was learned before that; go back to {shared}, and undo what came of later records",
            end=shared,
        )
