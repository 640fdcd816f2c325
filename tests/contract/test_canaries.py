"""Rules taken away: the tests of zombies must notice that each is missing."""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

import msgspec
import pytest

import millstream.log.state as states
from millstream.log import Log, Offset
from millstream.log.can import Can
from millstream.log.rules import judge_offset
from tests.contract import test_fence as fences
from tests.contract import test_groups_contract as groups
from tests.manual_clock import ManualClock

Failed = pytest.fail.Exception

pytestmark = pytest.mark.needs(Can.GROUPS, Can.OFFSETS, Can.FENCE)


def _any_owner(offset: Offset, current: int | None, generation: int) -> None:
    judge_offset(msgspec.structs.replace(offset, generation=generation), current, generation)


def _any_fence(*_: object) -> bool:
    return True


def _noticed(rule: str, without: object, test: Callable[[], None]) -> None:
    """The test fails without the rule: what should be refused is not."""
    with mock.patch.object(states, rule, without), pytest.raises(Failed, match="DID NOT RAISE"):
        test()


@pytest.mark.parametrize(
    "zombies",
    [
        groups.test_an_owner_commits_offsets_with_its_generation_and_no_other,
        groups.test_a_member_that_leaves_is_taken_over_from_at_once,
    ],
)
def test_an_owner_whose_generation_is_not_checked_is_noticed(
    log: Log, zombies: Callable[[Log], None]
) -> None:
    _noticed("judge_offset", _any_owner, lambda: zombies(log))


def test_an_owner_that_was_silent_and_is_not_checked_is_noticed(log: Log, clock: ManualClock) -> None:
    silent = groups.test_a_member_that_falls_silent_is_taken_over_from_after_its_lease
    _noticed("judge_offset", _any_owner, lambda: silent(log, clock))


def test_a_fence_that_is_not_checked_is_noticed(log: Log) -> None:
    taken_over = fences.test_taking_a_name_over_fences_the_runs_before
    _noticed("judge_fence", _any_fence, lambda: taken_over(log))
