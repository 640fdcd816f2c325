"""Who reads what in a group: any history of beats, releases, leaves and silences keeps the promises."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from millstream.log.membership import Shards, beat, gone, to_release
from millstream.log.state import GroupRow, ShardKey

LEASE = 10.0
NAMES = ["ann", "bob", "cem", "dan"]
STREAMS = ["clicks", "logs", "orders"]


class Step(NamedTuple):
    """What one member does, after so many seconds."""

    member: str
    leaves: bool
    releases: bool
    streams: tuple[str, ...]
    after: float


steps = st.lists(
    st.builds(
        Step,
        st.sampled_from(NAMES),
        leaves=st.sampled_from([False, False, False, True]),
        releases=st.booleans(),
        streams=st.lists(st.sampled_from(STREAMS), min_size=1, unique=True).map(tuple),
        after=st.sampled_from([0.0, 1.0, 6.0, 11.0]),
    ),
    max_size=25,
)
shard_counts = st.fixed_dictionaries({name: st.integers(1, 7) for name in STREAMS})


def shards_of(counts: dict[str, int]) -> Shards:
    return {name: [(STREAMS.index(name), shard) for shard in range(count)] for name, count in counts.items()}


def owned_by(group: GroupRow, member: str) -> set[ShardKey]:
    return {key for key, owner in group.owners.items() if owner.member == member}


def interest(group: GroupRow, member: str, shards: Shards) -> set[ShardKey]:
    return {key for stream in group.members[member].streams for key in shards[stream]}


def histories(found: list[Step], shards: Shards) -> Iterator[tuple[GroupRow, Step, float, GroupRow]]:
    """The group before and after each step, and the time of it."""
    group, now = GroupRow(), 0.0
    for step in found:
        now += step.after
        if step.leaves:
            after = gone(group, step.member, shards)
        else:
            asked = [key for key, owner in to_release(group, shards).items() if owner == step.member]
            released = asked if step.releases else []
            streams = step.streams
            after = beat(
                group, step.member, streams, until=now + LEASE, now=now, shards=shards, released=released
            )
        yield group, step, now, after
        group = after


@given(steps, shard_counts)
def test_every_shard_of_interest_is_owned_by_one_member_that_reads_it(
    found: list[Step], counts: dict[str, int]
) -> None:
    shards = shards_of(counts)
    for _, _, _, group in histories(found, shards):
        wanted = {key for member in group.members for key in interest(group, member, shards)}
        owners = {key: owner.member for key, owner in group.owners.items() if owner.member is not None}
        assert owners.keys() == wanted
        assert all(key in interest(group, member, shards) for key, member in owners.items())


@given(steps, shard_counts)
def test_members_whose_lease_ran_out_are_gone_at_the_next_beat(
    found: list[Step], counts: dict[str, int]
) -> None:
    for _, step, now, group in histories(found, shards_of(counts)):
        if not step.leaves:
            assert all(member.until > now for member in group.members.values())
            assert group.members[step.member].until == now + LEASE


@given(steps, shard_counts)
def test_a_generation_rises_with_every_loss_and_only_then(found: list[Step], counts: dict[str, int]) -> None:
    for before, _, _, group in histories(found, shards_of(counts)):
        for key, was in before.owners.items():
            now = group.owners[key]
            if was.member is None:
                assert now.generation == was.generation
            elif now.member == was.member:
                assert now.generation - was.generation in {0, 1}  # 1: let go of, and given back
            else:
                assert now.generation == was.generation + 1


@given(steps, shard_counts)
def test_a_shard_stays_with_its_owner_until_it_is_let_go_of(
    found: list[Step], counts: dict[str, int]
) -> None:
    shards = shards_of(counts)
    for before, step, now, group in histories(found, shards):
        for key, was in before.owners.items():
            if was.member is None or was.member == step.member:
                continue
            silent = not step.leaves and before.members[was.member].until <= now
            if not silent:
                assert group.owners[key] == was


@given(steps, shard_counts)
def test_after_everybody_released_what_was_asked_the_shares_are_even(
    found: list[Step], counts: dict[str, int]
) -> None:
    shards = shards_of(counts)
    ends = [(now, group) for _, _, now, group in histories(found, shards)]
    now, group = ends[-1] if ends else (0.0, GroupRow())
    names = [name for name, member in group.members.items() if member.until > now]
    for _ in range(len(names) + 1):
        for name in names:
            asked = [key for key, owner in to_release(group, shards).items() if owner == name]
            streams = group.members[name].streams
            group = beat(group, name, streams, until=now + LEASE, now=now, shards=shards, released=asked)
    if names:
        assert to_release(group, shards) == {}
    loads = Counter({name: len(owned_by(group, name)) for name in names})
    for name in names:
        for other in names:
            movable = owned_by(group, name) & interest(group, other, shards)
            assert not movable or loads[name] - loads[other] <= 1


@given(st.integers(1, 4), st.integers(1, 20))
def test_members_with_one_interest_differ_by_at_most_one_shard(members: int, count: int) -> None:
    shards = {"orders": [(0, shard) for shard in range(count)]}
    group = GroupRow()
    for _ in range(2):
        for name in NAMES[:members]:
            asked = [key for key, owner in to_release(group, shards).items() if owner == name]
            group = beat(group, name, ["orders"], until=LEASE, now=0.0, shards=shards, released=asked)
    loads = [len(owned_by(group, name)) for name in NAMES[:members]]
    assert sum(loads) == count
    assert max(loads) - min(loads) <= 1


def test_a_join_asks_for_no_more_shards_than_it_takes() -> None:
    shards = {"orders": [(0, shard) for shard in range(6)]}
    group = beat(GroupRow(), "ann", ["orders"], until=LEASE, now=0.0, shards=shards)
    group = beat(group, "bob", ["orders"], until=LEASE, now=0.0, shards=shards)
    assert len(to_release(group, shards)) == 3
    assert set(to_release(group, shards).values()) == {"ann"}


def test_only_its_owner_can_release_a_shard() -> None:
    shards = {"orders": [(0, 0), (0, 1)]}
    group = beat(GroupRow(), "ann", ["orders"], until=LEASE, now=0.0, shards=shards)
    after = beat(group, "bob", ["orders"], until=LEASE, now=0.0, shards=shards, released=[(0, 0)])
    assert after.owners == group.owners


def test_new_shards_go_to_those_who_have_fewest() -> None:
    group = beat(GroupRow(), "ann", ["orders"], until=LEASE, now=0.0, shards={"orders": [(0, 0)]})
    shards = {"orders": [(0, 0), (0, 1)]}
    group = beat(group, "bob", ["orders"], until=LEASE, now=0.0, shards=shards)
    assert owned_by(group, "bob") == {(0, 1)}
    assert to_release(group, shards) == {}


def test_what_nobody_reads_any_more_has_no_owner() -> None:
    shards = {"orders": [(0, 0)], "logs": [(1, 0)]}
    group = beat(GroupRow(), "ann", ["orders", "logs"], until=LEASE, now=0.0, shards=shards)
    group = beat(group, "ann", ["logs"], until=LEASE, now=0.0, shards=shards)
    assert group.owners[0, 0].member is None
    assert group.owners[0, 0].generation == 2
