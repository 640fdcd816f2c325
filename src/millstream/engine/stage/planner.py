"""The planner: what the next epoch reads. It alone decides; everything after it is a function of its plan."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from millstream.clock import Clock
from millstream.engine.stage.inputs import Ahead, Input, StreamInput
from millstream.engine.stage.pace import Pace
from millstream.engine.stage.plan import Kind, Plan, Range
from millstream.engine.stage.planlog import PlanLog
from millstream.engine.stage.rest import Bounds, Place, ends_of, positions_of

IDLE_AFTER_MS = 10_000


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
    ) -> None:
        """Go on after the plans that there are. `bounds`: how far inputs are read, and no further."""
        self._inputs = inputs
        self._plans = plans
        self._clock = clock
        self._run = run
        self._flow = flow
        self._bounds = bounds or {}
        self._pace = pace or Pace()

    def after(self, epoch: int, kind: Kind = "records") -> Plan | None:
        """The plan of the epoch after this one; None: there is nothing to do.

        One that was made before is given again, whatever has come meanwhile.
        """
        known = self._plans.at(epoch + 1)
        if known is not None:
            return known
        plan = self._made(epoch + 1, kind)
        if plan is not None:
            self._plans.store(plan)
        return plan

    def ends(self) -> dict[Place, int]:
        """How far each shard may be read now."""
        clock = self._clock.now_ms()
        return ends_of(positions_of(self._plans.last, self._inputs, clock), self._inputs, self._bounds, clock)

    def _made(self, epoch: int, kind: Kind) -> Plan | None:
        last = self._plans.last
        clock = max(self._clock.now_ms(), last.clock if last is not None else 0)
        positions = positions_of(last, self._inputs, clock)
        ends = ends_of(positions, self._inputs, self._bounds, clock)
        ahead = {
            place: self._inputs[place[0]].cut(positions[place], end, self._pace.records, clock)
            for place, end in ends.items()
        }
        pieces = self._chosen(ahead) if kind == "records" else {}
        if not pieces and kind == "records":
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
        found = {}
        for place, one in some.items():
            taken = len(one.seqs) if until is None else int(one.highs.searchsorted(until, "right"))
            taken = min(taken, most)
            if taken:
                found[place] = int(one.seqs[taken - 1]) + 1, int(one.highs[taken - 1])
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
