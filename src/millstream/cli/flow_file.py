"""The flow in a file of the user's: the file is imported, and its flow looked for.

The file's folder goes to the front of `sys.path`, as when Python runs a program, so that it can import what
lies beside it. Workers need none of it: a job is sent to them with the user's modules.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from millstream.errors import UsageError
from millstream.flow.flow import Flow
from millstream.flow.site import Site

EXAMPLE = 'flow = Flow("name")'


def flow_in(file: Path, name: str | None = None) -> Flow:
    """The flow that a file makes; `name` says which, by its own name or that of its variable."""
    module = _imported(file)
    found: dict[int, tuple[str, Flow]] = {}
    for variable, value in vars(module).items():
        if isinstance(value, Flow):
            found.setdefault(id(value), (variable, value))
    flows = list(found.values())
    if not flows:
        raise UsageError(f"{file} makes no flow: expected one at its top level, as in {EXAMPLE}")
    chosen = [one for one in flows if name is None or name in (one[0], one[1].name)]
    if len(chosen) == 1:
        return chosen[0][1]
    lines = "".join(f"\n  {flow._site}: {variable} = Flow('{flow.name}')" for variable, flow in flows)
    if chosen:
        raise UsageError(f"{file} makes {len(chosen)} flows; say which with --flow NAME:{lines}")
    raise UsageError(f"{file} makes no flow '{name}'; there are:{lines}")


def _imported(file: Path) -> ModuleType:
    """The module that a file is."""
    if not file.is_file():
        raise UsageError(f"there is no file {file}: expected a Python file that makes a flow")
    path = file.resolve()
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    taken = path.stem in sys.modules or path.stem in sys.stdlib_module_names
    name = f"flow_{path.stem}" if taken or not path.stem.isidentifier() else path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{file} is no Python file: its name must end with .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise UsageError(f"{_where(error, path)}: {type(error).__name__}: {_said(error)}") from error
    return module


def _where(error: BaseException, path: Path) -> Site:
    """The last line of the user's that led to an error."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return Site(error.filename, error.lineno or 0)
    lines = traceback.extract_tb(error.__traceback__)
    users = [one for one in lines if Path(one.filename).is_relative_to(path.parent)]
    return Site(users[-1].filename, users[-1].lineno or 0) if users else Site(str(path), 1)


def _said(error: BaseException) -> str:
    return error.msg if isinstance(error, SyntaxError) else str(error)
