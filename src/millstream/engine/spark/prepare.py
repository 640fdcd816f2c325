"""Before a job starts: what it was is compared with what it is now, and what must be done first is found.

Nothing is lost or misread in silence: a flow that does not fit its states is refused with the way out, an
epoch under way is only done again by the flow that planned it, and a checkpoint that has suffered goes back
to where it is whole, or is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from millstream.engine.spark import checkpoint
from millstream.engine.stage.description import Description, JobBook, described, lost, moves
from millstream.engine.stage.inputs import Input, StreamInput
from millstream.engine.stage.job import Job
from millstream.engine.stage.moving import export_name, states_of
from millstream.engine.stage.plan import Plan
from millstream.engine.stage.planlog import PlanReader, plans_of
from millstream.engine.stage.planner import HELD
from millstream.engine.stage.rest import Place
from millstream.errors import Damaged, UsageError
from millstream.log.commit import Commit, Mark
from millstream.log.log import Log


class Wishes(NamedTuple):
    """What the user said of the job's past."""

    fresh: bool = False
    rebuild: bool = False
    accept_mixed: bool = False
    drop_state: tuple[str, ...] = ()


class Preparation:
    """A job's past, and how it goes on."""

    def __init__(self, job: Job, log: Log, folder: Path, inputs: Mapping[str, Input], pages: int) -> None:
        """Read what there is."""
        self._job = job
        self._log = log
        self._folder = folder
        self._inputs = inputs
        self._pages = pages
        self._book = JobBook(log, job.name)
        self._plans = {plan.epoch: plan for plan in PlanReader(log, job.name).new()}

    @property
    def description(self) -> Description:
        """As it was stored last."""
        if self._book.newest is None:
            raise Damaged(f"job '{self._job.name}' has no description")
        return self._book.newest

    def checkpoint(self, description: Description) -> Path:
        """The folder that Spark has for a description."""
        return self._folder / f"checkpoint-{description.generation}"

    def begin(self, wishes: Wishes) -> Description:
        """Settle everything that can be settled without running: gives how to start."""
        before = self._book.newest
        now = described(self._job, run=1, pages=self._pages)
        if before is None or wishes.fresh:
            return self._begin_anew(before, now)
        now = msgspec.structs.replace(
            now, run=before.run, generation=before.generation, first=before.first, target=before.target
        )
        if self._is_settled(before):
            before = self._settled(before)
        # What an unfinished move leaves behind was said when it began.
        wished = {*wishes.drop_state} & before.steps.keys()
        dropped = tuple(sorted({*wished, *before.dropped} if before.phase == "exporting" else wished))
        if problems := lost(before, now, dropped):
            text = "\n".join(f"  {one}" for one in problems)
            raise UsageError(f"job '{self._job.name}' cannot go on:\n{text}")
        rebuilding = self._is_rebuilding(before)
        if wishes.rebuild and not rebuilding:
            newest = self._newest()
            done = -1 if newest is None else newest.epoch - 1
            self._judge_flight(before, now, done, accept_mixed=wishes.accept_mixed)
            return self._begin_rebuilding(before, now)
        done = self._look_over(before)
        self._judge_flight(before, now, done, accept_mixed=wishes.accept_mixed)
        self._take_names(now.run)
        if before.phase == "exporting" or moves(before, now) or dropped:
            if rebuilding:
                raise UsageError(
                    f"job '{self._job.name}' is being rebuilt with {before.pages} pages: let that end before "
                    f"its states go elsewhere; start it with pages={before.pages} and the steps that it has"
                )
            return msgspec.structs.replace(before, dropped=dropped)
        return self._book.store(msgspec.structs.replace(now, phase=before.phase, dropped=before.dropped))

    def moves_to(self, description: Description) -> Description | None:
        """What the states of a description have to move to; None: they are where they belong."""
        now = described(self._job, run=description.run, pages=self._pages)
        if description.phase == "importing":
            return None
        return (
            now
            if description.phase == "exporting" or moves(description, now) or description.dropped
            else None
        )

    def _is_settled(self, description: Description) -> bool:
        """Whether a move lies so far back that its first epoch will not come again."""
        newest = self._newest()
        return (
            description.phase == "importing"
            and newest is not None
            and newest.epoch - description.first > HELD
        )

    def _is_rebuilding(self, description: Description) -> bool:
        """Whether the epoch that a rebuilding ends with has not been planned again yet."""
        newest = self._newest()
        return description.phase == "rebuilding" and (
            newest is None or newest.epoch <= description.target or newest.kind == "muted"
        )

    # -- phases of a move

    def export(self, description: Description) -> tuple[Description, int]:
        """Have states go out: gives the epoch in which they do."""
        if description.phase != "exporting":
            stream = states_of(self._job.name)
            if stream in self._log.streams(stream):
                self._log.delete(stream)
            self._log.create(stream, codec="msgpack")
            description = self._book.store(msgspec.structs.replace(description, phase="exporting"))
        newest = self._newest()
        if newest is not None and newest.kind == "export":
            return description, newest.epoch
        return description, (newest.epoch if newest is not None else description.first) + 1

    def arrive(self, description: Description, goal: Description, epoch: int) -> Description:
        """States are out: go on in the next checkpoint, whose first epoch takes them in."""
        self._leave(range(goal.pages, description.pages))
        return self._book.store(
            msgspec.structs.replace(
                goal,
                generation=description.generation + 1,
                first=epoch,
                phase="importing",
                target=-1,
                dropped=description.dropped,
            )
        )

    def _settled(self, description: Description) -> Description:
        """States are in: nothing is left of the move."""
        stream = states_of(self._job.name)
        if stream in self._log.streams(stream):
            self._log.delete(stream)
        return self._book.store(msgspec.structs.replace(description, phase="running", dropped=()))

    def _leave(self, pages: Iterable[int]) -> None:
        """Pages that are no more write nothing older, or newer, any more."""
        marks = [
            Mark(stream, shard, self._job.fence(level, str(page)), None)
            for level in range(1, self._job.depth + 1)
            for page in pages
            for stream in self._job.streams_at(level)
            for shard in range(self._log.settings(stream).shards)
        ]
        if marks:
            self._log.commit(Commit(marks=tuple(marks)))

    # -- beginnings

    def _begin_anew(self, before: Description | None, now: Description) -> Description:
        """The first run, or a fresh one: of what was, only the names are left, taken over."""
        run = 1 if before is None else before.run + 1
        generation = 0 if before is None else before.generation + 1
        if before is None and self._plans:
            raise Damaged(
                f"job '{self._job.name}' has plans, and what it was is not known any more: use fresh=True"
            )
        plans = plans_of(self._job.name)
        if before is not None and plans in self._log.streams(plans):
            self._log.delete(plans)
            self._log.delete_group(self._job.name)
        self._take_names(run)
        self._plans = {}
        return self._book.store(msgspec.structs.replace(now, run=run, generation=generation))

    def _begin_rebuilding(self, before: Description, now: Description) -> Description:
        newest = self._newest()
        if newest is None:
            return self._book.store(msgspec.structs.replace(now, generation=before.generation + 1))
        if newest.kind not in {"records", "finish"}:
            raise UsageError(
                f"job '{self._job.name}' was lost while it moved or was rebuilt: start it with fresh=True"
            )
        for (name, shard), first in self._firsts().items():
            if first > 0:
                raise UsageError(
                    f"job '{self._job.name}' cannot be rebuilt: the first {first:,} records of stream "
                    f"'{name}', shard {shard} are gone, so states would lack them. fresh=True computes from "
                    "what is left"
                )
        self._take_names(now.run)
        return self._book.store(
            msgspec.structs.replace(
                now,
                generation=before.generation + 1,
                first=newest.epoch,
                phase="rebuilding",
                target=newest.epoch,
            )
        )

    def _take_names(self, run: int) -> None:
        """Have names that older runs committed under belong to this one."""
        before = self._book.newest.pages if self._book.newest is not None else 0
        pages = range(max(self._pages, before))
        levels = range(self._job.depth + 1)
        read = {(one.input, one.shard) for plan in self._plans.values() for one in plan.positions}
        places = [f"{name}.{shard}" for name, shard in sorted({*read, *self._firsts()})] + list(
            map(str, pages)
        )
        names = [export_name(self._job.name, level, page) for level in levels for page in pages]
        for level in levels:
            names += [self._job.fence(level, place) for place in places if self._job.streams_at(level)]
        for name in names:
            known = self._log.fence(name)
            while known is not None and known.run < run:
                self._log.take_over(name)
                known = self._log.fence(name)

    def _firsts(self) -> dict[Place, int]:
        """The first seq that there is of each shard that is read."""
        streams = [name for name, one in self._inputs.items() if isinstance(one, StreamInput)]
        return {
            (name, shard): first for name in streams for shard, (first, _) in enumerate(self._log.ends(name))
        }

    # -- what must not be passed over

    def _newest(self) -> Plan | None:
        return self._plans[max(self._plans)] if self._plans else None

    def _look_over(self, before: Description) -> int:
        """Go back to the epoch up to which the checkpoint is whole; refuse if no way leads on from there."""
        folder = self.checkpoint(before)
        whole = checkpoint.heal(folder, before.pages, before.depth)
        newest = self._newest()
        goes_on = before.first + 1 + whole.batch  # the newest epoch that counts as done
        if newest is None or newest.epoch <= goes_on:
            return goes_on
        missing = [epoch for epoch in range(goes_on + 1, newest.epoch + 1) if epoch not in self._plans]
        if missing or newest.epoch - goes_on > HELD:
            lost_files = f" ({', '.join(whole.aside[:3])} …)" if whole.aside else ""
            raise Damaged(
                f"job '{self._job.name}': Spark's {folder.name} is whole up to epoch {goes_on}, and the "
                f"job was at {newest.epoch}{lost_files}. Start it with rebuild=True (--rebuild), which "
                "computes states anew and writes nothing twice, or with fresh=True (--fresh)"
            )
        return goes_on

    def _judge_flight(self, before: Description, now: Description, done: int, *, accept_mixed: bool) -> None:
        """Refuse to do epochs again, those after `done`, by another flow than the one that planned them."""
        if accept_mixed and not moves(before, now):
            return
        again = [plan for epoch, plan in sorted(self._plans.items()) if epoch > done]
        others = [one for one in again if one.flow != now.flow and one.kind not in {"export", "import"}]
        if others:
            raise UsageError(
                f"job '{self._job.name}' was stopped in the middle of epoch {others[0].epoch}, and the flow "
                "has changed since: some of that epoch may be written already, by the flow as it was. Run "
                "that flow once more (max_epochs=1, --max-epochs 1 will do), then this one; or, if it makes "
                "no difference to the epoch, say accept_mixed=True (--accept-mixed)"
            )


def clear(log: Log, streams: Collection[str]) -> None:
    """Empty the streams that a flow writes, for a fresh run; their settings stay."""
    for stream in streams:
        if stream in log.streams(stream):
            settings = log.settings(stream)
            log.delete(stream)
            log.create(
                stream,
                shards=settings.shards,
                value=settings.value,
                codec=settings.codec,
                retention=settings.retention,
                cleanup=settings.cleanup,
                tombstones_ms=settings.tombstones_ms,
            )
