"""The benchmark of flows on Spark: ours beside plain PySpark, on the same events, with the same settings."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from bench import spark_growth as growth
from bench import spark_rivals as rivals
from bench.figure import Benchmark, Figure, Measure, Room, at_least, at_most, rate
from bench.rounds import side_by_side
from bench.spark_events import Events, Sizes, as_json, as_parquet
from bench.spark_latency import steady
from bench.spark_loop import bare_loop
from bench.spark_query import Program, benchmark_session, epoch_ms, events_per_second

Speed = Callable[[SparkSession, Events], float]  # events per second, warm, over the epochs to be measured

LARGE, LARGE_QUICK = Sizes(per_epoch=1_000_000, epochs=3, warm=1), Sizes(per_epoch=200_000, epochs=2, warm=1)
SMALL, SMALL_QUICK = Sizes(per_epoch=1_000, epochs=50, warm=20), Sizes(per_epoch=1_000, epochs=10, warm=5)
STEADY_SECONDS, STEADY_SECONDS_QUICK = 60, 10


class Ours(NamedTuple):
    """Our side. Each reads the same events as its rival, from a log that it fills without being timed."""

    fold: Speed
    aggregate: Speed
    aggregate_columnar: Speed
    map_and_filter: Speed
    map_batches: Speed
    epoch_ms: Callable[[SparkSession, Events], list[float]]  # of each epoch that is to be measured
    steady: Callable[[SparkSession, Path, int], list[float]]  # ms of each event for so many seconds, sorted


def benchmark(ours: Ours) -> Benchmark:
    """The figures, with our side put in."""
    aggregated = compared(
        "aggregate_vs_native", ours.aggregate, spark_speed(rivals.aggregate), "groupBy().agg()", as_json
    )
    columnar = compared(
        "aggregate_columnar_vs_native",
        ours.aggregate_columnar,
        spark_speed(rivals.aggregate),
        "groupBy().agg()",
        as_parquet,
    )
    mapped = partial(compared, theirs=spark_speed(rivals.map_and_filter), rival="mapInArrow", write=as_json)
    return Benchmark(
        "flows on Spark: beside plain PySpark, and a bare loop",
        (
            Measure(
                partial(fold, ours),
                {
                    "fold_vs_tws_row": at_least(8),
                    "fold_vs_tws_row_noop": None,  # the rival keeps nothing of what it computes
                    "fold_vs_bare_loop": at_least(0.33),
                },
            ),
            Measure(aggregated, {"aggregate_vs_native": at_least(1.5)}),
            Measure(columnar, {"aggregate_columnar_vs_native": at_least(2)}),
            Measure(mapped("map_vs_mapinarrow", ours.map_and_filter), {"map_vs_mapinarrow": at_least(1.5)}),
            Measure(
                mapped("map_batches_vs_mapinarrow", ours.map_batches),
                {"map_batches_vs_mapinarrow": at_least(3)},
            ),
            Measure(
                partial(small_epochs, ours),
                {"epoch_p50_vs_tws_row": at_most(0.85), "epoch_p50_vs_tws_row_noop": None},
            ),
            Measure(growth.levels, {"epoch_p50_levels": None}),
            Measure(growth.progress, {"progress_overhead_ms": None}),
            Measure(partial(latency, ours), {"latency_p50_ms": None, "latency_p99_ms": None}),
            Measure(growth.keys, {"epoch_5m_vs_10k_keys": at_most(2), "restart_5m_keys_s": None}),
            Measure(growth.per_event, {"per_event_64m_vs_1m": at_most(1.15)}),
        ),
    )


def fold(ours: Ours, room: Room) -> Iterator[Figure]:
    """Keyed running state by a function for each event."""
    events = as_json(room.folder / "fold", large(room))
    for name, theirs, rival in (
        ("fold_vs_tws_row", spark_speed(rivals.fold), "transformWithState"),
        ("fold_vs_tws_row_noop", spark_speed(rivals.fold_into_nothing), "transformWithState into noop"),
        ("fold_vs_bare_loop", lambda _, files: bare_loop(files), "a bare loop, two processes"),
    ):
        yield beside(name, room, events, ours.fold, theirs, rival)


def compared(
    name: str, ours: Speed, theirs: Speed, rival: str, write: Callable[[Path, Sizes], Events]
) -> Callable[[Room], Iterator[Figure]]:
    """A measure of two speeds."""

    def measured(room: Room) -> Iterator[Figure]:
        yield beside(name, room, write(room.folder / name, large(room)), ours, theirs, rival)

    return measured


def beside(name: str, room: Room, events: Events, ours: Speed, theirs: Speed, rival: str) -> Figure:
    """Two speeds on the same events."""
    spark = benchmark_session()
    ratio = side_by_side(lambda: ours(spark, events), lambda: theirs(spark, events), rounds(room))
    texts = rate(ratio.ours, "events"), f"{rate(ratio.theirs, 'events')}, {rival}"
    return Figure(name, ratio.value, *texts)


def small_epochs(ours: Ours, room: Room) -> Iterator[Figure]:
    """What the smallest epoch takes."""
    events = as_json(room.folder / "small", SMALL_QUICK if room.quick else SMALL)
    spark = benchmark_session()
    for name, program, rival in (
        ("epoch_p50_vs_tws_row", rivals.fold, "transformWithState"),
        ("epoch_p50_vs_tws_row_noop", rivals.fold_into_nothing, "transformWithState into noop"),
    ):
        ratio = side_by_side(
            lambda: statistics.median(ours.epoch_ms(spark, events)),
            partial(median_ms, spark, events, program),
            rounds(room),
        )
        yield Figure(name, ratio.value, f"{ratio.ours:.3g} ms", f"{ratio.theirs:.3g} ms, {rival}")


def median_ms(spark: SparkSession, events: Events, program: Program) -> float:
    """What an epoch of a rival takes."""
    return statistics.median(epoch_ms(spark, events, program))


def latency(ours: Ours, room: Room) -> Iterator[Figure]:
    """From written to out, at a steady rate."""
    spark = benchmark_session()
    seconds = STEADY_SECONDS_QUICK if room.quick else STEADY_SECONDS
    own = ours.steady(spark, room.folder / "steady-ours", seconds)
    theirs = steady(spark, room.folder / "steady-theirs", seconds)
    for name, share in (("latency_p50_ms", 0.5), ("latency_p99_ms", 0.99)):
        mine, other = (times[int(share * len(times))] for times in (own, theirs))
        yield Figure(name, mine, f"{mine:.3g} ms", f"{other:.3g} ms, transformWithState")


def spark_speed(program: Program) -> Speed:
    """A rival's speed."""
    return lambda spark, events: events_per_second(spark, events, program)


def large(room: Room) -> Sizes:
    """Epochs in which the time that each takes by itself counts for little."""
    return LARGE_QUICK if room.quick else LARGE


def rounds(room: Room) -> int:
    """A round is several epochs of a warm query, so few do."""
    return 1 if room.quick else 3
