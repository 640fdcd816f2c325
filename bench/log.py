"""The benchmark of the log: its figures, and the bars they must reach."""

from __future__ import annotations

from bench import commits, opening, reads, rivals, tail
from bench.figure import Benchmark, Measure, at_least, at_most

LOG = Benchmark(
    "the log: committing, reading, waiting, opening, memory",
    (
        Measure(commits.written, {"commit_written_vs_sqlite": at_least(0.25)}),
        Measure(commits.synced, {"commit_synced_vs_sqlite_full": at_least(0.35)}),
        Measure(commits.group, {"group_commit_vs_sqlite_full": at_least(1.5)}),
        Measure(commits.processes, {"commit_4_processes_vs_1": at_least(0.8)}),
        Measure(commits.batches, {"batch_write_vs_os_write": at_least(0.35)}),
        Measure(
            reads.arrow,
            {
                "arrow_read_vs_pyarrow": at_least(0.5),
                "arrow_first_read_vs_pyarrow": None,  # the first read after opening verifies checksums
                "arrow_touch_vs_pyarrow": None,  # both sides use the values
            },
        ),
        Measure(reads.records, {"record_read_vs_bare_loop": at_least(0.15)}),
        Measure(commits.sends, {"send_vs_batch": at_least(0.2)}),
        Measure(opening.full, {"open_full_vs_empty": at_most(3)}),
        Measure(tail.wake, {"tail_wake_p50_ms": at_most(2)}),
        Measure(tail.idle, {"tail_idle_cpu_percent": at_most(1)}),
        Measure(reads.memory, {"read_10gb_rss_mb": at_most(200)}),
        Measure(rivals.redis, {"produce_vs_redis": None, "consume_vs_redis": None}),
        Measure(rivals.kafka, {"produce_vs_kafka": None, "consume_vs_kafka": None}),
    ),
)
