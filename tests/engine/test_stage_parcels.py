"""Parcels: what is sent is received, in order; what is damaged is refused."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from millstream.engine.stage.job import Job, jobs_of
from millstream.engine.stage.parcel import Header, decode_parcel, encode_parcel, header_of
from millstream.engine.stage.receiving import received
from millstream.errors import Bug, Damaged, MillstreamError
from millstream.flow import Flow


def columns(*times: int) -> list[pa.Array]:
    """Records with these times, each of which is its value too."""
    keys = pa.array([b"k"] * len(times), pa.binary())
    return [pa.array(times, pa.int64()), keys, pa.array([b"%d" % time for time in times], pa.binary())]


def job() -> Job:
    """A job of two levels."""
    flow = Flow("deep")
    source = flow.source("a", key=bytes, value=bytes)
    source.group_by(bytes, key=bytes).map(bytes).group_by(bytes, key=bytes).sink("b")
    return jobs_of(flow.build())[0]


def sent(shard: int, number: int, *times: int, highs: list[int] | None = None) -> bytes:
    """A parcel that was read from a shard, for the first group of the job."""
    edge = next(edge for edge in job().edges.values() if edge.level == 1)
    header = Header(
        edge.node.id,
        edge.place,
        1,
        at=max(highs or times),
        source="a",
        shard=shard,
        number=number,
        count=len(times),
        first=number * 100,
        reader=0,
        sorted=highs is None,
    )
    return encode_parcel(header, columns(*times) + ([] if highs is None else [pa.array(highs)]))


def order(parcels: list[bytes]) -> list[int]:
    """The times of what was received, in its order."""
    found = received(job(), parcels)
    (block,) = found.inputs.values()
    assert block.rows.tolist() == list(range(len(block)))
    return [int(time) for time in block.times]


def test_a_parcel_comes_back_as_it_went() -> None:
    header = Header(3, 1, 2, at=9, progress=7, stage=1, upstream=4, number=5, count=2, streams=("a",))
    data = [*columns(8, 9), pa.array([5, 9]), pa.array([0, 0], pa.int16()), pa.array([1, 2], pa.int32())]
    again, found = decode_parcel(encode_parcel(header, data))
    assert again == header
    assert [column.to_pylist() for column in found.values()] == [column.to_pylist() for column in data]


def test_a_parcel_without_records_is_only_a_header() -> None:
    assert decode_parcel(encode_parcel(Header(-1, level=2), [])) == (Header(-1, level=2), {})


def test_values_that_are_columns_stay_columns() -> None:
    kind = pa.struct([("cents", pa.int64())])
    schema = pa.schema([pa.field("value", kind)]).serialize().to_pybytes()
    header = Header(3, level=1, count=1, first=0, source="a", column=schema)
    value = pa.array([{"cents": 5}], kind)
    data = [pa.array([1]), pa.array([None], pa.binary()), value]
    assert decode_parcel(encode_parcel(header, data))[1]["value"].equals(value)


def test_a_damaged_parcel_is_refused() -> None:
    data = sent(0, 1, 5, 6, 7)
    for size in range(len(data) - 8):
        with pytest.raises(Damaged):
            decode_parcel(data[:size])
    with pytest.raises(Damaged):
        header_of(b"\xff\xff\xff\xff" + data[4:])
    fewer = encode_parcel(header_of(data), columns(5, 6))
    with pytest.raises(Damaged, match="has 2"):
        decode_parcel(fewer)


def test_damage_is_an_error_of_ours_or_harmless() -> None:
    data, chance = sent(0, 1, 5, 6, 7), Random(2)
    for _ in range(2_000):
        bad = bytearray(data)
        bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
        try:
            decode_parcel(bytes(bad))
        except MillstreamError:
            continue


def test_records_of_several_shards_come_in_the_order_of_their_times() -> None:
    parcels = [sent(1, 0, 2, 4, 6), sent(0, 0, 1, 3, 5), sent(0, 1, 7)]
    for count in range(5):
        Random(count).shuffle(parcels)
        assert order(parcels) == [1, 2, 3, 4, 5, 6, 7]


def test_a_shard_keeps_its_own_order_though_times_go_back() -> None:
    parcels = [sent(1, 0, 3, 4), sent(0, 0, 9, 1, highs=[9, 9]), sent(0, 1, 2, highs=[9])]
    for count in range(5):
        Random(count).shuffle(parcels)
        assert order(parcels) == [3, 4, 9, 1, 2]


def test_records_of_one_time_come_by_shard() -> None:
    parcels = [sent(2, 0, 5), sent(0, 0, 5), sent(1, 0, 5)]
    found = received(job(), parcels)
    assert found.origins.shards.tolist()[:3] == [0, 1, 2]


def test_what_comes_from_deeper_levels_comes_by_when_it_was_sent() -> None:
    edge = next(edge for edge in job().edges.values() if edge.level == 2)
    parcels = []
    for page, at, number in ((1, 9, 0), (0, 5, 1), (0, 4, 0), (1, 2, 1)):
        header = Header(
            edge.node.id, edge.place, 2, at=at, stage=1, upstream=page, number=number, count=1, first=0,
            streams=("a",), reader=0,
        )  # fmt: skip
        more = [pa.array([0], pa.int16()), pa.array([0], pa.int32())]
        parcels.append(encode_parcel(header, columns(at) + more))
    for count in range(5):
        Random(count).shuffle(parcels)
        assert order(parcels) == [2, 4, 5, 9]


def test_a_parcel_for_a_node_that_there_is_not_is_a_bug() -> None:
    header = Header(99, level=1, count=1, first=0, source="a")
    with pytest.raises(Bug):
        received(job(), [encode_parcel(header, columns(1))])
