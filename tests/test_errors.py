"""The errors: the tree that their module draws is the one it has, and they travel."""

import copy
import inspect
import re
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import Pipe, get_context

import pytest

from millstream import errors
from millstream.errors import (
    Fenced,
    HistoryChanged,
    InvalidFlow,
    MillstreamError,
    SeqPastEnd,
    SeqTrimmed,
    StepFailed,
    UsageError,
)

KINDS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, MillstreamError) and kind.__module__ == errors.__name__
]
SAMPLES: list[MillstreamError] = [
    SeqTrimmed("seq 3 is gone", first=5, missing=2),
    SeqPastEnd("seq 9 lies past the end, 7", end=7),
    HistoryChanged("go back to 4", end=4),
    InvalidFlow("1 thing is wrong", problems=("shop.py:3: no name",)),
    StepFailed("map parse failed", step="map parse", record="seq 3"),
]
SAMPLES += [kind("what happened") for kind in KINDS if kind not in {type(sample) for sample in SAMPLES}]


def drawn() -> dict[str, str]:
    """Each error of the drawing, with the one it hangs from."""
    found: dict[str, str] = {}
    above: list[tuple[int, str]] = [(-1, "Exception")]
    for line in (errors.__doc__ or "").splitlines():
        name = re.match(r"^    ([|` -]*)(\w+)", line)
        if name and name[2] in dir(errors):
            depth = len(name[1])
            above = [(known, parent) for known, parent in above if known < depth]
            found[name[2]] = above[-1][1]
            above.append((depth, name[2]))
    return found


def test_the_tree_in_the_text_is_the_tree_in_the_code() -> None:
    assert drawn() == {kind.__name__: kind.__bases__[0].__name__ for kind in KINDS}
    assert len(KINDS) > 25


def test_a_wrong_call_is_a_value_error_and_the_world_is_not() -> None:
    for kind in KINDS:
        assert issubclass(kind, ValueError) == issubclass(kind, UsageError)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_says_whether_it_may_be_tried_again_and_what_it_is(kind: type[MillstreamError]) -> None:
    assert isinstance(kind.retriable, bool)
    assert not (kind.retriable and issubclass(kind, UsageError))
    assert kind.__doc__


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_stays_what_it_is_when_it_is_copied_or_sent(error: MillstreamError) -> None:
    error.add_note("while reading 'orders'")
    ours, theirs = Pipe()
    with ours, theirs:
        ours.send(error)
        sent = theirs.recv()
    for other in (copy.copy(error), copy.deepcopy(error), sent):
        assert type(other) is type(error)
        assert (str(other), other.args, vars(other)) == (str(error), error.args, vars(error))


def fail(error: MillstreamError) -> None:
    raise error


def test_an_error_comes_back_from_another_process() -> None:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        with pytest.raises(SeqTrimmed, match="is gone") as trimmed:
            pool.submit(fail, SAMPLES[0]).result()
        assert (trimmed.value.first, trimmed.value.missing) == (5, 2)
        with pytest.raises(Fenced, match="replaced"):
            pool.submit(fail, Fenced("run 1 was replaced by run 2")).result()
