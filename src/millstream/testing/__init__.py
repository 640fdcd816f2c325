"""Testing flows: a model machine that tries what is legal, in milliseconds, without a server.

>>> from millstream.flow import Flow
>>> from millstream.testing import explore, run
>>> flow = Flow("latest")
>>> left, right = (flow.source(name, key=str, value=int) for name in ("left", "right"))
>>> flow.merge(left, right).group_by_key().latest().sink("out")
>>> run(flow, {"left": [("k", 1)], "right": [("k", 2)]}).table("out")
{'k': 2}
>>> sorted(found.table("out")["k"] for found in explore(flow, {"left": [("k", 1)], "right": [("k", 2)]}))
[1, 2]
"""

from millstream.clock import ManualClock
from millstream.testing.explore import Exploration, explore, runs
from millstream.testing.inputs import Inputs
from millstream.testing.produce import Answer, Verdict, can_produce
from millstream.testing.record import In, Out, Poison
from millstream.testing.replay import Replay, replays
from millstream.testing.result import Choice, Result
from millstream.testing.run import run

__all__ = [
    "Answer",
    "Choice",
    "Exploration",
    "In",
    "Inputs",
    "ManualClock",
    "Out",
    "Poison",
    "Replay",
    "Result",
    "Verdict",
    "can_produce",
    "explore",
    "replays",
    "run",
    "runs",
]
