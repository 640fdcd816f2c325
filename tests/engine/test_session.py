"""Spark as we start it: it says nothing, listens to this machine only, and leaves nothing lying about."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from millstream.engine.spark.session import settings_for, variables, variables_for
from millstream.errors import UsageError

# What a program of its own prints, and where it listens, is looked at. Spark's pages are on: the worst case.
PROGRAM = """
import json, os, sys
from pathlib import Path
from pyspark.sql.streaming import StatefulProcessor
from millstream.engine.spark.session import session
from tests.engine.listening import addresses

names = ["JAVA_HOME", "MILLSTREAM_JAVA", "PYSPARK_PYTHON", "SPARK_LOCAL_IP"]
before = [os.environ.get(name) for name in names]
settings = {"spark.ui.enabled": "true", "spark.sql.shuffle.partitions": "2"}
spark = session("tried", master="local[2]", settings=settings)

def pythons(batches):
    import pyarrow
    for batch in batches:
        yield pyarrow.RecordBatch.from_pydict({"python": [sys.executable] * len(batch)})

found = {
    "pythons": sorted({row.python for row in spark.range(8).mapInArrow(pythons, "python string").collect()}),
    "addresses": addresses(os.getpid()),
    "port": int(spark.sparkContext.uiWebUrl.rpartition(":")[2]),
    "zone": spark.conf.get("spark.sql.session.timeZone"),
    "variables": [os.environ.get(name) for name in names] == before,
}
spark.range(3).write.saveAsTable("kept")

class Nothing(StatefulProcessor):
    def init(self, handle):
        handle.getValueState("seen", "seen long")
    def handleInputRows(self, key, rows, timerValues):
        return iter(rows)
    def close(self):
        pass

groups = spark.readStream.table("kept").groupBy("id")
same = groups.transformWithState(Nothing(), "id long", "append", "None")
query = same.writeStream.format("memory").queryName("same").trigger(availableNow=True).start()
query.awaitTermination()
found["rows"] = spark.table("same").count()
try:  # what Spark would log with 80 lines
    spark.range(2).mapInArrow(lambda batches: 1 / 0, "id long").collect()
except Exception as error:
    found["error"] = "ZeroDivisionError" in str(error)
spark.stop()
print(json.dumps(found))
"""


def test_a_session_is_quiet_and_listens_to_this_machine_only(tmp_path: Path) -> None:
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    here.mkdir()
    temporary.mkdir()
    environ = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parent.parent.parent),
        "TMPDIR": str(temporary),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=here, env=environ, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert found["pythons"] == [sys.executable]
    assert {host for host, _ in found["addresses"]} == {"127.0.0.1"}
    assert found["port"] in [port for _, port in found["addresses"]]
    assert found["zone"] == "UTC"
    assert found["variables"]
    assert found["rows"] == 3
    assert found["error"]
    assert list(here.iterdir()) == []
    assert [path.name[:20] for path in temporary.iterdir()] == ["millstream-warehouse"]


def test_the_callers_settings_come_first() -> None:
    chosen = settings_for("local[2]", {"spark.sql.session.timeZone": "Asia/Tokyo"}, verbose=False)
    assert chosen["spark.sql.session.timeZone"] == "Asia/Tokyo"
    assert chosen["spark.driver.host"] == "127.0.0.1"


def test_the_callers_options_for_java_are_added_to_ours() -> None:
    key = "spark.driver.extraJavaOptions"
    quiet = settings_for("local", {}, verbose=False)[key]
    assert quiet.endswith("-Dmillstream.spark.level=off")
    assert settings_for("local", {key: "-Xss4m"}, verbose=False)[key] == f"{quiet} -Xss4m"
    assert settings_for("local", {}, verbose=True)[key].endswith("-Dmillstream.spark.level=info")


def test_a_far_master_is_reached_by_the_addresses_that_spark_finds() -> None:
    chosen = settings_for("spark://far:7077", {}, verbose=False)
    assert "spark.driver.host" not in chosen
    found = variables_for("spark://far:7077", chosen, verbose=False)
    assert "SPARK_LOCAL_IP" not in found
    assert found["PYSPARK_PYTHON"] == sys.executable  # not a script that only this machine has


def test_sparks_pages_are_never_shown_to_a_network() -> None:
    ui = {"spark.ui.enabled": "true"}
    with pytest.raises(UsageError, match=r"set spark\.driver\.host and spark\.driver\.bindAddress too"):
        settings_for("spark://far:7077", ui, verbose=False)
    settings = {**ui, "spark.driver.host": "10.0.0.7", "spark.driver.bindAddress": "10.0.0.7"}
    chosen = settings_for("spark://far:7077", settings, verbose=False)
    assert variables_for("spark://far:7077", chosen, verbose=False)["SPARK_LOCAL_IP"] == "127.0.0.1"


def test_nothing_is_written_into_the_current_directory() -> None:
    warehouse = settings_for("local", {}, verbose=False)["spark.sql.warehouse.dir"]
    assert Path(warehouse).parent == Path(tempfile.gettempdir())


def test_variables_are_as_before_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLSTREAM_ONE", "before")
    monkeypatch.delenv("MILLSTREAM_TWO", raising=False)
    with variables({"MILLSTREAM_ONE": "1", "MILLSTREAM_TWO": "2"}):
        assert os.environ["MILLSTREAM_ONE"] + os.environ["MILLSTREAM_TWO"] == "12"
    assert os.environ["MILLSTREAM_ONE"] == "before"
    assert "MILLSTREAM_TWO" not in os.environ
