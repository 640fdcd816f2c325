"""Where in the user's own files something was written: a line of a flow, or a function of theirs.

>>> def double(number: int) -> int:
...     return 2 * number
>>> function_name(double), function_name(str.upper), function_name(lambda line: line)
('double', 'upper', 'lambda')
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import NamedTuple

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class Site(NamedTuple):
    """A line of a file."""

    file: str
    line: int

    def __str__(self) -> str:
        """As editors and terminals understand it."""
        return f"{_short(self.file)}:{self.line}"


def users_site() -> Site:
    """The line outside of this library that called it."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return Site(frame.f_code.co_filename, frame.f_lineno)


def function_name(function: object) -> str:
    """A function as people call it."""
    if isinstance(function, partial):
        return function_name(function.func)
    name = getattr(function, "__qualname__", None) or type(function).__name__
    name = name.rpartition("<locals>.")[2].rpartition(".")[2]
    return "lambda" if name == "<lambda>" else name


def qualified_name(function: object) -> str:
    """A function as a state is kept under it: with the classes and functions that it stands in.

    >>> qualified_name(str.upper)
    'str.upper'
    """
    if isinstance(function, partial):
        return qualified_name(function.func)
    name: str = getattr(function, "__qualname__", None) or type(function).__qualname__
    return name.replace("<locals>.", "").replace("<lambda>", "lambda")


def function_site(function: object) -> str:
    """A function and where it stands, for an error."""
    if isinstance(function, partial):
        return function_site(function.func)
    name = function_name(function)
    code = getattr(function, "__code__", None)
    return f"{name} ({_short(code.co_filename)}:{code.co_firstlineno})" if code is not None else name


def is_nameless(function: object) -> bool:
    """Whether a function has no name of its own to go by."""
    if isinstance(function, partial):
        return is_nameless(function.func)
    return "<lambda>" in (getattr(function, "__qualname__", None) or type(function).__qualname__)


def _short(file: str) -> str:
    """A path as seen from here, if that is shorter."""
    near = os.path.relpath(file) if os.path.isabs(file) else file
    return near if len(near) < len(file) else file
