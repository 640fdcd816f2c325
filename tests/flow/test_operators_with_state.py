"""Steps with state: what each makes of the records under a key, and of None."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from millstream.errors import InvalidFlow, StepFailed, UsageError
from millstream.flow import Branch, Flow, Grouped, Process, Stream, chain, emit, on, skip, step, update
from millstream.testing import explore, run
from tests.flow.laws import Value, table_of, through

Build = Callable[[Grouped[str, Any]], Stream[Any, Any]]


class Account(msgspec.Struct):
    """A state that is changed in place."""

    cents: int = 0
    refused: int = 0


def book(account: Account, cents: int) -> tuple[Account, list[str]]:
    if account.cents + cents < 0:
        account.refused += 1
        return account, [f"refused {cents}"] * account.refused
    account.cents += cents
    return account, []


def test_transform_gives_the_next_state_and_any_number_of_values() -> None:
    records = [("ann", 10), ("ann", -20), ("bob", -1), ("ann", 15), ("ann", -30)]
    found = through(lambda s: s.transform(Account(), book), records)
    assert found == {"ann": ["refused -20", "refused -30", "refused -30"], "bob": ["refused -1"]}


def test_a_first_state_is_each_keys_own() -> None:
    def grown(state: list[int], value: int) -> list[int]:
        state.append(value)
        return state

    zero: list[int] = []
    found = through(lambda s: s.fold(zero, grown), [("x", 1), ("y", 2), ("x", 3)])
    assert found == {"x": [[1], [1, 3]], "y": [[2]]}
    assert zero == []


def test_transform_may_give_a_generator() -> None:
    def counted(state: int, value: int) -> tuple[int, Any]:
        return state + value, (number for number in range(value))

    assert through(lambda s: s.transform(0, counted), [("k", 2), ("k", 0), ("k", 1)]) == {"k": [0, 1, 0]}


def test_fold_gives_every_state() -> None:
    assert through(lambda s: s.fold("", lambda a, b: a + str(b), name="text"), [("k", 1), ("k", None)]) == {
        "k": ["1", "1None"]
    }


def add(state: int, value: int) -> int:
    return state + value


def tell(state: int, value: int) -> str:
    return f"{state} after {value}"


def is_even(state: int, _: Value) -> tuple[int, list[str]]:
    return state, ["even"] if state % 2 == 0 else []


def shout(_: int, text: str) -> str:
    return text.upper()


def test_update_changes_the_state_and_gives_nothing() -> None:
    assert through(lambda s: s.process(0, update(add), name="p"), [("k", 1)]) == {}


def test_emit_gives_one_value_and_leaves_the_state() -> None:
    assert through(lambda s: s.process(5, emit(tell), name="p"), [("k", 1), ("k", 2)]) == {
        "k": ["5 after 1", "5 after 2"]
    }


def test_skip_does_nothing() -> None:
    assert through(lambda s: s.process(0, skip(), name="p"), [("k", 1)]) == {}


def test_chain_gives_the_value_to_each_step_with_the_state_as_it_is_by_then() -> None:
    process = chain(emit(tell), update(add), emit(tell), step(is_even))
    assert through(lambda s: s.process(0, process, name="p"), [("k", 1), ("k", 3)]) == {
        "k": ["0 after 1", "1 after 1", "1 after 3", "4 after 3", "even"]
    }


def test_and_then_gives_each_output_to_another_step() -> None:
    told: Process[int, Any, str] = chain(update(add), emit(tell))
    shouted: Process[int, Any, str] = emit(shout)
    process = told.and_then(chain(shouted, step(is_even)))
    assert through(lambda s: s.process(0, process, name="p"), [("k", 2), ("k", 1)]) == {
        "k": ["2 AFTER 2", "even", "3 AFTER 1"]
    }


def test_chain_and_and_then_are_associative() -> None:
    a: Process[int, Any, Any] = update(add)
    b: Process[int, Any, Any] = emit(tell)
    c: Process[int, Any, Any] = step(is_even)
    records = [("k", number) for number in (1, 2, 5)]

    def found(process: Process[int, Any, Any]) -> object:
        return through(lambda s: s.process(0, process, name="p"), records)

    assert found(chain(a, b, c)) == found(chain(chain(a, b), c)) == found(chain(a, chain(b, c)))
    assert found(chain(b, a, c)) != found(chain(a, b, c))
    first, second, third = chain(update(add), emit(tell)), emit(shout), emit(shout)
    assert found(first.and_then(second).and_then(third)) == found(first.and_then(second.and_then(third)))


def test_on_chooses_a_step_by_the_branch() -> None:
    flow = Flow("on")
    price, order = (flow.source(name, key=str, value=int) for name in ("price", "order"))
    merged = flow.merge(price=price, order=order).group_by_key()
    merged.process(
        0, on(price=update(lambda _, cents: cents), order=emit(lambda cents, n: cents * n)), name="p"
    ).sink("out")
    found = run(flow, {"price": [("figs", 3)], "order": [("figs", 2), ("figs", 5)]})
    assert found.values("out") == [6, 15]


def test_on_says_which_branches_there_are_steps_for() -> None:
    with pytest.raises(UsageError, match=r"no step for Branch\(name='b', value=1\): .* the branches a, c"):
        on(a=skip(), c=skip())(0, Branch("b", 1))


def pure(steps: Build, records: list[tuple[str, Any]]) -> list[Any]:
    return through(steps, records).get("k", [])


def test_aggregates_give_each_update() -> None:
    records = [("k", number) for number in (3, 1, 3)]
    tables: dict[str, tuple[Build, list[Any]]] = {
        "count": (lambda s: s.count().updates(), [1, 2, 3]),
        "sum": (lambda s: s.sum().updates(), [3, 4, 7]),
        "min": (lambda s: s.min().updates(), [3, 1, 1]),
        "max": (lambda s: s.max().updates(), [3, 3, 3]),
        "mean": (lambda s: s.mean().updates(), [3.0, 2.0, 7 / 3]),
        "variance": (lambda s: s.variance().updates(), [0.0, 1.0, pytest.approx(8 / 9)]),
        "top_k": (lambda s: s.top_k(2).updates(), [[3], [3, 1], [3, 3]]),
        "distinct": (lambda s: s.distinct().updates(), [1, 2, 2]),
        "own": (lambda s: s.aggregate(0, add, str).updates(), ["3", "4", "7"]),
    }
    for name, (build, wanted) in tables.items():
        assert (name, pure(build, records)) == (name, wanted)


def test_aggregates_of_a_part_of_the_value() -> None:
    def cents(order: dict[str, int]) -> int:
        return order["cents"]

    records = [("k", {"cents": 5, "n": 1}), ("k", {"cents": 2, "n": 2})]
    assert pure(lambda s: s.sum(cents).updates(), records) == [5, 7]
    assert pure(lambda s: s.top_k(1, cents).updates(), records) == [[{"cents": 5, "n": 1}]] * 2


def test_none_is_counted_and_is_no_smallest() -> None:
    records = [("k", None), ("k", 2), ("k", None)]
    assert pure(lambda s: s.count().updates(), records) == [1, 2, 3]
    assert pure(lambda s: s.min().updates(), records) == [None, 2, 2]
    with pytest.raises(StepFailed, match="the step 'sum'"):
        pure(lambda s: s.sum().updates(), records)


def nan_of_nought(number: int) -> float:
    return number or float("nan")


def test_nan_is_the_smallest_and_largest_from_then_on_and_the_last_of_the_top() -> None:
    records = [("k", 1), ("k", 0), ("k", 2)]
    assert str(pure(lambda s: s.map(nan_of_nought).min().updates(), records)) == "[1, nan, nan]"
    assert str(pure(lambda s: s.map(nan_of_nought).max().updates(), records)) == "[1, nan, nan]"
    assert str(pure(lambda s: s.map(nan_of_nought).top_k(2).updates(), records)[1:]) == "[[1, nan], [2, 1]]"


def test_grouped_gives_lists_of_so_many() -> None:
    records = [("k", 1), ("l", 9), ("k", None), ("k", 3), ("k", 4)]
    assert through(lambda s: s.grouped(2), records) == {"k": [[1, None], [3, 4]]}
    assert through(lambda s: s.grouped(1), records)["k"] == [[1], [None], [3], [4]]


@pytest.mark.parametrize("size", [0, -1, 1.5, True, None])
def test_grouped_refuses_a_size_that_is_none(size: object) -> None:
    with pytest.raises(InvalidFlow, match="expected how many, 1 or more"):
        through(lambda s: s.grouped(size), [])  # type: ignore[arg-type]


def test_latest_keeps_the_latest_and_none_takes_a_key_away() -> None:
    flow = Flow("latest")
    table_of(flow, "in").sink("out")
    found = run(flow, {"in": [("a", 1), ("b", 2), ("a", None), ("c", None), ("b", 3)]})
    assert found.table("out") == {"b": 3}
    assert found.per_key("out") == {"a": [1, None], "b": [2, 3], "c": [None]}


def test_updated_pairs_say_what_was_before_for_steps_that_take_it_back() -> None:
    flow = Flow("pairs")
    pairs: Grouped[str, Any] = table_of(flow, "in").updated_pairs()
    pairs.map(lambda pair: (pair[1] or 0) - (pair[0] or 0), value=int).group_by_key().sum().sink("out")
    found = run(flow, {"in": [("a", 5), ("a", 7), ("a", None), ("a", 2)]})
    assert found.values("out") == [5, 7, 0, 2]


def test_state_is_kept_under_each_key_apart_and_under_none_too() -> None:
    flow = Flow("keys")
    flow.source("in", key=str, value=int).group_by_key().sum().sink("out")
    assert run(flow, {"in": [("a", 1), (None, 5), ("", 7), ("a", 2), (None, 6)]}).per_key("out") == {
        "a": [1, 3],
        None: [5, 11],
        "": [7],
    }


def test_steps_of_one_flow_keep_their_states_apart() -> None:
    flow = Flow("two")
    source = flow.source("in", key=str, value=int).group_by_key()
    source.fold(0, add, name="one").fold(0, add, name="two").sink("out")
    assert run(flow, {"in": [("k", 1), ("k", 1), ("k", 1)]}).values("out") == [1, 3, 6]


def test_an_update_of_an_aggregate_that_is_held_back_is_replaced_by_the_next_and_the_last_comes() -> None:
    flow = Flow("mean")
    flow.source("in", key=str, value=int).group_by_key().mean().map(round, value=int).sink("out")
    found = {tuple(one.values("out")) for one in explore(flow, {"in": [("k", 2), ("k", 4)]})}
    assert found == {(2, 3), (3,)}
