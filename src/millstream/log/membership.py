"""Who reads what in a group: shards are shared evenly, and move only when their owner lets go of them.

A lease that has run out, a member that leaves and a shard that is released all free a shard; freeing
it raises its generation, so that what its old owner still commits is refused.

>>> shards = {"orders": [(0, 0), (0, 1)]}
>>> group = beat(GroupRow(), "a", ["orders"], until=10.0, now=0.0, shards=shards)
>>> sorted(key for key, owner in group.owners.items() if owner.member == "a")
[(0, 0), (0, 1)]
>>> group = beat(group, "b", ["orders"], until=10.0, now=0.0, shards=shards)
>>> to_release(group, shards)
{(0, 1): 'a'}
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

import msgspec

from millstream.log.group import Assignment, Owned
from millstream.log.state import GroupRow, Member, Owner, ShardKey, ShardRow, State
from millstream.log.stream import GroupInfo

Shards: TypeAlias = Mapping[str, Sequence[ShardKey]]  # of each stream that exists


def beat(
    group: GroupRow,
    member: str,
    streams: Sequence[str],
    *,
    until: float,
    now: float,
    shards: Shards,
    released: Collection[ShardKey] = (),
) -> GroupRow:
    """The group after a member's heartbeat: leases that ran out are over, and free shards given out."""
    members = {name: other for name, other in group.members.items() if other.until > now}
    members[member] = Member(tuple(streams), until)
    let_go = {key for key in released if key in group.owners and group.owners[key].member == member}
    return _shared(group, members, let_go, shards)


def gone(group: GroupRow, member: str, shards: Shards) -> GroupRow:
    """The group after a member has left."""
    members = {name: other for name, other in group.members.items() if name != member}
    return _shared(group, members, set(), shards)


def to_release(group: GroupRow, shards: Shards) -> dict[ShardKey, str]:
    """Which shards their owners should let go of, so that all have their even share."""
    wanted = _even(group, shards)
    return {
        key: owner.member
        for key, owner in group.owners.items()
        if owner.member is not None and key in wanted and wanted[key] != owner.member
    }


def group_now(state: State, name: str) -> GroupRow:
    """A group; leases of another boot of the machine are over."""
    boot = state.fact.boot
    row = state.groups.get(name, GroupRow(boot))
    if row.boot == boot:
        return row
    over = {member: msgspec.structs.replace(known, until=0.0) for member, known in row.members.items()}
    return GroupRow(boot, over, row.owners)


def shards_of(state: State) -> Shards:
    """The shards of all streams."""
    return {
        name: [(row.id, shard) for shard in range(row.settings.shards)] for name, row in state.streams.items()
    }


def assignment(state: State, group: GroupRow, member: str) -> Assignment:
    """A member's share, as it is told."""
    owned = tuple(
        Owned(state.names[key[0]], key[1], owner.generation)
        for key, owner in sorted(group.owners.items())
        if owner.member == member
    )
    release = to_release(group, shards_of(state))
    return Assignment(
        owned,
        tuple((state.names[key[0]], key[1]) for key in sorted(release) if release[key] == member),
        len(group.members),
    )


def groups_of(state: State, keys: Collection[ShardKey]) -> list[str]:
    """The groups that have committed offsets of some of these shards, or own some."""
    known = {group for group, *key in state.offsets if tuple(key) in keys}
    owning = {
        name
        for name, group in state.groups.items()
        if any(key in keys and owner.member for key, owner in group.owners.items())
    }
    return sorted(known | owning)


def group_info(state: State, name: str, keys: Collection[ShardKey]) -> GroupInfo:
    """A group's place in a stream: what it has not committed counts from the first record on."""
    offsets = {key[1]: state.offsets[name, *key] for key in keys if (name, *key) in state.offsets}
    ends = {key[1]: state.shards.get(key, ShardRow()) for key in keys}
    lag = sum(row.end - max(row.first, offsets.get(shard, 0)) for shard, row in ends.items())
    group = state.groups.get(name, GroupRow())
    owners = {key[1]: group.owners[key].member for key in keys if key in group.owners}
    return GroupInfo(name, offsets, lag, {shard: owner for shard, owner in owners.items() if owner})


def _shared(
    group: GroupRow, members: dict[str, Member], let_go: Collection[ShardKey], shards: Shards
) -> GroupRow:
    """Free what nobody holds any more, then give what is free to those who should have it."""
    owners = {}
    for key, owner in group.owners.items():
        holds = owner.member in members and key not in let_go and _reads(members[owner.member], key, shards)
        free = owner if owner.member is None else Owner(None, owner.generation + 1)
        owners[key] = owner if holds else free
    freed = GroupRow(group.boot, members, owners)
    for key, member in _even(freed, shards).items():
        known = owners.get(key)
        if known is None or known.member is None:
            owners[key] = Owner(member, known.generation if known else 1)
    return msgspec.structs.replace(freed, owners=owners)


def _reads(member: Member, key: ShardKey, shards: Shards) -> bool:
    return any(key in shards.get(stream, ()) for stream in member.streams)


def _even(group: GroupRow, shards: Shards) -> dict[ShardKey, str]:
    """Who should own each shard: as now, but that no two members differ by more than one."""
    readers: dict[ShardKey, list[str]] = {}
    for name in sorted(group.members):
        for stream in group.members[name].streams:
            for key in shards.get(stream, ()):
                readers.setdefault(key, []).append(name)
    load = dict.fromkeys(group.members, 0)
    wanted: dict[ShardKey, str] = {}
    free = []
    for key in sorted(readers):
        owner = group.owners.get(key)
        if owner is not None and owner.member in readers[key]:
            wanted[key] = owner.member
            load[owner.member] += 1
        else:
            free.append(key)
    for key in free:
        wanted[key] = least = min(readers[key], key=lambda name: (load[name], name))
        load[least] += 1
    moved = True
    while moved:
        moved = False
        for key in sorted(wanted, reverse=True):
            least = min(readers[key], key=lambda name: (load[name], name))
            if load[wanted[key]] - load[least] >= 2:
                load[wanted[key]] -= 1
                load[least] += 1
                wanted[key] = least
                moved = True
    return wanted
