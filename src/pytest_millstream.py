"""What pytest is given when millstream is installed: logs, a clock, golden outputs, a seed.

    def test_totals(golden):
        golden(run(shop.flow, {"orders": [("ann", 30)]}))

Nothing of millstream is imported before a test asks for a fixture: whoever installs it does not wait
for it in tests of other things.

    memory_log      an empty log in memory
    file_log        an empty log on the disk, in the test's own folder
    manual_clock    the clock of both, which stands still until it is told to go on
    golden          compares a text or what came of a flow with a file beside the test
    flow_seed       a number for `runs(…, seed=flow_seed)`: another one each time, told when a test fails
"""

from __future__ import annotations

import difflib
import os
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from millstream import Log
    from millstream.testing import ManualClock

UPDATE = "MILLSTREAM_UPDATE"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the fixtures."""
    group = parser.getgroup("millstream")
    group.addoption(
        "--update-golden",
        action="store_true",
        help=f"write what the fixture `golden` compares, instead of comparing ({UPDATE}=1 does the same)",
    )
    group.addoption(
        "--flow-seed", type=int, help="what the fixture `flow_seed` gives; default: another number each time"
    )


@pytest.fixture
def manual_clock() -> ManualClock:
    """A clock that stands still: `manual_clock.advance(seconds)`."""
    from millstream.testing import ManualClock

    return ManualClock()


@pytest.fixture
def memory_log(manual_clock: ManualClock) -> Iterator[Log]:
    """An empty log in memory."""
    import millstream

    with millstream.open("memory:", clock=manual_clock) as log:
        yield log


@pytest.fixture
def file_log(tmp_path: Path, manual_clock: ManualClock) -> Iterator[Log]:
    """An empty log on the disk."""
    import millstream

    with millstream.open(f"file:{tmp_path / 'log'}", clock=manual_clock) as log:
        yield log


@pytest.fixture
def flow_seed(request: pytest.FixtureRequest) -> int:
    """A seed for what happens by chance; when the test fails, it is told."""
    given: int | None = request.config.getoption("--flow-seed")
    seed = random.randrange(2**32) if given is None else given  # noqa: S311 - to be repeated
    request.node.add_report_section("call", "flow_seed", f"again with the same: --flow-seed={seed}")
    return seed


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Compare with a file: `golden(made)`, or `golden(made, "name")` where a test compares several things.

    The file is `golden/MODULE/TEST.txt` beside the test's module. `made` is a text, what came of a run,
    or any value.
    """
    folder = request.path.parent / "golden" / request.path.stem
    update = request.config.getoption("--update-golden") or os.environ.get(UPDATE) == "1"
    test = re.sub(r"[^\w.-]+", "-", request.node.name).strip("-")

    def compare(made: object, name: str = "") -> None:
        __tracebackhide__ = True
        file = folder / f"{test}{'.' * bool(name)}{name}.txt"
        text = _text_of(made)
        if update:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            return
        near = os.path.relpath(file, request.config.rootpath)
        how = "look at the change; if it is right, run pytest with --update-golden"
        if not file.exists():
            pytest.fail(f"there is no {near} yet: run pytest with --update-golden\n\n{text}", pytrace=False)
        known = file.read_text(encoding="utf-8")
        if known != text:
            lines = difflib.unified_diff(
                known.splitlines(), text.splitlines(), near, "what is made now", lineterm=""
            )
            pytest.fail(f"{near} is not what is made now: {how}\n\n" + "\n".join(lines), pytrace=False)

    return compare


def _text_of(made: object) -> str:
    """A value as lines of text: of a run each stream, and in it the values of each key."""
    if isinstance(made, str):
        return made if made.endswith("\n") else f"{made}\n"
    outputs = getattr(made, "outputs", None)
    if outputs is None:
        return f"{_shown(made)}\n"
    lines = []
    for stream, keys in outputs().items():
        lines.append(f"[{stream}]")
        for key, values in sorted(keys.items(), key=lambda item: repr(item[0])):
            lines.append(f"  {_shown(key)}")
            lines += [f"    {_shown(value)}" for value in values]
    return "\n".join(lines) + "\n"


def _shown(value: Any) -> str:  # noqa: ANN401 - it is for whatever a flow makes
    """A value as Python writes it; sets are sorted, as their own order is another one in each process."""
    kind = type(value)
    if kind is dict:
        return f"{{{', '.join(f'{_shown(key)}: {_shown(item)}' for key, item in value.items())}}}"
    if kind is set or kind is frozenset:
        inner = f"{{{', '.join(sorted(map(_shown, value)))}}}" if value else ""
        return inner if inner and kind is set else f"{kind.__name__}({inner})"
    if kind is list or kind is tuple:
        inner = ", ".join(map(_shown, value))
        return f"[{inner}]" if kind is list else f"({inner}{',' * (len(value) == 1)})"
    names = getattr(kind, "__struct_fields__", None) or getattr(kind, "__dataclass_fields__", None)
    if not names:
        return repr(value)
    return f"{kind.__qualname__}({', '.join(f'{name}={_shown(getattr(value, name))}' for name in names)})"
