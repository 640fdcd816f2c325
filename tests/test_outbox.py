"""The outbox: against a model of what waits, for every policy and size."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.errors import Closed, Overflow, StoreFailed
from millstream.log import OverflowPolicy, Placed, Sent
from millstream.log.outbox import Bounds, Outbox

STEPS = st.lists(st.sampled_from(["put", "put", "put", "take", "finish", "fail once"]), max_size=60)


@given(
    steps=STEPS,
    policy=st.sampled_from([OverflowPolicy.DROP_NEWEST, OverflowPolicy.DROP_OLDEST, OverflowPolicy.ERROR]),
    buffer=st.integers(1, 6),
    batch=st.integers(1, 4),
)
def test_what_waits_is_what_the_policy_says_and_every_record_is_counted(
    steps: list[str], policy: OverflowPolicy, buffer: int, batch: int
) -> None:
    outbox = Outbox(Bounds(linger_s=0.0, buffer=buffer, batch_records=batch, overflow=policy))
    waiting: deque[int] = deque()
    sent: dict[int, Sent] = {}
    fates: dict[int, str] = {}
    flying: list[int] = []
    outgoing = None
    for number, step in enumerate(steps):
        if step == "put":
            full = len(waiting) == buffer
            try:
                sent[number] = outbox.put((number, b"k", b"v", None), 2)
            except Overflow:
                assert full
                assert policy is OverflowPolicy.ERROR
                continue
            if full and policy is OverflowPolicy.DROP_OLDEST:
                fates[waiting.popleft()] = "dropped_oldest"
            if full and policy is OverflowPolicy.DROP_NEWEST:
                fates[number] = "dropped_newest"
            else:
                waiting.append(number)
        elif step == "take" and waiting and outgoing is None:
            outgoing = outbox.take()
            assert outgoing is not None
            flying = [row[0] for row in outgoing.rows[outgoing.start :]]
            assert flying == [waiting.popleft() for _ in flying]
            assert len(flying) <= batch
        elif outgoing is not None and step in {"finish", "fail once"}:
            failed = step == "fail once"
            outbox.finish(outgoing, StoreFailed("eio") if failed else None)
            fates.update(dict.fromkeys(flying, "records_failed" if failed else "records_acknowledged"))
            flying, outgoing = [], None
    pending = {*waiting, *flying}
    assert {number for number, each in sent.items() if not each.done} == pending
    counts = outbox.statistics()
    assert counts["records_pending"] == len(pending)
    assert counts["records_sent"] == len(sent)
    for fate in ("dropped_oldest", "dropped_newest", "records_failed", "records_acknowledged"):
        assert counts.get(fate, 0) == list(fates.values()).count(fate)


def test_a_failed_outbox_tells_everybody() -> None:
    outbox = Outbox(Bounds(linger_s=0.0))
    flying = outbox.put((0, None, b"v", None), 1)
    assert outbox.take() is not None
    waiting = outbox.put((0, None, b"v", None), 1)
    outbox.fail(StoreFailed("eio"))
    for sent in (flying, waiting):
        with pytest.raises(StoreFailed):
            sent.wait()
    with pytest.raises(StoreFailed):
        outbox.put((0, None, b"v", None), 1)
    assert outbox.take() is None
    assert outbox.pending() == (0, 0)


def test_a_closed_outbox_gives_out_what_it_has_and_takes_nothing_in() -> None:
    outbox = Outbox(Bounds(linger_s=3_600.0))
    sent = outbox.put((0, None, b"v", None), 1)
    outbox.close()
    with pytest.raises(Closed):
        outbox.put((0, None, b"v", None), 1)
    outgoing = outbox.take()
    assert outgoing is not None
    outgoing.place((Placed("s", 0, 3, 4),))
    outbox.finish(outgoing)
    assert sent.wait().seq == 3
    assert repr(sent) == "<Sent done>"
    assert outbox.take() is None
