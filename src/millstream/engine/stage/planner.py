"""The planner: what the next epoch reads. It alone decides; everything after it is a function of its plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from millstream.clock import Clock
from millstream.engine.stage.inputs import Ahead, Input, StreamInput
from millstream.engine.stage.moving import moving
from millstream.engine.stage.pace import Pace
from millstream.engine.stage.plan import Kind, Plan, Range, Redone
from millstream.engine.stage.planlog import PlanLog
from millstream.engine.stage.rest import Bounds, Place, ends_of, positions_of
from millstream.errors import Damaged

IDLE_AFTER_MS = 10_000
HELD = 10  # epochs that may come again, when the newest of what Spark keeps is lost


class Planner:
    """Makes the plans of one job."""

    def __init__(
        self,
        inputs: Mapping[str, Input],
        plans: PlanLog,
        clock: Clock,
        *,
        run: int,
        flow: str,
        bounds: Bounds | None = None,
        pace: Pace | None = None,
        rebuild: int | None = None,
    ) -> None:
        """Go on after the plans that there are. `bounds`: how far inputs are read, and no further.

        `rebuild`: states are made anew from all that was read before this epoch, which is then done again.
        """
        self._inputs = inputs
        self._plans = plans
        self._clock = clock
        self._run = run
        self._flow = flow
        self._bounds = bounds or {}
        self._pace = pace or Pace()
        self._rebuild = rebuild
        if plans.last is None:  # what the first epoch reads has to stay as it is until it is done with
            self._pin(positions_of(None, inputs, clock.now_ms()).values())

    def after(
        self, epoch: int, kind: Kind = "records", closes: Sequence[str] = (), *, first: bool = False
    ) -> Plan | None:
        """The plan of the epoch after this one; None: there is nothing to do, and it is not the first.

        One that was made before is given again, whatever has come meanwhile. `closes`: see `Plan`.
        """
        known = self._plans.at(epoch + 1)
        if known is not None:
            return known
        if self._is_rebuilding():
            plan = self._rebuilding(epoch + 1)
        else:
            plan = self._made(epoch + 1, self._plans.last, self._bounds, kind, first=first)
            if plan is not None and closes:
                plan = msgspec.structs.replace(plan, closes=tuple(closes))
        if plan is not None:
            self._plans.store(plan)
        return plan

    def committed(self, epoch: int) -> None:
        """An epoch is done with: what was read some epochs before it is needed no more."""
        if self._is_rebuilding():
            return
        self._plans.committed(epoch)
        plan = self._plans.at(epoch - HELD)
        if plan is not None:
            self._pin(plan.positions)

    def _pin(self, positions: Iterable[Range]) -> None:
        """Keep streams from there on as they are."""
        read = [one for one in positions if isinstance(self._inputs.get(one.input), StreamInput)]
        self._plans.pin({(one.input, one.shard): one.end for one in read})

    def ends(self) -> dict[Place, int]:
        """How far each shard may be read now."""
        clock = self._clock.now_ms()
        return ends_of(positions_of(self._plans.last, self._inputs, clock), self._inputs, self._bounds, clock)

    def _made(
        self, epoch: int, last: Plan | None, bounds: Bounds, kind: Kind, *, first: bool = False
    ) -> Plan | None:
        """A plan that goes on after another; None if there is nothing to read."""
        newest = self._plans.last
        clock = max(self._clock.now_ms(), newest.clock if newest is not None else 0)
        positions = positions_of(last, self._inputs, clock)
        ends = ends_of(positions, self._inputs, bounds, clock)
        reading = kind in {"records", "muted"}
        ahead = {
            place: self._inputs[place[0]].cut(positions[place], end, self._pace.records, clock)
            for place, end in ends.items()
            if reading
        }
        pieces = self._chosen(ahead)
        if not pieces and reading and not first:
            return None
        ranges = []
        for place, (end, high) in sorted(pieces.items()):
            piece = self._inputs[place[0]].piece(positions[place], end)
            ranges.append(piece)
            positions[place] = msgspec.structs.replace(
                piece,
                start=end,
                start_byte=piece.end_byte,
                high=high,
                since=clock,
                progress=self._progress(piece, high),
            )
        rest = {place for place in ends if place not in pieces or not ahead[place].more}
        if kind == "import":
            ranges = list(moving(self._plans.log, self._plans.job))
        return Plan(
            run=self._run,
            epoch=epoch,
            clock=clock,
            flow=self._flow,
            ranges=tuple(ranges),
            positions=tuple(positions[place] for place in sorted(positions)),
            progress=_together(positions, rest, clock, last),
            kind=kind,
        )

    def _is_rebuilding(self) -> bool:
        """Whether the epoch that a rebuilding ends with was not planned yet."""
        last = self._plans.last
        return (
            self._rebuild is not None
            and last is not None
            and (last.epoch <= self._rebuild or last.kind == "muted")
        )

    def _rebuilding(self, epoch: int) -> Plan | None:
        """The next piece of all that was read before the epoch that is done again; at last, that epoch."""
        target = self._plans.at(self._rebuild if self._rebuild is not None else -1)
        last = self._plans.last
        if target is None or last is None:
            raise Damaged(f"the plan of epoch {self._rebuild} is gone: start the job with fresh=True")
        before = last if last.kind == "muted" else None
        plan = self._made(epoch, before, _bounds_before(target, self._inputs), "muted")
        if plan is not None:
            return plan
        redone = target.redone or Redone(target.epoch, target.digest)
        return msgspec.structs.replace(target, epoch=epoch, run=self._run, flow=self._flow, redone=redone)

    def _progress(self, piece: Range, high: int) -> int:
        """What is known at the end of a piece: by marks of who writes there, or by what came."""
        one = self._inputs[piece.input]
        marked = one.progress(piece.shard, piece.end) if isinstance(one, StreamInput) else None
        return high if marked is None else marked

    def _chosen(self, ahead: Mapping[Place, Ahead]) -> dict[Place, tuple[int, int]]:
        """Up to where each shard is read, and its largest timestamp there: shards advance together."""
        some = {place: one for place, one in ahead.items() if len(one.seqs)}
        if not some:
            return {}
        count = sum(len(one.seqs) for one in some.values())
        size = sum(len(one.seqs) * one.record_bytes for one in some.values())
        self._pace.seen(count, more=any(one.more for one in some.values()))
        most = self._pace.fitting(size / count)
        until = None
        if count > most or any(one.more for one in some.values()):
            highs = np.concatenate([one.highs for one in some.values()])
            until = int(np.partition(highs, min(most, count) - 1)[min(most, count) - 1])
            # Beyond what was looked at of a shard there may be more that is no newer.
            until = min([until, *(int(one.highs[-1]) for one in some.values() if one.more)])
        taken = _shares(some, until, most)
        return {
            place: (int(some[place].seqs[count - 1]) + 1, int(some[place].highs[count - 1]))
            for place, count in taken.items()
            if count
        }


def _shares(some: Mapping[Place, Ahead], until: int | None, most: int) -> dict[Place, int]:
    """How many records of each shard: all before a time, and of those at that time as many as fit, evenly."""
    if until is None:
        return {place: len(one.seqs) for place, one in some.items()}
    found = {place: int(one.highs.searchsorted(until)) for place, one in some.items()}
    left = most - sum(found.values())
    for number, (place, one) in enumerate(some.items()):
        same = int(one.highs.searchsorted(until, "right")) - found[place]
        share = min(same, -(-left // (len(some) - number)))
        found[place] += share
        left -= share
    return found


def _bounds_before(plan: Plan, inputs: Mapping[str, Input]) -> Bounds:
    """How far inputs had been read before a plan."""
    starts = {(one.input, one.shard): (one.start, one.start_byte) for one in plan.ranges}
    found: dict[str, dict[int, int]] = {name: {} for name in inputs}
    for one in plan.positions:
        end, end_byte = starts.get((one.input, one.shard), (one.end, one.end_byte))
        if one.input in found:
            found[one.input][one.shard] = end_byte if one.place else end
    return found


def _together(
    positions: Mapping[Place, Range], rest: set[Place], clock: int, last: Plan | None
) -> int | None:
    """The progress of all inputs: that of the one that is furthest behind, of those that are not idle."""
    before = last.progress if last is not None else None
    awake = [
        position.progress
        for place, position in positions.items()
        if not (place in rest and clock - position.since >= IDLE_AFTER_MS)
    ]
    known = [one for one in awake if one is not None]
    if len(known) < len(awake):
        return before
    found = min(known, default=clock)
    return found if before is None else max(found, before)
