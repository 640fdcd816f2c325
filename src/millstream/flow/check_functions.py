"""What is wrong with the functions of a flow: they must be callable, fit what they are given, and travel."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, get_type_hints

from millstream.codec.kind import named
from millstream.errors import shown
from millstream.flow.branch import Branch
from millstream.flow.kinds import clash, item_of, without_none
from millstream.flow.node import Generated, Group, Merge, Node, Pure, Source, Stateful
from millstream.flow.process import Process as Composed
from millstream.flow.ship import cannot_ship
from millstream.flow.site import function_site
from millstream.flow.steps import Combine, Fold, Process, Transform


class Use(NamedTuple):
    """A function, what it is given and what is wanted of it."""

    operation: str
    function: Any
    given: tuple[tuple[str, Any], ...]  # what each argument is, and its type
    wanted: Any = Any
    inside: Callable[[Any], Any] = lambda found: found  # what of its result is wanted


def functions_of(node: Node) -> Iterator[str]:
    """What is wrong with the functions of a node, by themselves and with what they are given."""
    for use in _uses(node):
        if not callable(use.function):
            yield f"{use.operation}({shown(use.function)}): expected a function"
            continue
        if inspect.iscoroutinefunction(use.function):
            yield f"{use.operation}: {function_site(use.function)} is async; expected a plain function"
            continue
        said = _said(use.function)
        wrong = _wrong_number(use, said) or _wrong_types(use, said) or _wrong_result(use, said)
        if wrong:
            yield wrong
    if isinstance(node, Stateful) and isinstance(node.step, Process):
        yield from _wrong_branches(node, node.step.run)


def shippable(node: Node) -> Iterator[str]:
    """What of a node's functions cannot be sent to another process."""
    functions = [use.function for use in _uses(node) if callable(use.function)]
    if isinstance(node, Stateful) and isinstance(node.step, Combine) and node.step.title:
        step = node.step
        functions = [step.of] if callable(step.of) else [step.lift, step.plus, step.present]
    for function in functions:
        trouble = None if function is None else cannot_ship(function)
        if trouble is not None:
            yield trouble


def _uses(node: Node) -> Iterator[Use]:
    match node:
        case Source(origin=Generated(function)):
            yield Use("generate", function, (("a number", int),), node.value)
        case Pure(function=function) if function is not None:
            operation = node.operation.removesuffix("_table")
            value = Any if operation == "map_batches" else node.upstream[0].value
            wanted = Any if operation in {"filter", "map_batches"} else node.value
            inside = {"flat_map": item_of, "collect": without_none}.get(operation)
            use = Use(operation, function, (("the value", value),), wanted)
            yield use if inside is None else use._replace(inside=inside)
        case Group(function=function) if function is not None:
            yield Use("group_by", function, (("the value", node.upstream[0].value),), node.key)
        case Stateful(step=Fold(function=function)):
            yield Use("fold", function, _state_and_value(node), node.state)
        case Stateful(step=Transform(function=function)):
            yield Use("transform", function, _state_and_value(node), tuple)
        case Stateful(step=Process(function=function)):
            yield Use("process", function, _state_and_value(node))
        case Stateful(step=Combine() as step):
            yield from _combined(node, step)
        case _:
            pass


def _state_and_value(node: Stateful) -> tuple[tuple[str, Any], ...]:
    return ("the state", node.state), ("the value", node.upstream[0].value)


def _combined(node: Stateful, step: Combine) -> Iterator[Use]:
    value = node.upstream[0].value
    if step.of is not None:
        yield Use(step.title, step.of, (("the value", value),))
    elif not step.title:
        yield Use("aggregate", step.plus, (("a value", value), ("a value", value)), node.state)
        if step.present is not None:
            yield Use("aggregate", step.present, (("the sum", node.state),))


class Said(NamedTuple):
    """What a function says of itself."""

    signature: inspect.Signature | None
    takes: Mapping[str, Any]
    gives: Any


def _said(function: Any) -> Said:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in ones do not say
        signature = None
    if isinstance(function, type):
        return Said(signature, {}, function)
    try:
        hints = get_type_hints(function)
    except (TypeError, NameError):  # it does not say, or names what is not there
        hints = {}
    return Said(signature, hints, hints.get("return", Any))


def _wrong_number(use: Use, said: Said) -> str | None:
    try:
        if said.signature is not None:
            said.signature.bind(*use.given)
    except TypeError as error:
        what = " and ".join(what for what, _ in use.given)
        return f"{use.operation} gives {function_site(use.function)} {what}, and it says: {error}"
    return None


def _wrong_types(use: Use, said: Said) -> str | None:
    parameters = said.signature.parameters.values() if said.signature and said.takes else ()
    for (what, kind), parameter in zip(use.given, parameters, strict=False):
        wanted = said.takes.get(parameter.name, Any) if parameter.kind in _BY_PLACE else Any
        if clash(kind, wanted):
            return (
                f"{use.operation}: {function_site(use.function)} takes {named(wanted)}, and {what} that it "
                f"is given is {named(kind)}"
            )
    return None


_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _wrong_result(use: Use, said: Said) -> str | None:
    found = said.gives
    several = {"flat_map": Iterable, "transform": tuple}.get(use.operation, Any)
    if clash(found, several):
        wanted = (
            "several values, as in a list" if several is Iterable else "a pair: the state, and what comes out"
        )
        return f"{use.operation}: {function_site(use.function)} gives {named(found)}; expected {wanted}"
    if use.wanted is not tuple and clash(use.inside(found), use.wanted):
        return (
            f"{use.operation}: {function_site(use.function)} gives {named(use.inside(found))}, and "
            f"{named(use.wanted)} is expected"
        )
    return None


def _wrong_branches(node: Stateful, process: object) -> Iterator[str]:
    """Steps by branch (`on`) that are not those of the merged stream."""
    if not isinstance(process, Composed) or not process.branches:
        return
    source: Node = node.upstream[0]
    while isinstance(source, Group) or (isinstance(source, Pure) and source.operation == "filter"):
        source = source.upstream[0]
    if not isinstance(source, Merge) or not source.branches:
        if source.value is not Any and source.value is not Branch:
            yield (
                f"process: on({_listed(process.branches[0])}) has steps for the branches of a merged stream, "
                f"and the values here are {named(source.value)}: merge streams with names, as in "
                "flow.merge(left=a, right=b)"
            )
        return
    there = frozenset(source.branches)
    for known in process.branches:
        if strange := known - there:
            yield (
                f"process: on({_listed(strange)}): the streams merged at {source.site} have the branches "
                f"{_listed(there)}"
            )
        if missing := there - known:
            yield (
                f"process: on({_listed(known)}) has no step for {_listed(missing)}, merged at {source.site}: "
                f"add one, or {min(missing)}=skip()"
            )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
