"""Jobs that go on after an edit: other pages, other steps, other code; what would lose states is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

import millstream
from millstream.errors import StepFailed, UsageError
from millstream.flow import Flow
from tests.engine.shop import Order, add, fill, problems, shop

pytestmark = pytest.mark.timeout(300)


def run(flow: Flow, url: str, pages: int = 2, **options: object) -> None:
    """Until the end."""
    flow.run(url, until="end", master="local[2]", pages=pages, **options)


def counted(old: int, _: Order) -> int:
    """How many orders."""
    return old + 1


def listed(old: str, order: Order) -> str:
    """Another type of state."""
    return f"{old}{order.number} "


def totals(name: str = "total", *, step: object = add, zero: object = 0) -> Flow:
    """One step, under a name."""
    flow = Flow("edited")
    orders = flow.source("orders", key=str, value=Order).group_by_key()
    orders.fold(zero, step, name=name).sink("totals")  # type: ignore[arg-type]
    return flow


def latest(log: millstream.Log, stream: str) -> dict[str, object]:
    """The latest value of each key."""
    return {
        (record.key or b"").decode(): msgspec.json.decode(record.value)
        for record in log.consumer(stream, until="end")
    }


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A log with some orders."""
    with millstream.open(f"file:{tmp_path}/log") as log:
        fill(log, 600)
    return f"file:{tmp_path}/log"


def more(url: str, first: int, count: int = 200) -> None:
    """More orders."""
    with millstream.open(url) as log:
        fill(log, count, first=first)


def test_states_move_to_more_pages_and_to_fewer(url: str) -> None:
    done = 600
    for pages in (2, 5, 1):
        run(shop(), url, pages)
        with millstream.open(url) as log:
            assert problems(log, done) == [], pages
        more(url, done)
        done += 200


def test_a_step_may_come_and_go_and_the_others_keep_their_states(url: str) -> None:
    run(totals(), url)
    more(url, 600)
    flow = totals()
    flow.source("orders", key=str, value=Order).group_by_key().fold(0, counted).sink("counts")
    run(flow, url)
    more(url, 800)
    with pytest.raises(UsageError, match=r"'fold counted of orders', of job 'edited.counts'"):
        run(totals(), url)
    run(totals(), url, drop_state=["fold counted of orders"])
    with millstream.open(url) as log:
        expected: dict[str, int] = {}
        for number in range(1_000):
            key = f"c{number % 97}"
            expected[key] = expected.get(key, 0) + number * 7 % 1_000
        assert latest(log, "totals") == expected
        assert sum(map(int, map(str, latest(log, "counts").values()))) == 800


def test_a_step_that_is_called_otherwise_is_refused_with_the_way_out(url: str) -> None:
    run(totals(), url)
    with pytest.raises(UsageError) as told:
        run(totals("sum"), url)
    assert str(told.value) == (
        "job 'edited.totals' cannot go on:\n"
        "  the step 'total' has a state, and the flow has no step of that name any more (new ones: 'sum'): "
        "call one so again by name=, or let the state go by drop_state=['total'] (--drop-state 'total')"
    )
    more(url, 600, 97)
    run(totals("sum"), url, drop_state=["total"])
    with millstream.open(url) as log:
        assert latest(log, "totals")["c0"] == 679 * 7 % 1_000
    more(url, 697, 97)
    for _ in range(2):
        run(totals("sum"), url)  # what was dropped once is not dropped again
    with millstream.open(url) as log:
        assert latest(log, "totals")["c0"] == 679 * 7 % 1_000 + 776 * 7 % 1_000


def test_another_type_of_state_is_refused_and_dropped_on_demand(url: str) -> None:
    run(totals(), url)
    with pytest.raises(UsageError, match=r"its type of states was int and is str now"):
        run(totals(step=listed, zero=""), url)
    with pytest.raises(UsageError, match=r"drop_state names 'totl': there are states of 'total'"):
        run(totals(step=listed, zero=""), url, drop_state=["totl"])
    more(url, 600, 97)
    flow = Flow("edited")
    orders = flow.source("orders", key=str, value=Order).group_by_key()
    orders.fold("", listed, name="total").sink("lists")
    with pytest.raises(UsageError, match=r"its type of states was int"):
        run(flow, url)


def test_an_epoch_under_way_is_not_done_again_by_another_flow(url: str) -> None:
    def failing(old: int, order: Order) -> int:
        if order.number == 599:
            raise ValueError("no such order")
        return old + order.cents

    with pytest.raises(
        StepFailed, match=r"step 'fold failing: total' .* raised ValueError: no such order"
    ) as told:
        run(totals(step=failing), url)
    assert "stream 'orders', shard" in str(told.value)
    assert "key 'c17'" in str(told.value)
    with pytest.raises(UsageError, match=r"stopped in the middle of epoch 0, and the flow has changed"):
        run(totals(), url)
    run(totals(), url, accept_mixed=True)
    with millstream.open(url) as log:
        assert sum(1 for _ in log.consumer("totals", until="end")) == 600


def test_a_record_that_nothing_can_be_made_of_is_skipped_on_demand(url: str) -> None:
    with millstream.open(url) as log:
        placed = log.append("orders", b"no order", key=b"c1", timestamp=10**9, shard=0).placed[0]
    with pytest.raises(StepFailed, match=rf"stream 'orders', shard 0, seq {placed.first}, key 'c1'"):
        run(totals(), url)
    run(totals(), url, skip=[("orders", 0, placed.first)])
    with millstream.open(url) as log:
        assert sum(1 for _ in log.consumer("totals", until="end")) == 600


def test_a_fresh_run_begins_again_with_empty_streams(url: str) -> None:
    run(shop(), url)
    more(url, 600)
    run(shop(), url, fresh=True)
    with millstream.open(url) as log:
        assert problems(log, 800) == []


def test_a_lost_checkpoint_of_few_epochs_is_done_again_exactly(url: str, tmp_path: Path) -> None:
    run(shop(), url)
    shutil.rmtree(tmp_path / "log.jobs")
    more(url, 600)
    run(shop(), url)
    with millstream.open(url) as log:
        assert problems(log, 800) == []
