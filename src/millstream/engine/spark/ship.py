"""Shipping: a job with the user's functions, as bytes that Spark's workers make a job of again.

It goes the way that PySpark sends functions (cloudpickle), from the driver to its own workers; nothing that
was kept in a log or a checkpoint is ever read like this. The user's own modules go along whole, so nothing
needs to be installed on workers. msgspec's structs, which cloudpickle cannot send, are described.
"""

from __future__ import annotations

import io
import pickle
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

import msgspec
from pyspark import cloudpickle
from pyspark.cloudpickle import cloudpickle as inner

from millstream.engine.stage.job import Job

_PACKAGE = Path(__file__).parents[2]
_MADE = {
    "__module__",
    "__qualname__",
    "__slots__",
    "__annotations__",
    "__match_args__",
    "__weakref__",
    "__dict__",
}


def packed(job: Job) -> bytes:
    """A job as bytes."""
    file = io.BytesIO()
    with _by_value(job):
        pickler = _Pickler(file)  # type: ignore[no-untyped-call]
        pickler.dump(Job(job.name, job.graph, job.nodes))  # type: ignore[no-untyped-call]
    return file.getvalue()


@lru_cache(maxsize=16)
def unpacked(data: bytes) -> Job:
    """The job again: once for each worker."""
    found = pickle.loads(data)  # noqa: S301 - it comes from this run's own driver
    if not isinstance(found, Job):
        raise TypeError(f"{type(found).__name__} is no job")
    return found


class _Pickler(cloudpickle.Pickler):
    """PySpark's, and structs."""

    def reducer_override(self, obj: Any) -> Any:
        """How to make again what is not found by its name."""
        if isinstance(obj, type) and issubclass(obj, msgspec.Struct) and not _is_found(obj):
            return _struct, _described(obj)
        return super().reducer_override(obj)  # type: ignore[no-untyped-call]


def _is_found(kind: type) -> bool:
    """Whether workers find a class by its name."""
    return bool(inner._should_pickle_by_reference(kind))


def _described(kind: type[msgspec.Struct]) -> tuple[Any, ...]:
    """What it takes to make a struct's class again."""
    hints = get_type_hints(kind, include_extras=True)
    own = [name for name in kind.__annotations__ if name in kind.__struct_fields__]
    known = {field.name: field for field in msgspec.structs.fields(kind)}
    fields = []
    for name in own:
        field = known[name]
        given = {
            what: value
            for what, value in (("default", field.default), ("default_factory", field.default_factory))
            if value is not msgspec.NODEFAULT
        }
        if field.encode_name != name:
            given["name"] = field.encode_name
        fields.append((name, hints[name], given))
    namespace = {
        name: value
        for name, value in vars(kind).items()
        if name not in _MADE and name not in kind.__struct_fields__ and not name.startswith("__struct")
    }
    config = kind.__struct_config__
    options = {
        name: getattr(config, name)
        for name in ("frozen", "eq", "order", "array_like", "gc", "repr_omit_defaults", "omit_defaults")
    } | {
        name: getattr(config, name)
        for name in ("forbid_unknown_fields", "weakref", "dict", "cache_hash", "tag", "tag_field")
    }
    return kind.__name__, kind.__qualname__, kind.__module__, kind.__bases__, fields, namespace, options


def _struct(
    name: str,
    qualname: str,
    module: str,
    bases: tuple[type, ...],
    fields: list[Any],
    namespace: dict[str, Any],
    options: dict[str, Any],
) -> type:
    """A struct's class, from its description."""
    # Which fields may be given by place was settled where it was defined.
    described = [
        (field, kind, msgspec.field(**given)) if given else (field, kind) for field, kind, given in fields
    ]
    made = msgspec.defstruct(name, described, bases=bases, namespace=namespace, module=module, **options)
    made.__qualname__ = qualname
    return made


@contextmanager
def _by_value(job: Job) -> Iterator[None]:
    """Send the user's own modules along, while in here."""
    sent = []
    for module in _users_modules(job):
        with suppress(ValueError):
            cloudpickle.register_pickle_by_value(module)
            sent.append(module)
    try:
        yield
    finally:
        for module in sent:
            cloudpickle.unregister_pickle_by_value(module)


def _users_modules(job: Job) -> list[ModuleType]:
    """The modules in which nodes of the flow were written, and what these import of the user's own."""
    files = {str(Path(node.site.file).resolve()) for node in job.graph.nodes}
    found = {}
    todo = [module for module in list(sys.modules.values()) if _file_of(module) in files]
    while todo:
        module = todo.pop()
        if module.__name__ in found or module.__name__ == "__main__" or not _is_users(module):
            continue
        found[module.__name__] = module
        names = {getattr(value, "__module__", None) for value in list(vars(module).values())}
        inner = [value for value in vars(module).values() if isinstance(value, ModuleType)]
        todo += inner + [sys.modules[name] for name in names if isinstance(name, str) and name in sys.modules]
    return list(found.values())


def _file_of(module: ModuleType) -> str:
    file = getattr(module, "__file__", None)
    return "" if file is None else str(Path(file).resolve())


def _is_users(module: ModuleType) -> bool:
    """Whether a module is neither Python's, nor installed, nor this library."""
    file = _file_of(module)
    if not file:
        return False
    installed = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return not any(Path(file).is_relative_to(Path(path).resolve()) for path in [*installed, str(_PACKAGE)])
