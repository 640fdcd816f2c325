"""The description of a job: what its state was made by, kept in the log and compared at every start.

>>> from millstream.engine.stage.job import jobs_of
>>> from millstream.flow import Flow
>>> flow = Flow("words")
>>> flow.source("words", key=str, value=str).group_by_key().count(name="seen").sink("counts")
>>> [job] = jobs_of(flow.build())
>>> before = described(job, run=1, pages=4)
>>> sorted(before.steps), before.depth
(['seen'], 1)
>>> lost(before, described(job, run=1, pages=4), drop=())
[]
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import CodeType, FunctionType
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from millstream.codec.kind import named
from millstream.engine.stage.job import Job
from millstream.engine.stage.plan import Whole
from millstream.errors import Damaged, UsageError
from millstream.flow.node import Group, Node, Pure, Stateful
from millstream.flow.process import Process
from millstream.flow.site import qualified_name
from millstream.log.batch import Limits
from millstream.log.can import Can
from millstream.log.commit import Append, Commit, Durability, Expect
from millstream.log.log import Log
from millstream.names import short_name

# "exporting": states are on their way out of a checkpoint; "importing": into the next one; "rebuilding": from
# the beginning of the inputs.
Phase: TypeAlias = Literal["running", "exporting", "importing", "rebuilding"]


class StepState(msgspec.Struct, frozen=True):
    """What a step's state is: kept under its name."""

    operation: str
    state: str
    key: str
    level: Annotated[int, msgspec.Meta(ge=0, le=1_000)]


class Description(msgspec.Struct, frozen=True):
    """A job, as it was started last.

    `generation` counts its checkpoints, and `first` is the epoch before the first one of this checkpoint.
    While states move, `goal` is the description that they move to.
    """

    run: Whole
    job: str
    flow: str  # digest: of what the steps are, and of the code of their functions
    pages: Whole
    depth: Whole
    steps: dict[str, StepState]
    streams: tuple[str, ...]  # that it writes
    generation: Whole = 0
    first: Annotated[int, msgspec.Meta(ge=-1)] = -1
    phase: Phase = "running"
    target: Annotated[int, msgspec.Meta(ge=-1)] = -1  # the epoch that a rebuilding does again at its end
    dropped: tuple[str, ...] = ()  # steps whose states are left behind as states move


def described(job: Job, *, run: int, pages: int) -> Description:
    """The description of a job."""
    steps = {
        name: StepState(node.step.operation, named(node.state), named(node.key), job.levels[node])
        for name, node in job.stateful.items()
    }
    return Description(run, job.name, digest_of(job), pages, job.depth, steps, job.streams)


def lost(before: Description, now: Description, drop: Collection[str]) -> list[str]:
    """What of the state would be lost or misread, each with the way out."""
    found = []
    for name, step in before.steps.items():
        if name in drop:
            continue
        other = now.steps.get(name)
        if other is None:
            near = ", ".join(f"'{one}'" for one in now.steps if one not in before.steps)
            new = f" (new ones: {near})" if near else ""
            found.append(
                f"the step '{name}' has a state, and the flow has no step of that name any more{new}: call "
                f"one so again by name=, or let the state go by drop_state=['{name}'] (--drop-state '{name}')"
            )
        for what in ("operation", "state", "key"):
            was, is_now = getattr(step, what), getattr(other, what, None)
            if other is not None and was != is_now:
                found.append(
                    f"the step '{name}': its {_WORDS[what]} was {was} and is {is_now} now, so its state "
                    f"would be misread: change it back, give the step another name and drop the old one "
                    f"(--drop-state '{name}'), or start under another flow name"
                )
    return found


def as_known(
    jobs: Sequence[Job], known: Mapping[str, Description], drop: Collection[str]
) -> tuple[list[Job], list[str]]:
    """The jobs under the names that they were known by, and the known ones whose states are all dropped.

    A job is known by its steps and by the streams that it writes, whatever it writes first now.
    `UsageError`: there are states that belong to none of them any more.
    """
    free = {name: one for name, one in known.items() if name not in {job.name for job in jobs}}
    found = []
    for job in jobs:
        mine = {*job.stateful, *job.streams}
        shared = {name: len(mine & {*one.steps, *one.streams}) for name, one in free.items()}
        best = max(shared, key=lambda name: shared[name], default="")
        if job.name not in known and best and shared[best]:
            del free[best]
            found.append(replace(job, name=best))
        else:
            found.append(job)
    left = {step: name for name, one in free.items() for step in one.steps if step not in drop}
    if left:
        text = "\n".join(f"  '{step}', of job '{name}'" for step, name in left.items())
        raise UsageError(
            f"these steps have states, and the flow has none of them any more:\n{text}\n"
            "Bring them back under these names, or let their states go: drop_state=[…] (--drop-state)"
        )
    return found, [name for name, one in free.items() if one.steps]


