"""The benchmark of flows on Spark knows every figure that was promised, and both sides do the same."""

from pathlib import Path

import pyarrow as pa

import millstream
from bench.figure import at_least, at_most
from bench.spark_events import KEYS, Sizes, as_json, event
from bench.spark_flows import COLUMNS, log_of, taxed_batch
from bench.spark_ours import SPARK

PROMISED = {
    "fold_vs_tws_row": at_least(8),
    "fold_vs_bare_loop": at_least(0.33),
    "aggregate_vs_native": at_least(1.5),
    "aggregate_columnar_vs_native": at_least(2),
    "map_vs_mapinarrow": at_least(1.5),
    "map_batches_vs_mapinarrow": at_least(3),
    "epoch_p50_vs_tws_row": at_most(0.85),
    "epoch_5m_vs_10k_keys": at_most(2),
    "per_event_64m_vs_1m": at_most(1.15),
}
PRINTED = {
    "fold_vs_tws_row_noop",
    "epoch_p50_vs_tws_row_noop",
    "epoch_p50_levels",
    "progress_overhead_ms",
    "latency_p50_ms",
    "latency_p99_ms",
    "restart_5m_keys_s",
}


def test_every_promised_figure_has_its_bar() -> None:
    bars = {name: bar for measure in SPARK.measures for name, bar in measure.bars.items()}
    assert {name: bar for name, bar in bars.items() if bar} == PROMISED
    assert {name for name, bar in bars.items() if not bar} == PRINTED


def test_the_log_has_the_events_of_the_files(tmp_path: Path) -> None:
    events = as_json(tmp_path / "events", Sizes(per_epoch=1_000, epochs=1, warm=1))
    with millstream.open(log_of(events)) as log:
        records = sorted(log.consumer("events", until="end"), key=lambda record: record.timestamp)
    assert [record.timestamp for record in records] == list(range(2_000))
    assert [(record.key or b"").decode() for record in records] == [event(each)[0] for each in range(2_000)]
    assert KEYS > 2_000  # so the order is that of the keys too


def test_batches_are_taxed_as_records_are() -> None:
    lines = [b'{"key": "a", "amount": 3}', b'{"key": "b", "amount": 2}']
    batch = pa.RecordBatch.from_arrays([pa.array(["a", "b"]), pa.array(lines)], names=["key", "value"])
    assert taxed_batch(batch).to_pylist() == [{"key": "a", "value": {"key": "a", "cents": 357}}]
    assert COLUMNS.names == ["key", "amount"]
