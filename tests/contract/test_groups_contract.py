"""Groups: members share shards, leave, fall silent and are taken over from; the clock is moved by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.errors import Fenced, InvalidName, ShardOutOfRange, WrongType
from millstream.log import Append, Commit, Log, Offset
from millstream.log.can import Can
from millstream.log.group import Assignment, Place
from tests.contract.looking import refused, rows
from tests.contract.stores import Store
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.needs(Can.GROUPS, Can.OFFSETS)
LEASE = 10.0


def places(assignment: Assignment) -> set[Place]:
    return {(owned.stream, owned.shard) for owned in assignment.owned}


def beat(log: Log, member: str, *released: Place, streams: tuple[str, ...] = ("orders",)) -> Assignment:
    return log.heartbeat("g", member, streams, lease=LEASE, released=released)


def offset(assignment: Assignment, shard: int, expected: int | None, seq: int) -> Commit:
    """A commit of an offset by the owner of a shard, with the generation it was given."""
    (generation,) = [owned.generation for owned in assignment.owned if owned.shard == shard]
    return Commit(offsets=(Offset("g", "orders", shard, expected, seq, generation),))


def test_a_member_alone_owns_everything(log: Log) -> None:
    log.create("orders", shards=3)
    alone = beat(log, "a")
    assert places(alone) == {("orders", 0), ("orders", 1), ("orders", 2)}
    assert (alone.release, alone.members) == ((), 1)
    assert beat(log, "a") == alone


def test_a_shard_moves_only_when_its_owner_lets_go_of_it(log: Log) -> None:
    log.create("orders", shards=2)
    before = beat(log, "a")
    assert places(beat(log, "b")) == set()
    asked = beat(log, "a")
    assert (places(asked), asked.members) == (places(before), 2)
    (given_up,) = asked.release
    after = beat(log, "a", given_up)
    assert places(after) == places(before) - {given_up}
    assert (places(beat(log, "b")), after.release) == ({given_up}, ())


def test_an_owner_commits_offsets_with_its_generation_and_no_other(log: Log) -> None:
    log.create("orders", shards=2)
    log.commit(Commit(records=(Append("orders", 0, rows(b"a", b"b")), Append("orders", 1, rows(b"c")))))
    first = beat(log, "a")
    log.commit(offset(first, 0, None, 1))
    beat(log, "b")
    (given_up,) = beat(log, "a").release
    beat(log, "a", given_up)
    second = beat(log, "b")
    with refused(log, Fenced, "does not own the shard any more", "group 'g'"):
        log.commit(offset(first, given_up[1], log.offsets("g").get(given_up), 1))
    log.commit(offset(second, given_up[1], log.offsets("g").get(given_up), 1))
    with refused(log, Fenced, "generation 0 does not own"):
        log.commit(Commit(offsets=(Offset("g", *given_up, 1, 1),)))


def test_a_member_that_leaves_is_taken_over_from_at_once(log: Log) -> None:
    log.create("orders", shards=2)
    log.append("orders", b"a", shard=0)
    gone = beat(log, "a")
    beat(log, "b")
    log.leave("g", "a")
    left = beat(log, "b")
    assert (places(left), left.members) == ({("orders", 0), ("orders", 1)}, 1)
    with refused(log, Fenced, "does not own"):
        log.commit(offset(gone, 0, None, 1))
    log.commit(offset(left, 0, None, 1))


def test_leaving_a_group_that_one_is_not_in_is_fine(log: Log) -> None:
    log.create("orders")
    log.leave("g", "a")
    alone = beat(log, "a")
    log.leave("g", "b")
    assert beat(log, "a") == alone


def test_a_member_that_falls_silent_is_taken_over_from_after_its_lease(log: Log, clock: ManualClock) -> None:
    log.create("orders", shards=2)
    log.append("orders", b"a", shard=0)
    silent = beat(log, "a")
    clock.forward(LEASE - 1)
    assert places(beat(log, "b")) == set()
    log.commit(offset(silent, 0, None, 0))
    clock.forward(1)
    alone = beat(log, "b")
    assert (places(alone), alone.members) == ({("orders", 0), ("orders", 1)}, 1)
    with refused(log, Fenced, "does not own"):
        log.commit(offset(silent, 0, 0, 1))
    log.commit(offset(alone, 0, 0, 1))


def test_a_member_that_comes_back_late_owns_nothing_that_others_took(log: Log, clock: ManualClock) -> None:
    log.create("orders", shards=2)
    beat(log, "a")
    clock.forward(LEASE)
    taken = beat(log, "b")
    late = beat(log, "a")
    assert (places(taken), places(late), late.members) == ({("orders", 0), ("orders", 1)}, set(), 2)
    assert len(beat(log, "b").release) == 1


def test_a_lease_does_not_follow_the_time_of_day(log: Log, clock: ManualClock) -> None:
    log.create("orders", shards=1)
    owner = beat(log, "a")
    clock.now += 10**9
    assert places(beat(log, "b")) == set()
    clock.now -= 2 * 10**9
    assert beat(log, "a") == Assignment(owner.owned, (), 2)


def test_members_may_read_different_streams(log: Log) -> None:
    log.create("orders", shards=2)
    log.create("clicks", shards=2)
    orders, clicks = beat(log, "a"), beat(log, "b", streams=("clicks",))
    assert places(orders) == {("orders", 0), ("orders", 1)}
    assert places(clicks) == {("clicks", 0), ("clicks", 1)}
    both = beat(log, "a", streams=("orders", "clicks"))
    assert (places(both), both.release) == (places(orders), ())


def test_groups_do_not_share_with_each_other(log: Log) -> None:
    log.create("orders", shards=2)
    ours = log.heartbeat("g", "a", ["orders"], lease=LEASE)
    theirs = log.heartbeat("h", "a", ["orders"], lease=LEASE)
    assert places(ours) == places(theirs) == {("orders", 0), ("orders", 1)}
    log.delete_group("h")
    assert beat(log, "a") == ours


def test_shards_that_are_added_are_shared_too(log: Log) -> None:
    log.create("orders", shards=1)
    beat(log, "a")
    log.alter("orders", shards=2)
    assert places(beat(log, "b")) == {("orders", 1)}
    assert places(beat(log, "a")) == {("orders", 0)}


def test_the_description_of_a_stream_names_the_owners(log: Log) -> None:
    log.create("orders", shards=2)
    beat(log, "a")
    (group,) = log.describe("orders").groups
    assert (group.group, group.owners) == ("g", {0: "a", 1: "a"})
    log.leave("g", "a")
    assert log.describe("orders").groups == ()


def test_a_heartbeat_that_is_wrong_is_refused(log: Log) -> None:
    log.create("orders")
    for lease in (0, -1.0, float("nan"), "ten"):
        with refused(log, WrongType, f"lease={lease!r}: expected a positive number of seconds"):
            log.heartbeat("g", "a", ["orders"], lease=lease)  # type: ignore[arg-type]
    with refused(log, InvalidName, "'a/b' cannot be the name of a member"):
        log.heartbeat("g", "a/b", ["orders"], lease=1)
    with refused(log, InvalidName, "'' cannot be the name of a group"):
        log.heartbeat("", "a", ["orders"], lease=1)
    with refused(log, ShardOutOfRange, "'orders' has no shard 5"):
        log.heartbeat("g", "a", ["orders"], lease=1, released=[("orders", 5)])


moves = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["beat", "leave", "silent"])), max_size=25)


@given(st.integers(1, 5), moves)
def test_no_shard_has_two_owners_and_all_have_one_in_the_end(
    store: Store, shards: int, happened: list[tuple[str, str]]
) -> None:
    with store.new() as log:
        clock = log.clock
        assert isinstance(clock, ManualClock)
        log.create("orders", shards=shards)
        generations: dict[int, tuple[int, str]] = {}
        for member, what in happened:
            if what == "silent":
                clock.forward(LEASE)
            elif what == "leave":
                log.leave("g", member)
            else:
                asked = beat(log, member)
                mine = beat(log, member, *asked.release)
                for owned in mine.owned:
                    known, owner = generations.get(owned.shard, (0, ""))
                    assert owned.generation > known or (owned.generation, member) == (known, owner)
                    generations[owned.shard] = owned.generation, member
        for _ in range(3):
            owners = [
                owner for member in "abc" for owner in places(beat(log, member, *beat(log, member).release))
            ]
        assert sorted(owners) == [("orders", shard) for shard in range(shards)]
        counts = [len(places(beat(log, member))) for member in "abc"]
        assert max(counts) - min(counts) <= 1
