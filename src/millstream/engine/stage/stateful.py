"""Stateful steps on blocks: states are read once for each key of a block, and written once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from millstream.codec import named, state_codec
from millstream.codec.same import apart, copier, kept, not_kept
from millstream.engine.stage.block import Block, Key, Keys, Numbers, Values, joined
from millstream.engine.stage.turn import States, Turn, without
from millstream.errors import WrongType, shown
from millstream.flow.graph import Graph
from millstream.flow.node import DeadLetters, Stateful
from millstream.flow.steps import Combine, Fold
from millstream.operators import Meaning, meaning_of

Step: TypeAlias = Callable[[Block, Turn], Block]


class Kept:
    """How the states of one step are kept."""

    def __init__(self, node: Stateful, graph: Graph) -> None:
        """For a step of a flow."""
        self.meaning = meaning_of(node.step)
        self.codec = state_codec(node.state, graph.records)
        self.kind = node.state
        self.zero = kept(self.codec, self.meaning.zero)
        self.copy = copier(node.value, state_codec(node.value, graph.records))

    def get(self, states: States, key: Key) -> Any:
        """A state that nobody else has."""
        data = states.get(key)
        return self.codec.decode(self.zero if data is None else data)

    def encode(self, state: Any) -> bytes:
        """A state as bytes; `WrongType` if it would come back as another."""
        data = self.codec.encode(state)
        try:
            again = self.codec.decode(data)
        except WrongType:
            what = f"the state became {shown(state)}, which is no {named(self.kind)}"
            raise WrongType(f"{what}: say its type with state=") from None
        if again != state or type(again) is not type(state):
            not_kept(state, again)
        return data

    def set(self, states: States, key: Key, state: Any) -> None:
        """Keep a state; one that is as if there were none takes no room."""
        data = self.encode(state)
        states.set(key, None if data == self.zero else data)


class Lively(dict[Key, Any]):
    """The states of one step as objects: each is read when it is asked for first, and written at the end."""

    def __init__(self, node: Stateful, keeps: Kept, states: States) -> None:
        """None was asked for yet."""
        self._node = node
        self._keeps = keeps
        self._states = states
        self._seen: list[tuple[Numbers, Keys]] = []

    def __missing__(self, key: Key) -> Any:
        state = self[key] = self._keeps.get(self._states, key)
        return state

    def saw(self, block: Block) -> None:
        """Remember which records were under which keys."""
        self._seen.append((block.rows, block.keys))

    def settle(self, turn: Turn) -> None:
        """Write them."""
        for key, state in self.items():
            try:
                self._keeps.set(self._states, key, state)
            except WrongType as error:
                row = next(rows[keys.plain().index(key)] for rows, keys in self._seen if key in keys.plain())
                block = Block(np.array([row]), np.zeros(1, np.int64), Keys.same(key, 1), Values([None]))
                turn.fail_at(self._node, error, block, 0, _VALUES)


Loop: TypeAlias = Callable[[Lively, Sequence[Key], Sequence[Any], list[Any]], None]


class _Values:
    def __repr__(self) -> str:
        return "its values of this epoch"


_VALUES = _Values()


def lively(node: Stateful, keeps: Kept, block: Block, turn: Turn) -> Lively:
    """The states of a step in a turn."""
    found = turn.live.get(node.name)
    if not isinstance(found, Lively):
        found = turn.live[node.name] = Lively(node, keeps, turn.states[node.name])
    found.saw(block)
    return found


def stateful_step(node: Stateful, graph: Graph) -> Step:
    """What a stateful step makes of a block, given the states of its page, and at the end of a run."""
    keeps = Kept(node, graph)
    if node.on_error != "fail":
        step = _careful(node, keeps)
    elif isinstance(node.step, Combine):
        step = _combined(node, node.step, keeps)
    else:
        step = _swift(node, keeps)
    if keeps.meaning.finish is None:
        return step

    def finishing(block: Block, turn: Turn) -> Block:
        found = step(block, turn)
        if node.name not in turn.finish:
            return found
        turn.settle()
        return joined([found, *_finished(node, keeps, turn)])

    return finishing


def _swift(node: Stateful, keeps: Kept) -> Step:
    """Where any failure fails the epoch: states stay objects until the block is through."""
    loop = _fold_loop(node.step, keeps) if isinstance(node.step, Fold) else _loop(keeps.meaning, keeps)

    def step(block: Block, turn: Turn) -> Block:
        found: list[Any] = []
        _run(node, block, turn, loop, lively(node, keeps, block, turn), found)
        if isinstance(node.step, Fold):
            return block.with_values(found)
        return block.spread(list(map(len, found)), list(chain.from_iterable(found)))

    return step


def _run(node: Stateful, block: Block, turn: Turn, loop: Loop, live: Lively, found: list[Any]) -> None:
    """Go through a block; `found` tells how far it has come."""
    values = block.values.objects or []
    try:
        loop(live, block.keys.plain(), values, found)
    except Exception as error:  # noqa: BLE001 - whatever the user's function raises
        turn.fail_at(node, error, block, len(found), values[len(found)])


def _fold_loop(step: Fold, keeps: Kept) -> Loop:
    function, copy = step.run, keeps.copy

    def loop(live: Lively, keys: Sequence[Key], values: Sequence[Any], found: list[Any]) -> None:
        append = found.append
        for key, value in zip(keys, values, strict=True):
            live[key] = state = function(live[key], value)
            append(state)

    def copying(live: Lively, keys: Sequence[Key], values: Sequence[Any], found: list[Any]) -> None:
        for key, value in zip(keys, values, strict=True):
            live[key] = state = function(live[key], value)
            found.append(copy(state))  # type: ignore[misc]  # it is there where this loop is taken

    return loop if copy is None else copying


def _loop(meaning: Meaning, keeps: Kept) -> Loop:
    run, copy = meaning.run, keeps.copy

    def loop(live: Lively, keys: Sequence[Key], values: Sequence[Any], found: list[Any]) -> None:
        for key, value in zip(keys, values, strict=True):
            live[key], outputs = run(live[key], value)
            found.append(outputs if copy is None else list(map(copy, outputs)))

    return loop


def _careful(node: Stateful, keeps: Kept) -> Step:
    """Where a record may be left out: each is tried on a state that can be forgotten again."""
    run = keeps.meaning.run
    letters = isinstance(node.on_error, DeadLetters)

    def step(block: Block, turn: Turn) -> Block:
        states = turn.states[node.name]
        found: list[list[Any]] = []
        bad: list[int] = []
        values = block.values.objects or []
        for row, (key, value) in enumerate(zip(block.keys.plain(), values, strict=True)):
            try:
                state, outputs = run(keeps.get(states, key), apart(value) if letters else value)
                keeps.set(states, key, state)
            except Exception as error:  # noqa: BLE001 - whatever the user's function raises
                turn.fail_at(node, error, block, row, value)
                bad.append(row)
            else:
                found.append(list(outputs))
        block = without(block, bad) if bad else block
        return block.spread(list(map(len, found)), list(chain.from_iterable(found)))

    return step


def _combined(node: Stateful, combine: Combine, keeps: Kept) -> Step:
    """An aggregate: of its updates in a block only the last one of each key goes on."""
    present = combine.present
    loops = {partial: _combining(combine, partial=partial) for partial in (False, True)}

    def step(block: Block, turn: Turn) -> Block:
        live = lively(node, keeps, block, turn)
        _run(node, block, turn, loops[block.partial], live, [])
        rows = last_rows(block.keys)
        last = block.take(rows)
        found = [live[key] for key in last.keys.plain()]
        if present is not None:
            found, bad = turn.each(node, last, present, found)
            last = without(last, bad) if bad else last
        if keeps.copy is not None:
            found = list(map(keeps.copy, found))
        return Block(last.rows, last.times, last.keys, Values(found))

    return step


def _combining(combine: Combine, *, partial: bool) -> Loop:
    """The loop that puts the values of each key together; of a `partial` block they are sums already."""
    plus, lift = combine.plus, None if partial else combine.lift

    def loop(live: Lively, keys: Sequence[Key], values: Sequence[Any], found: list[Any]) -> None:
        append = found.append
        for key, value in zip(keys, values, strict=True):
            live[key] = plus(live[key], value if lift is None else lift(value))
            append(None)  # how far it has come

    return loop


def last_rows(keys: Keys) -> Numbers:
    """The last row of each key, in their order."""
    last = np.full(len(keys.unique), -1)
    last[keys.codes] = np.arange(len(keys.codes))
    return np.sort(last[last >= 0])


def _finished(node: Stateful, keeps: Kept, turn: Turn) -> Iterable[Block]:
    """What is left over under each key, when the run is closed."""
    finish = keeps.meaning.finish
    if node.name not in turn.finish or finish is None:
        return
    states = turn.states[node.name]
    keys: list[Key] = []
    found: list[Any] = []
    for key, _ in sorted(states.all(), key=lambda item: item[0] or b""):
        state, outputs = finish(keeps.get(states, key), None)
        keeps.set(states, key, state)
        for value in outputs:
            keys.append(key)
            found.append(value)
    count = len(found)
    yield Block(np.full(count, turn.origins.end), np.zeros(count, np.int64), Keys.of(keys), Values(found))
