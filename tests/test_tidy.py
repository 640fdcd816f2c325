"""The project's own rules: sizes, banned names with what to use instead, no dead modules, no traces.

Sizes are a ratchet. `tests/tidy.json` may list what is over a limit with the size it has, and a size
that has shrunk must be lowered there; what is not listed keeps the limit.
"""

import ast
import builtins
import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
CODE = ("src", "tests", "bench", "examples")
PACKAGE = "src/millstream/"
SIZES_MAX = {"file lines": 500, "function lines": 60}
NOT_OURS = {".git", ".hypothesis", ".venv", "__pycache__", "build", "dist"}
# Modules that users import by name, and no other module does.
PUBLIC = {"millstream", "millstream.testing.cluster_search", "millstream.testing.strategies"}


class Ban(NamedTuple):
    """Names that code under `where` must not use, what to use instead, and the files that may."""

    names: frozenset[str]
    instead: str
    where: str = PACKAGE
    but: tuple[str, ...] = ()


BANS = {
    "unsafe reading": Ban(
        frozenset({"pickle", "cPickle", "cloudpickle", "dill", "shelve", "marshal"}),
        "what is read from disk is never turned into code: use msgspec or Arrow",
        where="",
        # The first only tries what can be sent; by the second Spark's driver sends functions to its workers.
        but=(f"{PACKAGE}flow/ship.py", f"{PACKAGE}engine/spark/ship.py"),
    ),
    "running text": Ban(frozenset({"eval", "exec"}), "use msgspec, or call the function by its name"),
    "hash": Ban(frozenset({"hash"}), "it differs from process to process: use millstream.keyhash"),
    "time": Ban(
        frozenset(
            {
                "time.time",
                "time.time_ns",
                "time.sleep",
                "datetime.datetime.now",
                "datetime.datetime.utcnow",
                "datetime.datetime.today",
                "datetime.date.today",
            }
        ),
        "use the log's Clock; to wait, an Event or a condition that can be woken",
        but=(f"{PACKAGE}clock.py", f"{PACKAGE}log/file/disk.py"),
    ),
    "print": Ban(frozenset({"print"}), "a library does not print: return it, or use the commands' console"),
    "disk": Ban(
        frozenset(
            {
                "os.fsync",
                "os.fdatasync",
                "os.ftruncate",
                "os.truncate",
                "os.unlink",
                "os.remove",
                "os.rename",
                "os.replace",
                "shutil.rmtree",
            }
        ),
        "use Disk, where tests let it fail",
        but=(f"{PACKAGE}log/file/disk.py",),
    ),
    "sqlite3": Ban(frozenset({"sqlite3"}), "use apsw with the VFS of the Disk, where tests see every call"),
}

ANYWHERE = (".".join("0000"), ":" * 2)  # the addresses that every network reaches
TRACES = {
    "registry": re.compile(r"pypi\.org|pythonhosted\.org|--(?:extra-)?index-url[ =]\S|artifactor[y]", re.I),
    "path of a machine": re.compile(r"(?<![\w.~$}-])/(?:home|root|Users|work|tmp|mnt)/\w"),
}


# -- what the rules find


@cache
def tree_of(text: str) -> ast.Module:
    """The syntax of a file."""
    return ast.parse(text)


