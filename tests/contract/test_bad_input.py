"""Bad input: refused whole, with the value, what was expected and what to do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import millstream
from millstream.errors import InvalidName, MillstreamError, ShardOutOfRange, UsageError, WrongType
from millstream.log import Append, Commit, Expect, Fence, Limits, Log, Mark, Offset, Retention
from millstream.log.can import Can
from millstream.record import TIMESTAMP_MS_MAX, TIMESTAMP_MS_MIN
from tests.contract.looking import refused, rows, values
from tests.contract.stores import Store
from tests.manual_clock import ManualClock

NAMES = [
    "",
    ".",
    "..",
    "../orders",
    "a/../../b",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "orders\0",
    "orders\n",
    " orders",
    "a*",
    "a:b",
    "caf\u00e9",
    "\uff21",
    "\u202eorders",
    "\ud800",
    "a" * 250,
    None,
    5,
    b"orders",
    ("orders",),
]


def filled(log: Log) -> None:
    log.create("orders", shards=2)
    log.commit(Commit(records=(Append("orders", 0, rows(b"a", b"b")),)))


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:20])
def test_a_name_outside_of_the_alphabet_is_refused_wherever_it_stands(log: Log, name: str) -> None:
    filled(log)
    x = Append("orders", 0, rows(b"x"))
    words = "[a-zA-Z0-9._-], and not '.' or '..'", "expected 1 to 249 characters"
    with refused(log, InvalidName, f"{name!r}"[:70], "cannot be the name of a stream", *words):
        log.create(name)
    calls: list[tuple[Can, str, Callable[[], object]]] = [
        (Can.FENCE, "fence", lambda: log.take_over(name)),
        (Can.FENCE, "fence", lambda: log.fence(name)),
        (Can.FENCE, "fence", lambda: log.commit(Commit((x,), fence=Fence(name, 0, 0)))),
        (Can.OFFSETS, "group", lambda: log.offsets(name)),
        (Can.OFFSETS, "group", lambda: log.delete_group(name)),
        (
            Can.OFFSETS,
            "group",
            lambda: log.commit(Commit((x,), offsets=(Offset(name, "orders", 0, None, 1),))),
        ),
        (Can.MARKS, "writer", lambda: log.commit(Commit((x,), marks=(Mark("orders", 0, name, 0),)))),
    ]
    for ability, what, call in calls:
        if ability in log.can:
            with refused(log, InvalidName, f"cannot be the name of a {what}", *words):
                call()


def test_a_name_of_a_path_does_not_leave_the_log(store: Store, tmp_path: Path, clock: ManualClock) -> None:
    (tmp_path / "outside").mkdir()
    with store.open(tmp_path, clock) as log:
        log.create("orders")
        before = sorted(path.name for path in tmp_path.rglob("*"))
        for name in ("../outside/stream", f"{tmp_path}/outside/stream", "..", "orders/../../outside/stream"):
            with refused(log, InvalidName):
                log.create(name)
        assert sorted(path.name for path in tmp_path.rglob("*")) == before
        assert not list((tmp_path / "outside").iterdir())


@pytest.mark.parametrize("seq", [-1, True, 1.0, None, "0", 2**62 + 1], ids=repr)
def test_what_is_no_seq_is_refused(log: Log, seq: int) -> None:
    filled(log)
    words = f"={seq!r}: a seq is a whole number from 0 on"
    with refused(log, WrongType, f"from_seq{words}"):
        log.read("orders", 0, seq)
    if Can.TRIM in log.can:
        with refused(log, WrongType, f"to_seq{words}"):
            log.trim("orders", 0, seq)
    if Can.PINS in log.can:
        with refused(log, WrongType, f"seq{words}"):
            log.pin("job", {("orders", 0): seq})
    if Can.OFFSETS in log.can:
        with refused(log, WrongType, f"next{words}"):
            log.commit(Commit(offsets=(Offset("g", "orders", 0, None, seq),)))
    if Can.EXPECT in log.can:
        with refused(log, WrongType, f"expect.seq{words}"):
            log.commit(Commit((Append("orders", 0, rows(b"x")),), expect=(Expect("orders", 0, seq),)))


@pytest.mark.parametrize("shard", [-1, 2, 10**9, True, 1.0, None, "0"], ids=repr)
def test_a_shard_out_of_range_is_refused(log: Log, shard: int) -> None:
    filled(log)
    good = Append("orders", 0, rows(b"x"))
    for call in (
        lambda: log.read("orders", shard, 0),
        lambda: log.seek("orders", shard, 0),
        lambda: log.wait({("orders", shard): 0}, 0),
        lambda: log.commit(Commit(records=(good, Append("orders", shard, rows(b"x"))))),
        lambda: log.commit(Commit(records=(good, Append("orders", shard, [])))),
    ):
        with refused(log, ShardOutOfRange, f"'orders' has no shard {shard!r}: it has 2, 0 to 1"):
            call()


@pytest.mark.parametrize("shards", [0, -1, 10_001, True, 2.0, "2"], ids=repr)
def test_a_number_of_shards_out_of_range_is_refused(log: Log, shards: int) -> None:
    filled(log)
    with refused(log, ShardOutOfRange, f"shards={shards!r}: a stream has 1 to 10000 shards"):
        log.create("more", shards=shards)
    with refused(log, ShardOutOfRange, "shards"):
        log.alter("orders", shards=shards)


RECORDS: list[tuple[object, str]] = [
    (
        (0, None, "text", None),
        "a value must be bytes or None, not str 'text': encode it, as in value='text'.enc",
    ),
    (
        (0, None, 5, None),
        "a value must be bytes or None, not int 5: encode it, or create the stream with an Arrow",
    ),
    ((0, None, bytearray(b"x"), None), "a value must be bytes or None, not bytearray"),
    (
        (0, "key", b"x", None),
        "a key must be bytes or None, not str 'key': encode it, as in key='key'.encode()",
    ),
    ((0, 7, b"x", None), "a key must be bytes or None, not int 7: encode it"),
    (
        (TIMESTAMP_MS_MAX + 1, None, b"x", None),
        "timestamp 253402300800000 is out of range: expected whole mil",
    ),
    (
        (TIMESTAMP_MS_MIN - 1, None, b"x", None),
        "timestamp -62135596800001 is out of range: expected whole mil",
    ),
    ((True, None, b"x", None), "timestamp True is out of range"),
    ((0.0, None, b"x", None), "timestamp 0.0 is out of range"),
    ((None, None, b"x", None), "timestamp None is out of range"),
    ((0, None, b"x", {"h": b"x"}), "headers={'h': b'x'}: expected pairs of str and bytes or None"),
    ((0, None, b"x", (("h", "x"),)), "headers=(('h', 'x'),): expected a mapping, or pairs, of str to bytes"),
    ((0, None, b"x", ((b"h", b"x"),)), "headers=((b'h', b'x'),): expected a mapping, or pairs"),
    ((0, None, b"x", (("\ud800", b"x"),)), "expected a mapping, or pairs, of str to bytes"),
    ((0, None, b"x"), "(0, None, b'x') is no record: expected a tuple (timestamp, key, value, headers)"),
    ("texts", "'texts' is no record"),
    (None, "None is no record"),
]


@pytest.mark.parametrize(("row", "words"), RECORDS, ids=[ascii(row)[:40] for row, _ in RECORDS])
def test_a_record_that_is_wrong_refuses_its_commit(log: Log, row: object, words: str) -> None:
    filled(log)
    appends = Append("orders", 1, rows(b"x")), Append("orders", 0, [*rows(b"y"), row])
    with refused(log, WrongType, words):
        log.commit(Commit(records=appends))


def test_a_record_appended_wrongly_is_refused(log: Log) -> None:
    filled(log)
    calls: list[tuple[dict[str, object], str]] = [
        ({"value": "x"}, "a value must be bytes or None, not str 'x'"),
        ({"value": b"x", "key": "k"}, "a key must be bytes or None, not str 'k'"),
        ({"value": b"x", "key": bytearray(b"k")}, "a key must be bytes or None, not bytearray"),
        ({"value": b"x", "timestamp": 1.5}, "timestamp 1.5 is out of range"),
        ({"value": b"x", "headers": "ab"}, "headers='ab': expected a mapping"),
        ({"value": b"x", "headers": {"h": "x"}}, "headers={'h': 'x'}: expected a mapping"),
        ({"value": b"x", "headers": 5}, "headers=5: expected a mapping"),
        ({"value": b"x", "durability": "forever"}, "durability='forever': expected 'fire' or 'written' or"),
    ]
    for given, words in calls:
        with refused(log, WrongType, words):
            log.append("orders", **given)  # type: ignore[arg-type]
    log.append("orders", b"good", headers={"h": b"x"}, shard=1)
    log.append("orders", b"good", headers=[("h", None)], shard=1)
    assert values(log, "orders", 1) == [b"good", b"good"]


def test_records_that_are_no_list_are_refused(log: Log) -> None:
    filled(log)
    for wrong in ((row for row in rows(b"x")), {1: rows(b"x")}, 5, None):
        with refused(
            log, WrongType, "expected rows (timestamp, key, value, headers) in a list or tuple, or a py"
        ):
            log.commit(Commit(records=(Append("orders", 0, wrong),)))


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (Limits(records=0), "limits.records=0: expected a whole number from 1"),
        (Limits(bytes=0), "limits.bytes=0: expected a whole number from 1"),
        (Limits(records=-5), "limits.records=-5"),
        (Limits(records=2.0), "limits.records=2.0"),  # type: ignore[arg-type]
        (Limits(bytes=2**70), "limits.bytes="),
        (10, "limits=10: expected a millstream.Limits"),
    ],
    ids=repr,
)
def test_limits_that_are_none_are_refused(log: Log, limits: Limits, words: str) -> None:
    filled(log)
    with refused(log, WrongType, words):
        log.read("orders", 0, 0, limits)


SETTINGS: list[tuple[dict[str, object], type[MillstreamError], str]] = [
    ({"retention": Retention(age_ms=-1)}, WrongType, "retention.age_ms=-1: expected a whole number from 1"),
    ({"retention": Retention(bytes=0)}, WrongType, "retention.bytes=0"),
    ({"retention": Retention(records=True)}, WrongType, "retention.records=True"),
    ({"retention": 5}, WrongType, "retention=5: expected a millstream.Retention"),
    ({"cleanup": "shred"}, WrongType, "cleanup='shred': expected 'delete' or 'compact'"),
    ({"tombstones_ms": 0}, WrongType, "tombstones_ms=0: expected a whole number from 1"),
]


@pytest.mark.parametrize(("given", "error", "words"), SETTINGS, ids=[case[2][:30] for case in SETTINGS])
def test_settings_that_are_wrong_are_refused(
    log: Log, given: dict[str, object], error: type[MillstreamError], words: str
) -> None:
    filled(log)
    with refused(log, error, words):
        log.create("more", **given)  # type: ignore[arg-type]
    with refused(log, error, words):
        log.alter("orders", **given)  # type: ignore[arg-type]
    with refused(log, InvalidName, "'no codec' cannot be the name of a codec"):
        log.create("more", codec="no codec")


@pytest.mark.needs(Can.FENCE)
def test_a_fence_that_is_wrong_is_refused(log: Log) -> None:
    filled(log)
    for fence, words in [
        (Fence("sink", -1, 0), "run=-1"),
        (Fence("sink", 0, 1.0), "number=1.0"),  # type: ignore[arg-type]
        (Fence("sink", 0, 0, "digest"), "a digest must be bytes"),  # type: ignore[arg-type]
        (Fence("sink", 0, 0, b"", 5), "a position must be bytes"),  # type: ignore[arg-type]
    ]:
        with refused(log, WrongType, words):
            log.commit(Commit((Append("orders", 0, rows(b"x")),), fence=fence))


@pytest.mark.needs(Can.MARKS)
def test_a_mark_that_is_no_time_is_refused(log: Log) -> None:
    filled(log)
    for progress in (TIMESTAMP_MS_MAX + 1, True, 1.5, "now"):
        with refused(log, WrongType, f"timestamp {progress!r} is out of range"):
            log.commit(
                Commit((Append("orders", 0, rows(b"x")),), marks=(Mark("orders", 0, "w", progress),))  # type: ignore[arg-type]
            )


ODD = [
    None,
    5,
    1.5,
    float("nan"),
    "x",
    b"x",
    [],
    ["x"],
    [("orders", 0, 1)],
    {"x": 1},
    {("orders", 0): "x"},
    object(),
]


def some(odd: Any) -> Any:  # noqa: ANN401 - whatever it is
    """It, or what is not empty either."""
    return odd or 1.5


CALLS: dict[str, Callable[[Log, Any], object]] = {
    "settings": lambda log, odd: log.settings(odd),
    "describe": lambda log, odd: log.describe(odd),
    "streams": lambda log, odd: log.streams(odd),
    "append": lambda log, odd: log.append(odd, b""),
    "producer": lambda log, odd: log.producer(odd),
    "consumer": lambda log, odd: log.consumer(odd),
    "until": lambda log, odd: log.consumer("orders", until=odd or "x"),
    "commit": lambda log, odd: log.commit(odd),
    "records": lambda log, odd: log.commit(Commit(records=some(odd))),
    "staged": lambda log, odd: log.commit(Commit(staged=(odd,))),
    "offsets": lambda log, odd: log.commit(Commit(offsets=(odd,))),
    "expect": lambda log, odd: log.commit(Commit(expect=(odd,))),
    "marks": lambda log, odd: log.commit(Commit(marks=(odd,))),
    "fence": lambda log, odd: log.commit(Commit(fence=some(odd))),
    "wait": lambda log, odd: log.wait(some(odd)),
    "pin": lambda log, odd: log.pin("audit", some(odd)),
    "released": lambda log, odd: log.heartbeat("g", "m", ["orders"], lease=1, released=some(odd)),
    "seek": lambda log, odd: log.consumer("orders").seek("orders", 0, millstream.Position(some(odd))),
}
FINE = [("streams", "x"), ("seek", 5), ("released", {("orders", 0): "x"})]


@pytest.mark.parametrize("name", CALLS)
def test_whatever_is_given_the_error_is_one_of_ours(log: Log, name: str) -> None:
    filled(log)
    for odd in ODD:
        if (name, odd) in FINE:
            continue
        with pytest.raises(UsageError):
            CALLS[name](log, odd)


@pytest.mark.parametrize("timeout", ["1", float("nan"), [1]])
def test_a_timeout_that_is_no_number_is_refused(log: Log, timeout: Any) -> None:  # noqa: ANN401
    filled(log)
    with log.producer("orders") as producer, log.consumer("orders") as consumer:
        sent = producer.send(b"c")
        for wait in (sent.wait, producer.flush, producer.close, consumer.poll):
            if not sent.done or wait != sent.wait:
                with pytest.raises(WrongType, match="expected a number of seconds"):
                    wait(timeout)
        with pytest.raises(WrongType, match="expected a number of seconds"):
            log.wait({("orders", 0): 0}, timeout)


@pytest.mark.parametrize("timeout", [1e300, float("inf"), 10**30])
def test_a_timeout_may_be_longer_than_any_clock(log: Log, timeout: float) -> None:
    filled(log)
    with log.producer("orders", linger_ms=20) as producer, log.consumer("orders") as consumer:
        producer.send(b"c").wait(timeout)
        producer.flush(timeout)
        assert consumer.poll(timeout)
        assert log.wait({("orders", 0): 0}, timeout)
