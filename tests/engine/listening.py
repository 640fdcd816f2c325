"""Where a process and all that it started listen, from what Linux says about them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

LISTENING = "0A"
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


def addresses(pid: int) -> list[tuple[str, int]]:
    """(host, port) of each TCP socket that the process or one below it listens on; loopback as 127.0.0.1."""
    sockets = {inode for each in family(pid) for inode in inodes(each)}
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == LISTENING and rest[5] in sockets:
                host, _, port = local.partition(":")
                found.add(("127.0.0.1" if host in LOOPBACK else host, int(port, 16)))
    return sorted(found)


def family(pid: int) -> list[int]:
    """The process, and all below it."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile
            text = (folder / "stat").read_text()
            parents[int(folder.name)] = int(text.rpartition(")")[2].split()[1])
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found


def inodes(pid: int) -> list[str]:
    """The sockets that a process has open."""
    found = []
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                name = os.readlink(entry)
                if name.startswith("socket:["):
                    found.append(name[8:-1])
    return found
