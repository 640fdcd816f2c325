"""Start Spark: quiet, on a Java that is found, listening on nothing but 127.0.0.1 where all of it is here.

    spark = session("orders", master="local[2]", settings={"spark.sql.shuffle.partitions": "2"})

The rivals of the benchmark run with the same settings.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from millstream.engine.spark.java import environment, find_java, wheel_java
from millstream.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"
LOGGING = Path(__file__).with_name("log4j2.properties")
PYTHON = Path(__file__).with_name("quiet_python")
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
UI = "spark.ui.enabled"
ADDRESSES = ("spark.driver.host", "spark.driver.bindAddress")
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

SETTINGS = {
    UI: "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.python.daemon.module": "millstream_daemon",
    "spark.python.worker.reuse": "true",  # a worker's caches live on from epoch to epoch
    "spark.python.unix.domain.socket.enabled": "true",  # takes 40 ms off every job that has Python tasks
    # The usual one starts a process for each file that it renames, to see whether that is a link.
    "spark.sql.streaming.checkpointFileManagerClass": FILES,
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


def session(
    name: str,
    *,
    master: str = "local[*]",
    verbose: bool = False,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """A Spark session of this name, or the one that this process has already.

    `verbose` shows all that Spark logs; otherwise it says nothing. `settings` are Spark's own, and come
    before those that are chosen here.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingExtra("Spark is not installed: run pip install 'millstream[spark]'") from error
    chosen = settings_for(master, settings or {}, verbose=verbose)
    builder = SparkSession.Builder().master(master).appName(name)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    with variables(variables_for(master, chosen, verbose=verbose)), _ctrl_c_kept():
        return builder.getOrCreate()


def settings_for(master: str, settings: Mapping[str, str], *, verbose: bool) -> dict[str, str]:
    """All that Spark is told: ours, those for where it runs, and the caller's."""
    own = dict.fromkeys(ADDRESSES, LOOPBACK) if is_here(master) else {}
    level = "info" if verbose else "off"
    options = f"-Dlog4j2.configurationFile={LOGGING.as_uri()} -Dmillstream.spark.level={level}"
    # Nothing is there until somebody saves a table; and then it is not in the current directory.
    warehouse = Path(tempfile.gettempdir(), f"millstream-warehouse-{uuid.uuid4().hex}")
    chosen = {**SETTINGS, **own, "spark.sql.warehouse.dir": str(warehouse), **settings}
    chosen[JAVA_OPTIONS] = f"{options} {settings.get(JAVA_OPTIONS, '')}".rstrip()
    if chosen[UI] != "false" and (missing := [key for key in ADDRESSES if key not in chosen]):
        raise UsageError(
            f"Spark's pages are shown on {LOOPBACK} only, and where it listens follows unless it is set: "
            f"with {UI} on {master}, set {' and '.join(missing)} too"
        )
    return chosen


def variables_for(master: str, chosen: Mapping[str, str], *, verbose: bool) -> dict[str, str]:
    """The environment that Spark is started in: its Java, the Python of its workers, where its pages are."""
    found = environment(find_java(os.environ, wheel_java()))
    found["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON", sys.executable)  # not just any `python3`
    if master.startswith("local[") and not verbose:  # elsewhere workers do not have these variables
        found["MILLSTREAM_PYTHON"] = found["PYSPARK_PYTHON"]
        found["PYSPARK_PYTHON"] = str(PYTHON)
    if is_here(master) or chosen[UI] != "false":
        found["SPARK_LOCAL_IP"] = LOOPBACK
    return found


def is_here(master: str) -> bool:
    """Whether all of Spark runs on this machine.

    >>> [is_here(master) for master in ("local[2]", "spark://127.0.0.1:7077", "spark://far:7077", "yarn")]
    [True, True, False, False]
    """
    return re.match(r"local(-cluster)?(\[|$)|spark://(127\.0\.0\.1|localhost):", master) is not None


@contextmanager
def _ctrl_c_kept() -> Iterator[None]:
    """Have Ctrl-C go where it went before: PySpark takes it as it starts, and would break off what runs."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        with suppress(ValueError):  # only the main thread has it to give, and only there PySpark takes it
            signal.signal(signal.SIGINT, before)


@contextmanager
def variables(wanted: Mapping[str, str]) -> Iterator[None]:
    """Set these variables for a while: Spark reads them only as it starts."""
    before = {key: os.environ.get(key) for key in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value
