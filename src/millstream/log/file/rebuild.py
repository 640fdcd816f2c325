"""Rebuilding a manifest: from what can still be read of the old one, and from what segments say.

A batch belongs to the log if its commit is known to have been folded into the manifest. Where two
batches claim the same seqs, one replaces the other: the one of the later commit counts. What nothing
is left to tell of, when the manifest is gone:

- Records that were trimmed or compacted away may come back, if their segment is still there.
- A commit that was stopped between its batches and its frame in the journal leaves batches. What came
  later has taken their seqs, and so their place. If nothing came later, the batches of a commit that
  has only some of its parts are left out, and told; one that has them all comes back.
- The same holds for a commit that came to be, and lost a part since: it is left out, and told.
- Staged records that a commit made visible are found, but not where they belong: told, and left out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from millstream.errors import Damaged
from millstream.log.check import SHARDS_MAX
from millstream.log.file.disk import Disk
from millstream.log.file.manifest import NAME, Fold, Kept, Start
from millstream.log.file.recovery import HISTORIES_MAX
from millstream.log.file.salvage import Salvage
from millstream.log.file.scan import Batch, Scan
from millstream.log.file.segment import About, Kind
from millstream.log.file.sound import unsound_rows
from millstream.log.file.sweep import segments_on
from millstream.log.finding import Finding, Report, Step
from millstream.log.state import Change, CutRow, FactRow, ShardKey, ShardRow, State, StreamRow

_NO_END = 1 << 62
_Origin: TypeAlias = tuple[str, Kind, int, int]  # who wrote it, how it came to be, commit, parts


class Hole(msgspec.Struct, frozen=True):
    """Seqs of a shard that nothing is known of."""

    key: ShardKey
    first: int
    next: int


class Rebuilt(msgspec.Struct):
    """What a new manifest is to hold, and what could not be brought back."""

    fold: Fold
    state: State
    findings: list[Finding]
    holes: list[Hole]
    left_out: list[tuple[ShardKey, Batch, str]]  # batches, and why
    remade: set[int]  # streams whose settings are from their segments


class Found(msgspec.Struct):
    """What the segments say."""

    abouts: dict[int, About]  # of each stream the newest
    batches: dict[ShardKey, list[Batch]]
    findings: list[Finding]


def look(disk: Disk, report: Report | None) -> Found:
    """Read all segments."""
    found = Found({}, {}, [])
    newest: dict[int, int] = {}
    scans: list[Scan] = []
    names = list(segments_on(disk))
    for done, segment in enumerate(names):
        if report is not None:
            report(Step("repair: segments", done, len(names)))
        try:
            scan = Scan(disk, segment)
        except (Damaged, FileNotFoundError) as error:
            found.findings.append(Finding(str(error), segment=segment))
            continue
        if scan.about is None:
            scans.append(scan)
        else:
            _read(scan, found, newest)
    by_name = {about.stream: about for _, about in sorted(found.abouts.items())}
    for scan in scans:  # their heads are damaged: other segments of the stream may say what they hold
        scan.about = by_name.get(scan.segment.rpartition("/")[0])
        what = "the head of the segment is damaged"
        if scan.about is None and scan.size:
            what += ", and no other segment says what its stream is"
        if scan.size:
            found.findings.append(Finding(what, segment=scan.segment, position=0))
        _read(scan, found, newest)
    return found


def _read(scan: Scan, found: Found, newest: dict[int, int]) -> None:
    about = scan.about
    if about is None:
        return
    commit = -1
    for batch in scan.batches():
        found.batches.setdefault((about.number, batch.note.shard), []).append(batch)
        commit = max(commit, batch.note.commit)
    if commit > newest.get(about.number, -2):
        newest[about.number] = commit
        found.abouts[about.number] = about
    for start, end in scan.damaged:
        what = f"{end - start} bytes hold no batch that can be read"
        found.findings.append(Finding(what, stream=about.stream, segment=scan.segment, position=start))


def rebuild(found: Found, salvage: Salvage | None, start: Start | None, generation: int) -> Rebuilt:
    """A manifest for the journal that goes on from it; `start` None: there is no journal."""
    kepts: dict[ShardKey, list[Kept]] = {}
    state = State()
    if salvage is not None:
        for key, kept in salvage.extents:
            kepts.setdefault(key, []).append(kept)
        for kind, row_key, row in salvage.rows:
            state.load(kind, row_key, row)
    strange = _strange(state)
    for change, _ in strange:
        state.load(*change)
    complete = salvage is not None and salvage.state_lost == 0 and not strange
    remade: set[int] = set() if complete else _add_streams(state, found.abouts)
    widen(state, remade)
    open_ended = {
        key
        for key in found.batches
        if not complete
        and (salvage is None or not (key in salvage.ended or key in state.shards or key in kepts))
    }
    doubts = _Doubts(found, start, open_ended)
    batches = {key: [b for b in some if doubts.about(key, b) is None] for key, some in found.batches.items()}
    if start is None:
        newest = max((b.note.commit for some in batches.values() for b in some), default=0)
        start = Start(generation, max(doubts.settled, newest))
    holes = _fill(state, kepts, batches, salvage, open_ended)
    if not complete:
        _add_shards(state, kepts, batches, found)
    findings = [] if salvage is None else salvage.findings
    findings += [Finding(f"a row of the state makes no sense: {why}", segment=NAME) for _, why in strange]
    if open_ended:
        findings = [*findings, *found.findings]
    fold = Fold(
        start=start,
        rows=[row for table in state.tables.values() for row in table.changes()],
        extents=[(key, kept) for key, some in kepts.items() if key[0] in state.names for kept in some],
        firsts={},
        streams_gone=(),
    )
    known = {key for key in open_ended if key[0] in state.names}
    left_out = list(_left_out(found, kepts, known, doubts))
    return Rebuilt(fold, state, findings, holes, left_out, remade)


def _strange(state: State) -> list[tuple[Change, str]]:
    """The rows of streams and shards that make no sense; others are judged when all streams are known."""
    shards = {state.shards.change(key, None)[1] for key in state.shards if key[0] in state.names}
    return [
        (change, why)
        for change, why in unsound_rows(state)
        if change[0] == state.streams.name or (change[0] == state.shards.name and change[1] in shards)
    ]


def _left_out(
    found: Found, kepts: dict[ShardKey, list[Kept]], keys: Iterable[ShardKey], doubts: _Doubts
) -> Iterator[tuple[ShardKey, Batch, str]]:
    """Batches that nothing has taken the place of, and why they are not taken in."""
    for key in sorted(keys):
        covered = [(kept.extent.first, kept.extent.next) for kept in kepts.get(key, ())]
        for batch in found.batches[key]:
            why = doubts.about(key, batch)
            extent = batch.extent
            if why and (
                batch.note.kind is Kind.STAGED
                or not any(first < extent.next and extent.first < after for first, after in covered)
            ):
                yield key, batch, why


def _settled(found: Found) -> int:
    """Up to which commit everything was folded, as far as batches tell."""
    settled = 0
    parts: dict[tuple[int, int], set[int]] = {}
    for some in found.batches.values():
        for note in (batch.note for batch in some):
            if note.kind is Kind.REWRITE:
                settled = max(settled, note.commit)
            elif note.kind is Kind.FOLD:
                parts.setdefault((note.commit, note.parts), set()).add(note.part)
    return max([settled, *(commit for (commit, count), seen in parts.items() if len(seen) == count)])


class _Doubts:
    """Whether the commits of batches came to be, as far as that can be known."""

    def __init__(self, found: Found, start: Start | None, open_ended: Collection[ShardKey]) -> None:
        """Of all shards but those that are open-ended it is known which seqs came to be."""
        self.settled = _settled(found) if start is None else start.base
        self._open_ended = open_ended
        self._journal = start is not None
        self._ends: dict[ShardKey, int] = {}
        self._seen: dict[_Origin, set[int]] = {}
        self._undone: set[_Origin] = set()
        twice: set[_Origin] = set()  # a commit that was stopped, and the next one, which had its number
        for key, some in found.batches.items():
            first_hand = [
                batch
                for batch in some
                if batch.note.kind in {Kind.COMMIT, Kind.FOLD}
                and (start is None or batch.note.commit <= start.base)
            ]
            self._ends[key] = max((batch.extent.next for batch in first_hand), default=0)
            standing = {batch.extent for batch in _chosen(first_hand, 0, _NO_END)}
            for batch in first_hand:
                parts = self._seen.setdefault(_origin(batch), set())
                if batch.note.part in parts:
                    twice.add(_origin(batch))
                parts.add(batch.note.part)
                if batch.extent not in standing:
                    self._undone.add(_origin(batch))
        self._undone -= twice

    def about(self, key: ShardKey, batch: Batch) -> str | None:
        """Why a batch is not taken in; empty if there is nothing to say; None if it is taken in."""
        note = batch.note
        if note.kind is Kind.STAGED:
            return "which commit made these staged records visible, only the manifest knew"
        if note.kind is Kind.COMMIT and _origin(batch) in self._undone:
            return ""  # others have the seqs of one of its batches, and so it never came to be
        whole = len(self._seen.get(_origin(batch), ())) == note.parts
        if note.commit <= self.settled:
            stopped = note.kind is Kind.COMMIT and batch.extent.next == self._ends[key] and not whole
        elif self._journal:
            return ""  # if it came to be, the journal says so
        else:
            stopped = not whole or note.inline > 0
        if not stopped or key not in self._open_ended:
            return None
        return f"not all parts of commit {note.commit} were found: it may have been stopped"


def _origin(batch: Batch) -> _Origin:
    """What the batches of one commit have in common; another that was stopped may have had its number."""
    note = batch.note
    return batch.extent.segment.rpartition("/")[2].rpartition("-")[0], note.kind, note.commit, note.parts


def _add_streams(state: State, abouts: dict[int, About]) -> set[int]:
    """Streams that only segments know of; of two with one name, the later."""
    numbers = set(state.names)
    added = set()
    for number, about in sorted(abouts.items()):
        known = state.streams.get(about.stream)
        if number not in numbers and (known is None or known.id < number):
            row = StreamRow(number, about.settings, about.created_ms)
            state.load(*state.streams.change(about.stream, row))
            added.add(number)
    return added


def widen(state: State, remade: Collection[int]) -> None:
    """Give streams whose settings may be older ones, or none, the shards that other rows speak of."""
    counts: dict[int, int] = {}
    keys = [*state.shards, *(key[1:] for key in state.offsets)]
    keys += [key for seqs in state.pins.values() for key in seqs]
    keys += [key for group in state.groups.values() for key in group.owners]
    keys += [(row.stream, row.shard) for row in state.staged.values()]
    for number, shard in keys:
        if number in remade and number in state.names and shard < SHARDS_MAX:
            counts[number] = max(counts.get(number, 0), shard + 1)
    for number, count in counts.items():
        name = state.names[number]
        stream = state.streams[name]
        if count > stream.settings.shards:
            settings = msgspec.structs.replace(stream.settings, shards=count)
            state.load(*state.streams.change(name, StreamRow(number, settings, stream.created_ms)))


def _fill(
    state: State,
    kepts: dict[ShardKey, list[Kept]],
    batches: dict[ShardKey, list[Batch]],
    salvage: Salvage | None,
    open_ended: set[ShardKey],
) -> list[Hole]:
    """Put batches where the manifest has no rows any more; gives what stays missing."""
    missing: dict[ShardKey, list[tuple[int, int]]] = {}
    if salvage is not None:
        for key, first, after in salvage.missing:
            missing.setdefault(key, []).append((first, after))
        for key, row in state.shards.items():
            if key not in salvage.ended and row.end > row.first:
                last = max((kept.extent.next for kept in kepts.get(key, ())), default=row.first)
                missing.setdefault(key, []).append((last, row.end))
    holes = []
    for key in sorted(kepts.keys() | batches.keys() | missing.keys()):
        if key[0] not in state.names:
            continue
        known = kepts.setdefault(key, [])
        first_kept = state.shards.get(key, ShardRow()).first
        for start, after in [(0, _NO_END)] if key in open_ended else missing.get(key, []):
            first = max(start, first_kept)
            some = [batch for batch in batches.get(key, []) if batch.extent.first >= start]
            new = _chosen(some, first, after)
            known += [Kept(batch.extent, _marks_before(known, batch.extent.first)) for batch in new]
            holes += list(_between(key, new, first, after))
        known.sort(key=_first_of)
    return holes


def _marks_before(known: Sequence[Kept], seq: int) -> dict[str, int]:
    """The marks of the extent before a seq: older ones say less, and stay true."""
    before = [kept for kept in known if kept.extent.first < seq]
    return max(before, key=_first_of).marks if before else {}


def _chosen(some: Iterable[Batch], first: int, after: int) -> list[Batch]:
    """Batches within a stretch of seqs that do not overlap, those of later commits before others."""
    chosen: list[Batch] = []
    starts: list[int] = []
    for batch in sorted(some, key=_rank, reverse=True):
        extent = batch.extent
        if extent.next <= first or extent.next > after or extent.first < 0:
            continue
        at = bisect_left(starts, extent.first)
        if at < len(starts) and starts[at] < extent.next:
            continue
        if at > 0 and chosen[at - 1].extent.next > extent.first:
            continue
        starts.insert(at, extent.first)
        chosen.insert(at, batch)
    return chosen


def _rank(batch: Batch) -> tuple[int, int, int, int, int, str, int]:
    """What counts more: a later commit; what was made of a commit's batches; what was written later."""
    note, extent = batch.note, batch.extent
    made = [Kind.COMMIT, Kind.FOLD, Kind.REWRITE].index(note.kind)
    span, count = (extent.next - extent.first, extent.count) if note.kind is Kind.REWRITE else (0, 0)
    return note.history, note.commit, made, span, -count, extent.segment, extent.position


