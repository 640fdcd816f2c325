"""Operators: what the steps of a flow mean, as pure functions. One a file; no engine is known here.

>>> from millstream.flow.steps import Grouped
>>> pairs = meaning_of(Grouped(2, flush=False))
>>> pairs.run(["a"], "b")
([], (['a', 'b'],))
"""

from collections.abc import Callable
from typing import Any

from millstream.flow import steps
from millstream.operators.changes import changes
from millstream.operators.combine import combine
from millstream.operators.fold import fold
from millstream.operators.grouped import grouped
from millstream.operators.join_table import join_table
from millstream.operators.join_tables import join_tables
from millstream.operators.latest_view import latest_view
from millstream.operators.meaning import Meaning
from millstream.operators.pairs import pairs
from millstream.operators.pure import Outputs, pure
from millstream.operators.sum_view import sum_view
from millstream.operators.transform import transform

__all__ = ["Meaning", "Outputs", "meaning_of", "pure"]

_MEANINGS: dict[type[steps.Step], Callable[[Any], Meaning]] = {
    steps.Transform: transform,
    steps.Process: transform,
    steps.Fold: fold,
    steps.Combine: combine,
    steps.Grouped: grouped,
    steps.Pairs: pairs,
    steps.JoinTable: join_table,
    steps.JoinTables: join_tables,
    steps.Changes: changes,
    steps.SumView: sum_view,
    steps.LatestView: latest_view,
}


def meaning_of(step: steps.Step) -> Meaning:
    """What a step means."""
    return _MEANINGS[type(step)](step)
