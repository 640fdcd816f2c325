"""The flow in a file: which it is, and what is said when there is none, or one too many."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.cli.flow_file import flow_in
from millstream.errors import UsageError
from tests.cli.flows import shop_in, written

FLOW = "from millstream.flow import Flow\n"


@pytest.fixture(autouse=True)
def modules() -> Iterator[None]:
    """What was imported is forgotten again."""
    known, path = dict(sys.modules), list(sys.path)
    yield
    for name in sys.modules.keys() - known.keys():
        if name in ("shop", "rules", "flow") or name.startswith("flow_"):
            del sys.modules[name]
    sys.path[:] = path


def test_the_one_flow_of_a_file_is_found(tmp_path: Path) -> None:
    flow = flow_in(shop_in(tmp_path))
    assert flow.name == "shop"
    assert sys.modules["shop"].flow is flow


def test_a_flow_with_two_names_is_one(tmp_path: Path) -> None:
    assert flow_in(written(tmp_path, f'{FLOW}flow = Flow("one")\nagain = flow\n')).name == "one"


def test_a_file_may_be_called_like_a_module_that_python_has(tmp_path: Path) -> None:
    import json

    assert flow_in(written(tmp_path, f'{FLOW}flow = Flow("one")\n', "json.py")).name == "one"
    assert sys.modules["json"] is json


def test_of_several_flows_one_is_chosen_by_its_name_or_variable(tmp_path: Path) -> None:
    file = written(tmp_path, f'{FLOW}first = Flow("one")\nsecond = Flow("two")\n')
    assert flow_in(file, "two").name == flow_in(file, "second").name == "two"
    with pytest.raises(UsageError) as several:
        flow_in(file)
    assert "2 flows; say which with --flow NAME" in str(several.value)
    assert "flow.py:2: first = Flow('one')" in str(several.value)
    with pytest.raises(UsageError, match="no flow 'three'; there are:"):
        flow_in(file, "three")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("flow = 3\n", "makes no flow: expected one at its top level"),
        ("x = 1\nif x\n", r"flow.py:2: SyntaxError: expected ':'"),
        ("x = 1\ny = 1 / 0\n", "flow.py:2: ZeroDivisionError: division by zero"),
        ("import not_there_at_all\n", "flow.py:1: ModuleNotFoundError"),
        ("import sys\nsys.exit(3)\n", "flow.py:2: SystemExit: 3"),
        (f'{FLOW}flow = Flow("a b")\n', "flow.py:2: InvalidName"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        flow_in(written(tmp_path, text))


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        flow_in(tmp_path / "flow.py")
    with pytest.raises(UsageError, match=r"must end with \.py"):
        flow_in(written(tmp_path, "", "flow.txt"))
