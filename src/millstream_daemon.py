"""The process that Spark forks its Python workers from: PySpark's own, without its tracebacks at the end.

Where Spark stops a task or itself, it closes the socket of a worker that may still want to write to it, and
PySpark shows each as an error. This module stands beside the package, not in it: with the package comes
Arrow, which starts a thread, and nothing that has threads may be forked.
"""

from __future__ import annotations

import socket

from pyspark import daemon

_worker = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Work for Spark until it closes the socket; gives the exit code."""
    try:
        return _worker(sock, authenticated)
    except ConnectionError:
        return 1


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
