"""The log: streams kept behind one contract, opened by URL."""

from millstream.log.batch import Batch, Limits
from millstream.log.commit import (
    Append,
    Commit,
    Durability,
    Expect,
    Fence,
    FenceState,
    Mark,
    Offset,
    Placed,
    Receipt,
    Staged,
)
from millstream.log.consumer import Consumer
from millstream.log.cursor import Position
from millstream.log.finding import Finding, Step
from millstream.log.log import Log
from millstream.log.open import open, repair  # noqa: A004 - see `millstream.open`
from millstream.log.options import Deliver, Start
from millstream.log.outbox import OverflowPolicy, Sent, SentBatch
from millstream.log.outgoing import RecordId
from millstream.log.producer import Producer, ProducerOptions
from millstream.log.stream import Cleanup, Description, Retention, Settings
from millstream.log.transaction import Transaction

__all__ = [
    "Append",
    "Batch",
    "Cleanup",
    "Commit",
    "Consumer",
    "Deliver",
    "Description",
    "Durability",
    "Expect",
    "Fence",
    "FenceState",
    "Finding",
    "Limits",
    "Log",
    "Mark",
    "Offset",
    "OverflowPolicy",
    "Placed",
    "Position",
    "Producer",
    "ProducerOptions",
    "Receipt",
    "RecordId",
    "Retention",
    "Sent",
    "SentBatch",
    "Settings",
    "Staged",
    "Start",
    "Step",
    "Transaction",
    "open",
    "repair",
]
