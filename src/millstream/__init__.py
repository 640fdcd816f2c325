"""Streams: keep them in a log, compute from them with flows, and test both.

>>> import millstream
>>> with millstream.open("memory:") as log:
...     log.create("orders")
...     _ = log.append("orders", b"two apples", key=b"ann")
...     [record.value for record in log.consumer("orders", until="end")]
[b'two apples']
"""

from typing import TYPE_CHECKING

from millstream.log import (
    Append,
    Cleanup,
    Commit,
    Consumer,
    Deliver,
    Durability,
    Expect,
    Fence,
    Finding,
    Limits,
    Log,
    Mark,
    Offset,
    OverflowPolicy,
    Position,
    Producer,
    Receipt,
    RecordId,
    Retention,
    Sent,
    SentBatch,
    Start,
    Step,
    Transaction,
    open,  # noqa: A004 - `millstream.open` is what people will type
    repair,
)
from millstream.record import Record

if TYPE_CHECKING:
    from millstream.flow import (
        Aggregate,
        Branch,
        Flow,
        Grouped,
        Process,
        Stream,
        Table,
        ctx,
        dead_letter,
    )

__all__ = [
    "Aggregate",
    "Append",
    "Branch",
    "Cleanup",
    "Commit",
    "Consumer",
    "Deliver",
    "Durability",
    "Expect",
    "Fence",
    "Finding",
    "Flow",
    "Grouped",
    "Limits",
    "Log",
    "Mark",
    "Offset",
    "OverflowPolicy",
    "Position",
    "Process",
    "Producer",
    "Receipt",
    "Record",
    "RecordId",
    "Retention",
    "Sent",
    "SentBatch",
    "Start",
    "Step",
    "Stream",
    "Table",
    "Transaction",
    "ctx",
    "dead_letter",
    "open",
    "repair",
]


def __getattr__(name: str) -> object:
    """The flow's names, when they are asked for: who only reads and writes a log does not wait for them."""
    if name in _FLOW:
        from millstream import flow

        return getattr(flow, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_FLOW = frozenset(
    {"Aggregate", "Branch", "Flow", "Grouped", "Process", "Stream", "Table", "ctx", "dead_letter"}
)
