"""Places in streams: what there is to read, from where to where, and how tasks share it.

>>> [task.ranges for task in tasks_of([Range("orders", 0, 0, 25_000), Range("orders", 1, 7, 9)], 20_000)]
[(Range(stream='orders', shard=0, start=0, end=20000, history=None),), \
(Range(stream='orders', shard=0, start=20000, end=25000, history=None), \
Range(stream='orders', shard=1, start=7, end=9, history=None))]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

from pyspark.sql.datasource import InputPartition

from millstream.engine.spark.format.bounds import Bound, Seqs
from millstream.engine.spark.format.options import ReadOptions
from millstream.errors import SeqPastEnd, UnknownStream, UsageError, shown
from millstream.log.group import Place
from millstream.log.log import Log

Ends: TypeAlias = dict[Place, tuple[int, int]]

RANGE_SMALL = 10_000  # ranges of fewer seqs share a task: to start one takes longer than to read them


class Range(NamedTuple):
    """Seqs from `start` up to, and without, `end`; `history` is the one in which they were learned."""

    stream: str
    shard: int
    start: int
    end: int
    history: int | None = None


class Ranges(InputPartition):
    """What one task reads."""

    def __init__(self, ranges: tuple[Range, ...]) -> None:
        """Take the ranges, to be read one after the other."""
        self.ranges = ranges


def streams_of(log: Log, options: ReadOptions) -> list[str]:
    """The streams to read; `UnknownStream` if there is none."""
    found = log.streams(options.streams) if options.streams is not None else [options.stream or ""]
    if not found:
        raise UnknownStream(f"no stream of the log matches {shown(options.streams)}: {_known(log)}")
    if options.stream is not None and options.stream not in log.streams(options.stream):
        raise UnknownStream(f"the log has no stream '{options.stream}': {_known(log)}")
    return found


def ends_of(log: Log, options: ReadOptions) -> Ends:
    """For each shard the first seq that it holds, and its end."""
    return {
        (stream, shard): found
        for stream in streams_of(log, options)
        for shard, found in enumerate(log.ends(stream))
    }


def places_of(log: Log, bound: Bound, ends: Ends) -> dict[Place, int]:
    """The seq of each shard at which a read begins or ends."""
    if bound == "earliest":
        return {place: first for place, (first, _) in ends.items()}
    if bound == "latest":
        return {place: end for place, (_, end) in ends.items()}
    if not isinstance(bound, dict):
        return {place: log.seek(*place, bound) for place in ends}
    given = _given(bound, ends)
    if missing := sorted(ends.keys() - given.keys()):
        raise UsageError(
            f"a seq is missing for stream '{missing[0][0]}', shard {missing[0][1]}: give all shards"
        )
    if unknown := sorted(given.keys() - ends.keys()):
        raise UsageError(
            f"there is no stream '{unknown[0][0]}' with a shard {unknown[0][1]} to begin or end in"
        )
    for place, seq in given.items():
        if not 0 <= seq <= ends[place][1]:
            raise SeqPastEnd(
                f"stream '{place[0]}', shard {place[1]}: there is no seq {seq}; it has {ends[place][0]} to "
                f"{ends[place][1]}",
                end=ends[place][1],
            )
    return given


def ranges_of(starts: Mapping[Place, int], stops: Mapping[Place, int], history: int | None) -> list[Range]:
    """What lies between, shard by shard; nothing where it begins after its end."""
    return [
        Range(*place, starts[place], stop, history)
        for place, stop in sorted(stops.items())
        if starts[place] < stop
    ]


def tasks_of(ranges: list[Range], most: int) -> list[Ranges]:
    """What each task reads: large ranges are cut, small ones are put together."""
    found: list[Ranges] = []
    small: list[Range] = []
    size = 0
    for piece in (piece for whole in ranges for piece in _cut(whole, most)):
        count = piece.end - piece.start
        if count >= RANGE_SMALL:
            found.append(Ranges((piece,)))
            continue
        if size + count > RANGE_SMALL:
            found.append(Ranges(tuple(small)))
            small, size = [], 0
        small.append(piece)
        size += count
    return [*found, Ranges(tuple(small))] if small else found


def _cut(whole: Range, most: int) -> Iterator[Range]:
    for start in range(whole.start, whole.end, most):
        yield whole._replace(start=start, end=min(start + most, whole.end))


def _given(bound: Seqs, ends: Ends) -> dict[Place, int]:
    """Seqs by shard, as they were given: for the one stream, or stream by stream."""
    names = {stream for stream, _ in ends}
    by_stream: dict[str, dict[str, int]] = {}
    for name, value in bound.items():
        if isinstance(value, dict):
            by_stream[name] = value
        elif len(names) == 1:
            by_stream.setdefault(min(names), {})[name] = value
        else:
            raise UsageError('with several streams, give the seqs of each: {"orders": {"0": 17}}')
    try:
        return {(name, int(shard)): seq for name, seqs in by_stream.items() for shard, seq in seqs.items()}
    except ValueError:
        raise UsageError('a shard is a number from 0 on, as in {"0": 17}') from None


def _known(log: Log) -> str:
    names = log.streams()
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return f"it has {', '.join(names[:10])}{more}" if names else "it has none"
