"""Pictures of flows, as they are kept in `golden/`; what is drawn where, whatever it is called."""

from __future__ import annotations

import pytest

from millstream.errors import InvalidFlow, WrongType
from millstream.flow import Flow, dead_letter
from tests.flow_build.pictures import FLOWS, add, shop
from tests.golden import assert_golden

FORMS = {"text": "txt", "mermaid": "mmd", "dot": "dot"}


@pytest.mark.parametrize("name", FLOWS)
@pytest.mark.parametrize("form", FORMS)
def test_a_picture_is_as_it_is_kept(name: str, form: str) -> None:
    assert form in {"text", "mermaid", "dot"}
    made = FLOWS[name]().graph(form)  # type: ignore[arg-type]  # it is one of them
    assert_golden(f"tests/flow_build/golden/{name}.{FORMS[form]}", made + "\n")


def test_the_large_one_has_thirty_steps_and_more() -> None:
    assert len(shop().build().nodes) >= 30


def test_describing_is_the_picture_in_text() -> None:
    assert shop().describe() == shop().graph("text")


def test_a_flow_that_cannot_be_run_has_no_picture() -> None:
    with pytest.raises(InvalidFlow, match="nothing is written anywhere"):
        Flow("f").describe()


def test_a_form_that_there_is_not_is_refused_with_those_there_are() -> None:
    with pytest.raises(WrongType, match=r"graph\('svg'\): expected 'text', 'mermaid', 'dot'"):
        shop().graph("svg")  # type: ignore[arg-type]  # it is the mistake


def test_long_lines_are_wrapped_between_steps() -> None:
    flow = Flow("long")
    stream = flow.source("numbers", key=str, value=int)
    for _ in range(20):
        stream = stream.map(abs).filter(bool)
    stream.sink("out")
    lines = flow.describe().splitlines()
    assert all(len(line) <= 100 for line in lines)
    assert " ".join(lines).count("map abs") == 20
    assert all(line.startswith("    > ") for line in lines[2:])


def test_names_are_text_whatever_signs_are_in_them() -> None:
    flow = Flow("f")
    numbers = flow.source("numbers", key=str, value=int).group_by_key()
    numbers.fold(0, add, name='a "b" <c> & #d; `e` \\f').sink("out")
    assert "fold add: a #34;b#34; #60;c#62; #38; #35;d; #96;e#96; \\f" in flow.graph("mermaid").replace(
        "<br>", " "
    )
    assert '\\"b\\" <c> & #d; `e`' in flow.graph("dot").replace("\\n", " ")
    assert "\\\\f" in flow.graph("dot")


def test_errors_of_one_step_have_an_arrow_and_those_of_all_a_note() -> None:
    flow = Flow("f", on_error=dead_letter("dead"))
    numbers = flow.source("numbers", key=str, value=int)
    numbers.map(abs, on_error=dead_letter("special")).filter(bool, on_error="skip").sink("out")
    assert flow.describe() == (
        "flow f (errors to [dead])\n"
        "[numbers] > map abs (errors to [special]) > filter bool (errors are skipped) > [out]"
    )
    assert flow.graph("dot").count("style=dashed") == 2


def test_one_stream_is_one_box_however_often_it_is_used() -> None:
    assert shop().graph("dot").count('"all-orders"') == 1
    assert shop().graph("mermaid").count('"letters"') == 1


def test_what_an_operation_is_made_of_is_not_told() -> None:
    flow = Flow("f")
    maps = flow.source("maps", key=str, value=dict[str, int]).group_by_key().latest()
    maps.map(dict).sum_by_key().sink("sums")
    flow.source("pairs", key=str, value=tuple[int, str]).invert().fold(0, add_pair).sink("out")
    assert flow.describe() == (
        "flow f\n"
        "[maps] > group_by_key > map dict > changes > group_by field > sum_by_key > [sums]\n"
        "[pairs] > invert > fold add_pair > [out]"
    )
    for made in (flow.graph("dot"), flow.graph("mermaid")):
        assert "invert" in made
        assert "with_key" not in made
        assert "rest_of" not in made


def add_pair(total: int, pair: tuple[str, str]) -> int:
    return total + len(pair)
