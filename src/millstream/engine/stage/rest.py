"""Rest: whether a job has done all that there is to do."""

from __future__ import annotations

from collections.abc import Mapping

from millstream.engine.stage.inputs import Input
from millstream.engine.stage.plan import Plan, Range

Place = tuple[str, int]  # input, shard
Bounds = Mapping[str, Mapping[int, int]]  # of inputs, up to where their shards are read


def positions_of(plan: Plan | None, inputs: Mapping[str, Input], clock: int = 0) -> dict[Place, Range]:
    """Where each shard is after a plan, or before the first one."""
    found = {(one.input, one.shard): one for one in (plan.positions if plan is not None else ())}
    for one in inputs.values():
        for start in one.starts():
            found.setdefault((start.input, start.shard), start)
        mine = {shard: position for (name, shard), position in found.items() if name == one.name}
        for shard in one.ends(mine, clock):
            if shard not in mine:
                place = one.place(mine, shard)
                found[one.name, shard] = Range(one.name, shard, 0, 0, place=place, since=clock)
    return found


def ends_of(
    positions: Mapping[Place, Range], inputs: Mapping[str, Input], bounds: Bounds, clock: int
) -> dict[Place, int]:
    """How far each shard may be read now."""
    found: dict[Place, int] = {}
    for name, one in inputs.items():
        mine = {shard: position for (source, shard), position in positions.items() if source == name}
        for shard, end in one.ends(mine, clock).items():
            limit = bounds.get(name, {shard: end}).get(shard)
            if limit is not None:
                found[name, shard] = min(end, limit)
    return found


def at_rest(plan: Plan | None, inputs: Mapping[str, Input], bounds: Bounds, clock: int) -> bool:
    """Whether there is nothing to read any more after a plan."""
    positions = positions_of(plan, inputs, clock)
    ends = ends_of(positions, inputs, bounds, clock)
    return all(inputs[place[0]].rests(positions[place], end) for place, end in ends.items())