def moves(before: Description, now: Description) -> bool:
    """Whether states have to go elsewhere: to other pages, or to other levels."""
    same = {name: step.level for name, step in before.steps.items() if name in now.steps}
    return (
        before.pages != now.pages
        or before.depth != now.depth
        or any(now.steps[name].level != level for name, level in same.items())
    )


def known_jobs(log: Log, flow: str) -> dict[str, Description]:
    """The jobs of a flow that a log knows."""
    found = {}
    for stream in log.streams(f"_job.{flow}.*"):
        newest = _newest(log, stream)
        if newest is not None:
            found[newest.job] = newest
    return found


def forget(log: Log, jobs: Collection[str]) -> None:
    """Know nothing of some jobs any more."""
    for job in jobs:
        for kind in ("_job", "_plans", "_states"):
            stream = short_name(f"{kind}.{job}")
            if stream in log.streams(stream):
                log.delete(stream)
        log.unpin(job)


def _newest(log: Log, stream: str) -> Description | None:
    first, end = log.ends(stream)[0]
    if end == first:
        return None
    try:
        return _DECODER.decode(next(log.read(stream, 0, end - 1, Limits(records=1)).records()).value)
    except msgspec.DecodeError as error:
        raise Damaged(f"the description of a job, in stream '{stream}', cannot be read: {error}") from None


class JobBook:
    """Where a job's description is kept: in a stream of the log, the newest one counts."""

    def __init__(self, log: Log, job: str) -> None:
        """Read what there is."""
        self._log = log
        self._stream = short_name(f"_job.{job}")
        log.create(self._stream, codec="json", exist_ok=True)
        self._end = log.ends(self._stream)[0][1]
        self.newest = _newest(log, self._stream)

    def store(self, description: Description) -> Description:
        """Keep another, durably; `Conflict`: somebody else did meanwhile."""
        row = (self._log.clock.now_ms(), None, _ENCODER.encode(description), None)
        commit = Commit((Append(self._stream, 0, [row]),), expect=(Expect(self._stream, 0, self._end),))
        durability = Durability.SYNCED if Can.SYNCED in self._log.can else Durability.WRITTEN
        self._end = self._log.commit(commit, durability).placed[0].next
        self.newest = description
        return description


def digest_of(job: Job) -> str:
    """What tells one flow from another that would do something else."""
    digest = hashlib.sha256()
    for node in job.nodes:
        for part in (type(node).__name__, node.name, node.label, named(node.key), named(node.value)):
            digest.update(part.encode() + b"\0")
        digest.update(repr([one.id for one in node.upstream]).encode() + repr(node.on_error).encode())
        for function in _functions(node):
            digest.update(_told(function))
    return digest.hexdigest()[:32]


def _functions(node: Node) -> Iterator[Any]:
    if isinstance(node, Pure | Group):
        yield node.function
    if isinstance(node, Stateful):
        for name in sorted(getattr(node.step, "__dataclass_fields__", {})):
            yield getattr(node.step, name)


def _told(function: object) -> bytes:
    """A function's name and code; of another value, what it looks like if that is always the same."""
    found = b""
    todo, seen = [function], set()
    while todo:
        one = todo.pop()
        if id(one) in seen:  # functions that know each other
            continue
        seen.add(id(one))
        if isinstance(one, partial):
            todo += [one.func, *one.args, *dict(sorted(one.keywords.items())).values()]
        elif isinstance(one, Process):
            todo.append(one._run)
        elif isinstance(one, FunctionType):
            found += qualified_name(one).encode() + _code(one.__code__)
            todo += [cell.cell_contents for cell in one.__closure__ or ()]
            todo += [*(one.__defaults__ or ()), *(one.__kwdefaults__ or {}).values()]
        elif callable(one):
            found += qualified_name(one).encode()
        else:
            found += _constant(one)
    return found


def _code(code: CodeType) -> bytes:
    """What a piece of code does."""
    inner = b"".join(_code(one) if isinstance(one, CodeType) else _constant(one) for one in code.co_consts)
    return code.co_code + inner + repr(code.co_names).encode()


def _constant(value: object) -> bytes:
    simple: tuple[type, ...] = (int, str, float, bytes, type(None))
    if isinstance(value, tuple | frozenset):
        told = map(_constant, value)
        return b"(%b)" % b" ".join(told if isinstance(value, tuple) else sorted(told))
    return repr(value).encode() if isinstance(value, simple) else type(value).__name__.encode()


_WORDS = {"operation": "operation", "state": "type of states", "key": "type of keys"}
_DECODER = msgspec.json.Decoder(Description)
_ENCODER = msgspec.json.Encoder()
