"""Spark's standalone mode on loopback: a master, two workers, one of them killed in the middle of a run."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

import millstream
from millstream.engine.spark.java import environment, find_java, wheel_java
from tests.engine.driven import Driven
from tests.engine.shop import fill, problems

RECORDS = 20_000


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def java(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """One of Spark's own processes, on loopback, with all that it starts; gone at the end."""
    home = Path(pyspark.__file__).parent
    env = {
        **os.environ,
        **environment(find_java(os.environ, wheel_java())),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder),
    }
    command = [str(home / "bin" / "spark-class"), *arguments]
    process = subprocess.Popen(
        command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield process
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and what it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait(60)


def wait_for_port(port: int) -> None:
    """Until somebody listens."""
    end = time.monotonic() + 60
    pause = threading.Event()
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        pause.wait(0.2)
    raise TimeoutError(f"nobody listens on port {port}")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_worker_that_is_killed_in_the_middle_of_a_run_changes_nothing(tmp_path: Path) -> None:
    url = f"file:{tmp_path}/log"
    with millstream.open(url) as log:
        fill(log, RECORDS)
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    common = ("--host", "127.0.0.1", "--webui-port", "0")
    deploy = "org.apache.spark.deploy"
    worker = (f"{deploy}.worker.Worker", *common, "--cores", "1", "--memory", "1g", master)
    with java(tmp_path / "master", f"{deploy}.master.Master", *common, "--port", str(port)):
        wait_for_port(port)
        with java(tmp_path / "one", *worker), java(tmp_path / "two", *worker) as other:
            arguments = ("--master", master, "--records-max", str(RECORDS // 10))
            with Driven(url, *arguments) as driven:
                assert driven.first_line(), driven.errors()
                stop(other)
                assert driven.wait(400) == 0, driven.errors()
    with millstream.open(url) as log:
        assert problems(log, RECORDS) == []
