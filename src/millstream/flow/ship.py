"""Whether a function can be sent to another process, with all that it captured.

What can be imported there goes by its name. Everything else goes as it is: with the variables that it
took along, and, where it stands in the program that was started, with the globals that it uses.
"""

from __future__ import annotations

import dis
import io
import pickle
import sys
from collections.abc import Iterator
from functools import partial
from inspect import isroutine
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from millstream.flow.site import function_site


def cannot_ship(function: object) -> str | None:
    """What is wrong with sending a function elsewhere; None: nothing."""
    seen: set[int] = set()
    todo: list[tuple[object, object]] = [(function, function)]
    while todo:
        owner, one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        for name, value in _captured(one):
            trouble, functions = _trouble(value)
            if trouble is not None:
                return _said(owner, name, value, trouble)
            todo += [(inner, inner) for inner in functions]
    return None


def _said(owner: object, name: str | None, value: object, trouble: str) -> str:
    if name is None:
        return (
            f"{function_site(owner)} cannot be sent to another process ({trouble}): pass a function that "
            "makes what it needs when it is called"
        )
    return (
        f"{function_site(owner)} captures {name}, a {type(value).__name__}, which cannot be sent to another "
        f"process ({trouble}): make it inside the function"
    )


def _captured(function: object) -> Iterator[tuple[str | None, object]]:
    """What a function has taken along, and by which name; None: the function is the value itself."""
    if isinstance(function, partial):
        yield "the function", function.func
        yield from ((f"argument {place}", value) for place, value in enumerate(function.args, 1))
        yield from ((repr(name), value) for name, value in function.keywords.items())
    elif isinstance(function, FunctionType):
        if not _is_importable(function):
            yield from _taken_along(function)
    elif isinstance(function, MethodType):
        yield "its object", function.__self__
        yield "its function", function.__func__
    elif isroutine(function):
        bound = getattr(function, "__self__", None)
        if not isinstance(bound, ModuleType | type | None):
            yield "its object", bound
    elif not isinstance(function, type):
        yield None, function


def _is_importable(function: FunctionType) -> bool:
    """Whether a function is found by its name wherever its module can be imported."""
    found: object = sys.modules.get(function.__module__)
    if function.__module__ == "__main__":
        return False
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is function


def _taken_along(function: FunctionType) -> Iterator[tuple[str, object]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield repr(name), cell.cell_contents
        except ValueError:  # it has no value yet
            continue
    yield from ((f"default {place}", value) for place, value in enumerate(function.__defaults__ or (), 1))
    yield from ((repr(name), value) for name, value in (function.__kwdefaults__ or {}).items())
    if function.__module__ == "__main__":
        for name in sorted(_globals_of(function.__code__)):
            if name in function.__globals__:
                yield repr(name), function.__globals__[name]


def _globals_of(code: CodeType) -> set[str]:
    """The globals that a piece of code uses, and the functions in it."""
    found = {one.argval for one in dis.get_instructions(code) if one.opname in {"LOAD_GLOBAL", "LOAD_NAME"}}
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            found |= _globals_of(inner)
    return found


def _trouble(value: object) -> tuple[str | None, list[object]]:
    """Why a value cannot be sent, and the functions found in it, which are looked into in turn."""
    probe = _Probe(io.BytesIO())
    try:
        probe.dump(value)
    except Exception as error:  # noqa: BLE001 - whatever the user's own class raises
        return str(error), []
    return None, probe.functions


class _Probe(pickle.Pickler):
    """Pretends to send a value; functions, classes and modules go by name or are looked into."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.functions: list[object] = []

    def reducer_override(self, obj: Any) -> Any:
        """What to send in the place of what pickle itself would not send."""
        if obj is _nothing:
            return NotImplemented
        if isinstance(obj, FunctionType):
            self.functions.append(obj)
        elif not isinstance(obj, type | ModuleType):
            return NotImplemented
        return _nothing, ()


def _nothing() -> None:
    """What stands for a function or a class in a pretended sending."""
