"""Flows with mistakes: a function for each kind; what each is told is in `golden/mistakes.txt`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from millstream.flow import Flow, dead_letter, emit, on, skip, update

MISTAKES: dict[str, Callable[[], Any]] = {}
LOCK = threading.Lock()


def mistake(build: Callable[[], Any]) -> Callable[[], Any]:
    """A flow that cannot be built."""
    MISTAKES[build.__name__] = build
    return build


class Order(msgspec.Struct, frozen=True):
    """What most flows here are about."""

    customer: str
    cents: int


class Plain:
    """A class that says nothing of what it holds."""

    def __repr__(self) -> str:
        """Without its address."""
        return "Plain()"


def add(total: int, value: int) -> int:
    """What most folds do."""
    return total + value


def length(text: str) -> int | None:
    """Of a text, if there is any."""
    return len(text) or None


def cents(order: Order) -> int:
    """A field."""
    return order.cents


def untyped(flow: Flow) -> Any:  # noqa: ANN401 - that is what it is for
    """A source of numbers of which type checkers know nothing: the mistakes here are meant for `build`."""
    return flow.source("numbers", key=str, value=int)


def any_flow(name: str) -> Any:  # noqa: ANN401 - as above
    """The same of a flow."""
    return Flow(name)


# -- streams


@mistake
def nothing_at_all() -> Flow:
    return Flow("f")


@mistake
def nothing_is_written() -> Flow:
    flow = Flow("f")
    untyped(flow).map(abs)
    return flow


@mistake
def a_bad_name_of_a_stream() -> Flow:
    flow = Flow("f")
    flow.source("my numbers", value=int).sink("out/of/alphabet")
    return flow


@mistake
def one_stream_written_twice() -> Flow:
    flow = Flow("f")
    numbers = untyped(flow)
    numbers.map(abs).sink("out")
    numbers.sink("out")
    return flow


@mistake
def one_stream_read_with_two_types() -> Flow:
    flow = Flow("f")
    flow.source("orders", key=str, value=Order).sink("a")
    flow.source("orders", key=int, value=str).sink("b")
    return flow


@mistake
def a_stream_written_with_one_type_and_read_with_another() -> Flow:
    flow = Flow("f")
    untyped(flow).sink("middle")
    flow.source("middle", key=str, value=str).sink("out")
    return flow


@mistake
def a_stream_written_in_one_form_and_read_in_another() -> Flow:
    flow = Flow("f")
    untyped(flow).map(lambda value: f"{value}").sink("middle")
    flow.source("middle", key=str, value=str).sink("out")
    return flow


@mistake
def a_sink_of_the_wrong_type() -> Flow:
    flow = Flow("f")
    untyped(flow).sink("out", key=int, value=str)
    return flow


@mistake
def a_cycle_that_is_not_closed() -> Flow:
    flow = Flow("f")
    flow.merge(untyped(flow), flow.cycle("again", key=str, value=int)).sink("out")
    return flow


@mistake
def a_cycle_that_is_not_called_one() -> Flow:
    flow = Flow("f")
    again = flow.source("again", key=str, value=int)
    flow.merge(untyped(flow), again).sink("again")
    return flow


@mistake
def a_cycle_of_two_types() -> Flow:
    flow = Flow("f")
    again = flow.cycle("again", key=str, value=str)
    again.collect(length).sink("again")
    return flow


@mistake
def dead_letters_in_a_stream_of_other_use() -> Flow:
    flow = Flow("f", on_error=dead_letter("out"))
    untyped(flow).map(abs).sink("out")
    return flow


@mistake
def values_that_nothing_can_write() -> Flow:
    flow = Flow("f")
    flow.source("numbers", key=Plain, value=list[Plain]).map(repr).sink("out", value_codec="xml")
    untyped(flow).map(str).sink("more", value_codec="bytes")
    return flow


@mistake
def types_that_are_none() -> Any:  # noqa: ANN401 - as above
    flow = any_flow("f")
    flow.source("a", value="Order").sink("b")
    flow.source("c", key=5, value=None).sink("d")
    flow.source("e", value=dict[str, Callable[[], int]]).sink("f", value="text")
    flow.source("g", value=int, value_codec="str").sink("h")
    flow.source("i", value=Order("ann", 3)).sink("j")
    return flow


# -- streams that meet


@mistake
def a_stream_of_another_flow() -> Flow:
    other = Flow("other")
    theirs: Any = other.source("theirs", key=str, value=int)
    flow = Flow("f")
    flow.merge(untyped(flow), theirs).sink("merged")
    untyped(flow).group_by_key().join(theirs.group_by_key().latest()).sink("joined")
    flow.stream("kept", theirs)
    return flow


@mistake
def a_merge_of_two_types() -> Flow:
    flow = Flow("f")
    flow.merge(untyped(flow), flow.source("orders", key=int, value=Order)).sink("out")
    return flow


@mistake
def a_merge_of_what_is_no_stream() -> Any:  # noqa: ANN401 - as above
    flow = any_flow("f")
    numbers = untyped(flow)
    flow.merge(numbers, "more numbers").sink("a")
    flow.merge(numbers, numbers.group_by_key().latest()).sink("b")
    flow.merge(numbers, left=numbers).sink("c")
    flow.merge().sink("d")
    flow.stream("e", 5).sink("f")
    return flow


@mistake
def a_join_with_what_is_no_table() -> Flow:
    flow = Flow("f")
    numbers = untyped(flow).group_by_key()
    numbers.join(untyped(flow).group_by_key()).sink("a")
    numbers.join("a table").sink("b")
    numbers.latest().join(numbers.latest(), how="outer").sink("c")
    return flow


@mistake
def a_join_of_other_keys() -> Flow:
    flow = Flow("f")
    numbers = untyped(flow).group_by_key()
    numbers.join(numbers.group_by(hash, key=int).count()).sink("out")
    return flow


@mistake
def a_table_used_as_a_stream() -> Flow:
    flow = Flow("f")
    untyped(flow).group_by_key().count().filter(bool).fold(0, add).sink("out")
    return flow


@mistake
def steps_for_branches_that_there_are_not() -> Flow:
    def see(state: int, value: int) -> int:
        return state + value

    flow = Flow("f")
    numbers = untyped(flow).group_by_key()
    merged = flow.merge(left=numbers, right=numbers)
    merged.process(0, on(left=update(see), write=emit(see)), name="a").sink("a")
    merged.filter(bool).process(0, on(left=skip()), name="b").sink("b")
    numbers.process(0, on(left=skip()), name="c").sink("c")
    return flow


# -- steps with state


@mistake
def a_step_with_state_on_an_ungrouped_stream() -> Flow:
    flow = Flow("f")
    untyped(flow).fold(0, add).sink("a")
    (
        untyped(flow)
        .map(abs)
        .count()
        .sink("b")
    )  # fmt: skip
    return flow


@mistake
def a_step_without_a_name() -> Flow:
    flow = Flow("f")
    numbers = untyped(flow).group_by_key()
    numbers.fold(0, lambda total, value: total + value).sink("a")
    numbers.sum(lambda value: value).sink("b")
    numbers.process(0, update(add)).sink("c")
    numbers.fold(0, partial(lambda step, total, value: total + step * value, 2)).sink("d")
    numbers.fold(0, add, name=7).sink("e")
    return flow


@mistake
def two_steps_of_one_name() -> Flow:
    flow = Flow("f")
    numbers = untyped(flow).group_by_key()
    numbers.filter(bool).fold(0, add).sink("a")
    numbers.map(abs).fold(0, add).sink("b")
    numbers.fold(0, max, name="largest").sink("c")
    numbers.fold(1, max, name="largest").sink("d")
    return flow


@mistake
def a_first_state_that_cannot_be_kept() -> Flow:
    def last(_: str | None, value: int) -> str:
        return str(value)

    flow = Flow("f")
    numbers = untyped(flow).group_by_key()
    numbers.fold(None, last).sink("a")
    numbers.fold(Plain(), lambda plain, _: plain, name="plain").sink("b")
    numbers.fold((1, 2), lambda pair, _: pair, name="pair", state=list[int]).sink("c")
    return flow


@mistake
def numbers_that_are_none() -> Any:  # noqa: ANN401 - as above
    flow = any_flow("f")
    flow.clock(every="often").sink("a")
    flow.clock("b", every="0s", shards=0).sink("b")
    untyped(flow).group_by_key().grouped(0).sink("c")
    untyped(flow).group_by_key().top_k(0).sink("d")
    return flow


@mistake
def an_unknown_policy() -> Flow:
    wrong: Any = "ignore"
    flow = Flow("f", on_error=wrong)
    untyped(flow).map(abs, on_error="retry").sink("out")
    return flow


# -- functions


@mistake
def what_is_no_function() -> Flow:
    async def wait(value: int) -> int:
        return value

    flow = Flow("f")
    numbers = untyped(flow)
    numbers.map(5).sink("a")
    numbers.group_by("customer").fold(0, None).sink("b")
    numbers.group_by_key().aggregate(0).sink("c")
    numbers.map(wait).sink("d")
    return flow


@mistake
def a_function_of_other_arguments() -> Flow:
    flow = Flow("f")
    numbers = untyped(flow)
    numbers.map(add).sink("a")
    numbers.group_by_key().fold(0, cents).sink("b")
    numbers.filter(lambda: True).sink("c")
    numbers.map(cents).sink("d")
    orders: Any = flow.source("orders", key=str, value=Order)
    orders.group_by_key().fold(0, add).sink("e")
    return flow


@mistake
def a_function_of_another_result() -> Flow:
    def counted(state: int, _: int) -> int:
        return state + 1

    flow = Flow("f")
    texts: Any = flow.source("texts", key=str, value=str)
    texts.flat_map(length).sink("a")
    texts.map(length, value=str).sink("b")
    texts.group_by(length, key=str).sink("c")
    untyped(flow).group_by_key().transform(0, counted).sink("d")
    return flow


@mistake
def a_function_that_takes_along_what_cannot_travel() -> Flow:
    lock = threading.Lock()

    def guarded(value: int) -> int:
        with lock:
            return value

    def through(value: int) -> int:
        return guarded(value)

    def since(value: int, *, kept: object = LOCK) -> bool:
        return value > 0 and kept is not None

    flow = Flow("f")
    numbers = untyped(flow)
    numbers.map(guarded).sink("a")
    numbers.map(through).sink("b")
    numbers.filter(since).sink("c")
    numbers.map(partial(add, lock)).sink("d")  # type: ignore[arg-type]  # it is the mistake
    numbers.group_by(lambda value: lock.locked() and value, key=bool).sink("e")
    numbers.filter(lock.acquire).sink("f")
    numbers.group_by_key().process(0, on(left=update(lambda s, _: s + lock.locked())), name="g").sink("g")
    numbers.group_by_key().sum(lambda value: value + lock.locked(), name="h").sink("h")
    flow.generate("i", lambda index: index + lock.locked()).sink("i")
    numbers.map_batches(lambda batch: (lock, batch)[1], value=int).sink("j")
    return flow


# -- many at once


@mistake
def many_mistakes_in_one_flow() -> Flow:
    lock = threading.Lock()
    flow = Flow("shop")
    orders: Any = flow.source("orders", key=str, value=Order)
    again = flow.cycle("again", key=str, value=Order)
    flow.source("orders", key=str, value=int).sink("copy")
    orders.fold(0, lambda total, order: total + order.cents).sink("totals")
    orders.map(cents).map(lambda value: (lock, value)[1]).sink("totals")
    flow.merge(orders, again).map(len).sink("a stream", value=int)
    return flow
