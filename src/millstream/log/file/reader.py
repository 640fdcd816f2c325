"""Reading segments: memory maps, and each batch's checksum compared the first time it is read."""

from __future__ import annotations

import mmap
from collections import OrderedDict
from threading import Lock

import pyarrow as pa

from millstream.errors import Damaged
from millstream.log.entry import Extent
from millstream.log.file.disk import Disk
from millstream.log.file.segment import described, message_crc, read_extent, segment_path

_MAPS_MAX = 256
_CHECKED_MAX = 1_000_000


class Reader:
    """Reads batches out of segments; any number of threads may use it."""

    def __init__(self, disk: Disk) -> None:
        """No segment is open yet."""
        self._disk = disk
        self._lock = Lock()
        self._maps: OrderedDict[str, pa.Buffer] = OrderedDict()
        self._checked: set[tuple[str, int]] = set()  # their bytes, and then what is in them
        self._sound: set[tuple[str, int, int]] = set()

    def read(self, extent: Extent, schema: pa.Schema) -> pa.RecordBatch:
        """The batch of an extent; `FileNotFoundError` if upkeep has removed its segment meanwhile."""
        place = extent.segment, extent.position, extent.base
        whole = place not in self._sound
        batch = read_extent(self.bytes_of(extent), extent, schema, whole=whole)
        if whole:
            if len(self._sound) >= _CHECKED_MAX:
                self._sound.clear()
            self._sound.add(place)
        return batch

    def bytes_of(self, extent: Extent) -> pa.Buffer:
        """The bytes of an extent, checked the first time they are asked for."""
        with self._lock:
            whole = self._map(segment_path(extent.segment), extent)
        if whole.size < extent.position + extent.length:
            raise Damaged(f"{described(extent)} is cut short; run {self._disk.repair_call}")
        buffer = whole.slice(extent.position, extent.length)
        place = extent.segment, extent.position
        if place not in self._checked:
            if message_crc(buffer) != extent.crc:
                what = f"{described(extent)} does not match its checksum"
                raise Damaged(f"{what}; run {self._disk.repair_call}")
            if len(self._checked) >= _CHECKED_MAX:
                self._checked.clear()
            self._checked.add(place)
        return buffer

    def _map(self, path: str, extent: Extent) -> pa.Buffer:
        """The whole segment, mapped anew where it has grown."""
        end = extent.position + extent.length
        known = self._maps.get(path)
        if known is None or known.size < end:
            fd = self._disk.open_read(path)
            try:
                size = self._disk.size(fd)
                known = pa.py_buffer(mmap.mmap(fd, size, prot=mmap.PROT_READ) if size else b"")
            finally:
                self._disk.close(fd)
            self._maps[path] = known
            if len(self._maps) > _MAPS_MAX:
                self._maps.popitem(last=False)
        self._maps.move_to_end(path)
        return known

    def forget(self) -> None:
        """Let go of all maps, and of what was checked."""
        with self._lock:
            self._maps.clear()
            self._checked.clear()
            self._sound.clear()
