"""The promises of a log, looked for in what a cut has left of it."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from random import Random

from millstream.clock import ManualClock
from millstream.errors import Damaged, HistoryChanged
from millstream.log.file.journal import HEADER_BYTES, journal_name
from millstream.log.file.log import FileLog
from millstream.log.file.mark import NAME as MARK
from millstream.log.file.segment import SUFFIX
from tests.crash.events import Image
from tests.crash.oracle import Shard, Stream, View, between, difference, view_of
from tests.crash.recorder import SeededDisk
from tests.crash.workload import Step, Trace

_MARK = struct.Struct("<QQ")  # generation, and how far it is synced
AFTER = "after"  # the stream that is written to after a cut


@dataclass(frozen=True)
class Wanted:
    """What may be seen after a cut: one of these views."""

    steps: list[Step]  # from the last one that must be there to the last one that was acknowledged
    begun: Step | None = None  # the one that was under way

    @property
    def last(self) -> Step:
        """The last one that was acknowledged."""
        return self.steps[-1]

    @classmethod
    def of(cls, trace: Trace, count: int, *, killed: bool, before: Wanted | None) -> Wanted:
        """After so many calls; `before` is what may be seen if the log was not even open."""
        done = [step for step in trace.steps if step.end <= count]
        begun = next((step for step in trace.steps if step.begin <= count < step.end), None)
        promised = [number for number, step in enumerate(done) if step.promise or killed]
        if promised:
            return cls(done[promised[-1] :], begun)
        before = before or NOTHING
        if not done:
            return before
        return cls([*before.steps, *([before.begun] if before.begun else []), *done], begun)


NOTHING = Wanted([Step("nothing", 0, 0, promise=True, view=View(), history=0)])


class Violation(AssertionError):
    """A promise was broken."""


def judge(found: View, wanted: Wanted) -> None:
    """Refuse a view that is none of those wanted."""
    steps = [*wanted.steps, wanted.begun] if wanted.begun else wanted.steps
    if any(found == step.view for step in steps):
        return
    begun = wanted.begun
    if begun is not None and begun.in_parts and between(found, wanted.last.view, begun.view):
        return
    closest = " / ".join(f"{step.what}: {difference(found, step.view)}" for step in steps[-6:])
    raise Violation(f"what is there is none of {len(steps)} states: {closest}")


def open_log(root: str, boot: str) -> FileLog:
    """The log as the next process opens it."""
    return FileLog(root, clock=ManualClock(), disk=SeededDisk(root, boot), upkeep=False)


def check(root: str, boot: str, wanted: Wanted, *, cut: bool, fold: bool) -> bool:
    """Look for every promise; gives whether something was taken back that had been acknowledged."""
    log = open_log(root, boot)
    try:
        found = view_of(log)
        judge(found, wanted)
        less = found in [step.view for step in wanted.steps[:-1]]
        if cut:
            judge_history(log, found, wanted.last)
        _no_findings(log, "after opening")
        for row in log._books.state.staged.values():
            for extent in row.extents:
                log._finder.reader.bytes_of(extent)
        _go_on(log, found)
        if fold:
            with log._folded():
                pass
    finally:
        log.close()
    again = open_log(root, boot)
    try:
        seen = view_of(again)
        if seen != found:
            raise Violation(f"what was written after the cut is not there: {difference(seen, found)}")
        _no_findings(again, "after going on")
    finally:
        again.close()
    return less


def _no_findings(log: FileLog, when: str) -> None:
    for finding in log.verify():
        raise Violation(f"verify finds {finding.what} {when}")


def check_flipped(root: str, boot: str, wanted: Wanted) -> bool:
    """With a bit of what was synced flipped, the log says so (True), or it did not matter."""
    try:
        log = open_log(root, boot)
    except Damaged:
        return True
    try:
        try:
            found = view_of(log)
        except Damaged:
            return True
        judge(found, wanted)
        return bool(log.verify())
    finally:
        log.close()


def flipped(image: Image, random: Random) -> Image | None:
    """The image with one bit flipped that is known to be synced; None if nothing is."""
    places: list[tuple[str, int, int]] = []
    mark = image.files.get(MARK, b"")
    if len(mark) >= _MARK.size:
        generation, position = _MARK.unpack_from(mark)
        name = journal_name(generation)
        if HEADER_BYTES < position <= len(image.files.get(name, b"")):
            places.append((name, HEADER_BYTES, position))
    places += [(name, 0, len(data)) for name, data in image.files.items() if name.endswith(SUFFIX) and data]
    if not places:
        return None
    name, start, stop = random.choice(places[:1] if random.random() < 0.5 else places)
    data = bytearray(image.files[name])
    data[random.randrange(start, stop)] ^= 1 << random.randrange(8)
    return Image({**image.files, name: bytes(data)}, image.folders)


def judge_history(log: FileLog, found: View, old: Step) -> None:
    """Positions before a cut are good for reading on, positions past it are told."""
    written = any(shard.end for stream in old.view.streams.values() for shard in stream.shards)
    if written and log._books.state.fact.history <= old.history:
        raise Violation(f"the history is still {old.history} after a power cut")
    for name, stream in found.streams.items():
        before = old.view.streams.get(name)
        if before is None or len(before.shards) > len(stream.shards):
            continue
        for number, was in enumerate(before.shards):
            shard = stream.shards[number]
            if shard.end < was.end:
                for seq in {shard.end + 1, was.end}:
                    _told(log, name, number, seq, old.history, shard)
            else:
                log.read(name, number, was.end, history=old.history)
            log.read(name, number, shard.first, history=old.history)


def _told(log: FileLog, name: str, number: int, seq: int, history: int, shard: Shard) -> None:
    try:
        log.read(name, number, seq, history=history)
    except HistoryChanged as error:
        if error.end > shard.end:
            raise Violation(
                f"{name}/{number} ends at {shard.end}, and the histories at {error.end}"
            ) from None
        return
    raise Violation(f"{name}/{number}: seq {seq} of history {history} was read after a cut at {shard.end}")


def _go_on(log: FileLog, view: View) -> None:
    """Write to the log, and to the view."""
    log.create(AFTER, exist_ok=True)
    stream = view.streams.setdefault(AFTER, Stream(columnar=False, compacted=False, shards=[Shard()]))
    places = [place for place in view.places() if not view.streams[place[0]].columnar]
    for name, number in dict.fromkeys([(AFTER, 0), *places[:2]]):
        shard = view.streams[name].shards[number]
        receipt = log.append(name, b"more", shard=number, timestamp=5, durability="synced")
        if receipt.placed[0].first != shard.end:
            raise Violation(f"{name}/{number} goes on at {receipt.placed[0].first} and not {shard.end}")
        shard.records = [*shard.records, (shard.end, (5, None, b"more", ()))]
        shard.end += 1
    assert stream.shards[0].end