def names_used(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every name that code refers to, with its line, written out in full as far as its imports tell."""
    full: dict[str, str] = {name: name for name in dir(builtins)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                full[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                full[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield node.lineno, f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            first, *rest = ast.unparse(node).split(".")
            if first in full:
                yield node.lineno, ".".join([full[first], *rest])


def banned(path: str, text: str) -> list[str]:
    """The banned names that a file uses."""
    found: list[str] = []
    for rule, ban in BANS.items():
        if not path.startswith(ban.where) or path in ban.but:
            continue
        lines = {
            (line, hit)
            for line, name in names_used(tree_of(text))
            for hit in ban.names
            if f"{name}.".startswith(f"{hit}.")
        }
        found += [f"{path}:{line}: {rule}: {hit} - {ban.instead}" for line, hit in sorted(lines)]
    return found


def open_addresses(path: str, text: str) -> list[str]:
    """Where code names the address that every network reaches."""
    return [
        f"{path}:{node.lineno}: address: {node.value} - listen on 127.0.0.1 only"
        for node in ast.walk(tree_of(text))
        if isinstance(node, ast.Constant) and node.value in ANYWHERE
    ]


def sizes(path: str, text: str) -> Iterator[tuple[str, str, int]]:
    """The size of a file, and of each of its functions."""
    yield "file lines", path, text.count("\n")
    for node in ast.walk(tree_of(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield "function lines", f"{path}: {node.name}", (node.end_lineno or 0) - node.lineno + 1


def too_large(path: str, text: str, listed: dict[str, dict[str, int]]) -> list[str]:
    """What is larger than its limit, or than the list lets it be."""
    return [
        f"{name}: {kind}: {size} - split it: at most {listed[kind].get(name, SIZES_MAX[kind])}"
        for kind, name, size in sizes(path, text)
        if size > listed[kind].get(name, SIZES_MAX[kind])
    ]


def slack(files: dict[str, str], listed: dict[str, dict[str, int]]) -> list[str]:
    """What the list allows and nobody needs: such a line must be lowered, or go."""
    found = {(kind, name): size for path, text in files.items() for kind, name, size in sizes(path, text)}
    return [
        f"{name}: {kind}: listed as {size}, and has {actual} - lower it in tests/tidy.json"
        for kind, names in listed.items()
        for name, size in names.items()
        for actual in [found.get((kind, name), 0)]
        if size != actual or actual <= SIZES_MAX[kind]
    ]


def dead_modules(files: dict[str, str], entries: set[str]) -> list[str]:
    """Modules of the package that nothing imports, by statement or by a name in a text."""
    modules = {
        path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", "."): text
        for path, text in files.items()
        if path.startswith(PACKAGE)
    }
    used = entries | {name for name in modules if name.endswith(".__main__")}
    for module, text in modules.items():
        names = {name for _, name in names_used(tree_of(text))} | names_in_texts(tree_of(text))
        for name in names:
            parts = name.split(".")
            prefixes = (".".join(parts[:count]) for count in range(1, len(parts) + 1))
            used |= {prefix for prefix in prefixes if prefix != module}
    dead = sorted(modules.keys() - used)
    return [f"{name}: dead module - import it, name it in PUBLIC, or delete it" for name in dead]


def names_in_texts(tree: ast.AST) -> set[str]:
    """The texts that may name a module, as in a table of what to import when."""
    texts = (n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str))
    return {text for text in texts if re.fullmatch(r"\w+(\.\w+)+", text)}


def traces(path: str, text: str) -> list[str]:
    """Marks that one machine has left in a file."""
    return [
        f"{path}:{number}: {rule} - say it without: {line.strip()[:80]}"
        for number, line in enumerate(text.splitlines(), 1)
        for rule, pattern in TRACES.items()
        if pattern.search(line)
    ]


# -- the project


def all_files() -> dict[str, str]:
    """The texts of the project, by their paths."""
    found = {}
    for path in ROOT.rglob("*"):
        name = path.relative_to(ROOT)
        ours = not any(part in NOT_OURS or part.endswith("_cache") for part in name.parts)
        if ours and path.is_file() and not path.is_symlink():
            found[str(name)] = path.read_text(errors="replace")
    return found


FILES = all_files()
PYTHON = {path: text for path, text in FILES.items() if path.endswith(".py")}
LISTED: dict[str, dict[str, int]] = json.loads((ROOT / "tests/tidy.json").read_text())


def entry_points() -> set[str]:
    """The modules that the package's metadata names."""
    project = tomllib.loads(FILES["pyproject.toml"])["project"]
    groups = [project.get("scripts", {}), *project.get("entry-points", {}).values()]
    return {target.partition(":")[0] for group in groups for target in group.values()}


def assert_none(found: Iterable[str]) -> None:
    lines = list(found)
    assert not lines, "\n" + "\n".join(lines)


def test_code_is_where_the_rules_look_for_it() -> None:
    assert {path.partition("/")[0] for path in PYTHON} <= set(CODE)
    assert len(PYTHON) > 20


def test_nothing_banned_is_used() -> None:
    assert_none(line for path, text in PYTHON.items() for line in banned(path, text))


def test_nothing_listens_to_every_network() -> None:
    assert_none(line for path, text in PYTHON.items() for line in open_addresses(path, text))


def test_files_and_functions_are_small() -> None:
    assert_none(line for path, text in PYTHON.items() for line in too_large(path, text, LISTED))


def test_the_list_of_large_ones_only_shrinks() -> None:
    assert_none(slack(PYTHON, LISTED))


def test_every_module_is_used() -> None:
    assert_none(dead_modules(PYTHON, PUBLIC | entry_points()))


def test_no_machine_left_a_trace() -> None:
    assert_none(line for path, text in FILES.items() for line in traces(path, text))


# -- the rules themselves: a sample that breaks one is caught


@pytest.mark.parametrize(
    ("rule", "sample"),
    [
        ("unsafe reading", "import pickle"),
        ("unsafe reading", "from shelve import open as keep"),
        ("unsafe reading", "import marshal as m\nm.loads(b'')"),
        ("running text", "eval('1')"),
        ("running text", "list(map(exec, []))"),
        ("hash", "shard = hash(b'key') % 8"),
        ("time", "import time\ntime.sleep(1)"),
        ("time", "from time import time as now\nnow()"),
        ("time", "import datetime as dt\ndt.datetime.now(dt.UTC)"),
        ("print", "print('x')"),
        ("disk", "import os\nos.fsync(1)"),
        ("disk", "from os import unlink\nunlink('x')"),
        ("sqlite3", "import sqlite3"),
        ("sqlite3", "from sqlite3 import connect"),
    ],
)
def test_a_banned_name_is_caught(rule: str, sample: str) -> None:
    found = banned(f"{PACKAGE}sample.py", sample)
    assert found
    assert all(f" {rule}: " in line and BANS[rule].instead in line for line in found)


def test_names_that_only_look_banned_are_not_caught() -> None:
    sample = "import time, self_made\nself_made.print(time.monotonic())\nhash_of = self_made.hash\n"
    assert banned(f"{PACKAGE}sample.py", sample) == []


def test_a_seam_may_use_what_it_stands_for() -> None:
    assert banned(f"{PACKAGE}log/file/disk.py", "import os\nos.fsync(1)") == []
    assert banned(f"{PACKAGE}clock.py", "import time\ntime.time()") == []


@pytest.mark.parametrize("address", ANYWHERE)
def test_an_open_address_is_caught(address: str) -> None:
    assert open_addresses("bench/sample.py", f"serve('{address}', 80)")
    assert open_addresses("src/sample.py", "serve('127.0.0.1', 80)") == []


def test_a_large_file_and_a_large_function_are_caught() -> None:
    none: dict[str, dict[str, int]] = {"file lines": {}, "function lines": {}}
    assert too_large("a.py", "x = 1\n" * 500, none) == []
    assert too_large("a.py", "x = 1\n" * 501, none)
    assert too_large("a.py", "class A:\n  def f(self):\n" + "    x = 1\n" * 59, none) == []
    assert too_large("a.py", "class A:\n  def f(self):\n" + "    x = 1\n" * 60, none)


def test_a_listed_size_may_shrink_and_not_grow() -> None:
    listed = {"file lines": {"a.py": 510}, "function lines": {}}
    assert too_large("a.py", "x = 1\n" * 511, listed)
    assert slack({"a.py": "x = 1\n" * 510}, listed) == []
    assert slack({"a.py": "x = 1\n" * 509}, listed)
    assert slack({}, listed)


def test_a_dead_module_is_caught() -> None:
    files = {
        f"{PACKAGE}__init__.py": "from millstream.used import one",
        f"{PACKAGE}used.py": "NAMED = 'millstream.named'",
        f"{PACKAGE}named.py": "import millstream.named",
        f"{PACKAGE}dead.py": "import millstream.dead",
    }
    assert [line.partition(":")[0] for line in dead_modules(files, {"millstream"})] == ["millstream.dead"]


@pytest.mark.parametrize("sample", ["".join(["--index", "-url x"]), "see https://" + "pypi" + ".org/x"])
def test_the_name_of_a_registry_is_caught(sample: str) -> None:
    assert traces("a.md", sample)


@pytest.mark.parametrize("folder", ["home", "root", "Users", "work", "tmp"])
def test_the_path_of_a_machine_is_caught(folder: str) -> None:
    assert traces("a.md", f"open('/{folder}/ann/log')")
    assert traces("a.md", f"src/{folder}/ann") == []
