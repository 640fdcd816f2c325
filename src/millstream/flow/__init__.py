"""Flows: what is computed from streams, described in a few lines and run by any engine.

>>> from millstream.flow import Flow
>>> flow = Flow("sales")
>>> orders = flow.source("orders", key=str, value=int)
>>> orders.filter(lambda cents: cents > 0).group_by_key().sum().sink("totals")
>>> print(flow.describe())
flow sales
[orders] > filter lambda > group_by_key > sum > [totals]
"""

from millstream.flow.aggregate import Aggregate
from millstream.flow.branch import Branch
from millstream.flow.context import ctx
from millstream.flow.flow import Flow, dead_letter
from millstream.flow.graph import Graph
from millstream.flow.process import Process, chain, emit, on, skip, step, update
from millstream.flow.stream import Grouped, Stream
from millstream.flow.table import Table

__all__ = [
    "Aggregate",
    "Branch",
    "Flow",
    "Graph",
    "Grouped",
    "Process",
    "Stream",
    "Table",
    "chain",
    "ctx",
    "dead_letter",
    "emit",
    "on",
    "skip",
    "step",
    "update",
]