def _between(key: ShardKey, batches: Sequence[Batch], first: int, after: int) -> Iterator[Hole]:
    """What lies between batches, and is in none of them."""
    for batch in batches:
        if batch.extent.first > first:
            yield Hole(key, first, batch.extent.first)
        first = max(first, batch.extent.next)
    if first < after < _NO_END:
        yield Hole(key, first, after)


def _add_shards(
    state: State, kepts: dict[ShardKey, list[Kept]], batches: dict[ShardKey, list[Batch]], found: Found
) -> None:
    """What the state says of shards, and the facts, where only extents are left to tell."""
    for key, some in kepts.items():
        if key[0] in state.names and some and key not in state.shards:
            row = ShardRow(some[0].extent.first, some[-1].extent.next)
            state.load(*state.shards.change(key, row))
            stream = state.streams[state.names[key[0]]]
            if key[1] >= stream.settings.shards:
                settings = msgspec.structs.replace(stream.settings, shards=key[1] + 1)
                changed = StreamRow(stream.id, settings, stream.created_ms)
                state.load(*state.streams.change(state.names[key[0]], changed))
    histories = [batch.note.history for some in batches.values() for batch in some]
    newest = max([state.fact.history, *state.cuts, *histories])
    for number in range(max(1, newest - HISTORIES_MAX), newest + 1):
        if number not in state.cuts:
            cut = {
                key: min(
                    (b.extent.first for b in batches.get(key, ()) if b.note.history >= number),
                    default=row.end,
                )
                for key, row in state.shards.items()
            }
            state.load(*state.cuts.change(number, CutRow(cut)))
    next_stream = max([state.fact.next_stream, *(number + 1 for number in (*state.names, *found.abouts))])
    state.load(*state.facts.change("log", FactRow(newest, state.fact.boot, next_stream)))


def _first_of(kept: Kept) -> int:
    return kept.extent.first


def strays(state: State) -> list[Change]:
    """The rows that take away what is said of streams that nobody knows any more."""
    known = state.names
    rows = [state.shards.change(key, None) for key in state.shards if key[0] not in known]
    rows += [state.offsets.change(key, None) for key in state.offsets if key[1] not in known]
    rows += [
        state.staged.change(token, None) for token, row in state.staged.items() if row.stream not in known
    ]
    for pin, seqs in state.pins.items():
        left = {key: seq for key, seq in seqs.items() if key[0] in known}
        if left != seqs:
            rows.append(state.pins.change(pin, left or None))
    for group, row in state.groups.items():
        owners = {key: owner for key, owner in row.owners.items() if key[0] in known}
        if owners != row.owners:
            rows.append(state.groups.change(group, msgspec.structs.replace(row, owners=owners)))
    return rows
