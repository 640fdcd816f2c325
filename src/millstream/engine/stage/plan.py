"""A plan: what an epoch reads, and the clock it goes by; written down before anything of it is done.

>>> plan = Plan(run=1, epoch=3, clock=1_000, flow="f", ranges=(Range("orders", 0, 5, 9),))
>>> decode_plan(encode_plan(plan)) == plan, len(plan.digest)
(True, 16)
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal, NamedTuple, TypeAlias

import msgspec

from millstream.errors import Damaged

Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Signed: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]


# What an epoch is for. Others than "records" come when a run is closed, when states move to other pages, and
# when a lost checkpoint is rebuilt: "muted" writes nothing that was written before.
Kind: TypeAlias = Literal["records", "finish", "export", "import", "muted"]


class Range(msgspec.Struct, frozen=True):
    """Records `start` to `end` of a shard of an input.

    `high` is the largest timestamp before them in the shard, `progress` what is known at their end: that
    nothing older comes. Of a file, `place` is its path and `start_byte` where the first line lies.
    """

    input: str
    shard: Whole
    start: Whole
    end: Whole
    high: Signed | None = None
    progress: Signed | None = None
    since: Signed = 0  # the clock when records came last
    place: str = ""
    start_byte: Whole = 0
    end_byte: Whole = 0


class Redone(NamedTuple):
    """The epoch that a plan does again, after a checkpoint was rebuilt, and the digest of its plan then."""

    epoch: Whole
    digest: bytes


class Plan(msgspec.Struct, frozen=True):
    """What an epoch does. `positions` are the ends of all shards after it, those at rest too."""

    run: Whole
    epoch: Whole
    clock: Signed
    flow: str  # digest of the job's description
    ranges: tuple[Range, ...] = ()
    positions: tuple[Range, ...] = ()
    progress: Signed | None = None  # of all inputs together, at the end of the epoch
    kind: Kind = "records"
    closes: tuple[str, ...] = ()  # the steps that a "finish" closes; none said: all
    redone: Redone | None = None

    @property
    def digest(self) -> bytes:
        """What tells this plan from any other."""
        return hashlib.sha256(encode_plan(self)).digest()[:16]

    @property
    def ticket(self) -> Ticket:
        """What a page is told of it."""
        number, digest = (self.epoch, self.digest) if self.redone is None else self.redone
        return Ticket(self.run, number, self.clock, digest, self.progress, self.kind, self.closes)


class Ticket(msgspec.Struct, frozen=True, array_like=True):
    """What the tasks that do not read know of a plan."""

    run: Whole
    number: Whole  # of the epoch
    clock: Signed
    digest: bytes
    progress: Signed | None
    kind: Kind
    closes: tuple[str, ...] = ()

    def seed(self, job: str, place: str) -> str:
        """Of what chance in one task of the epoch is made."""
        return f"{job} {self.run} {self.number} {place}"


def encode_plan(plan: Plan) -> bytes:
    """As JSON: plans are looked at by people."""
    return _ENCODER.encode(plan)


def decode_plan(data: bytes) -> Plan:
    """A plan again; `Damaged` if it is none."""
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Damaged(f"a plan cannot be read: {error}; start the job again with rebuild") from None


_ENCODER = msgspec.json.Encoder(order="deterministic")
_DECODER = msgspec.json.Decoder(Plan)
