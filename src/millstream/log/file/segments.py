"""The segments that this process writes: one for each stream, the next one when it is large enough."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable

import pyarrow as pa

from millstream.log.entry import Extent
from millstream.log.file.disk import Disk
from millstream.log.file.segment import SEGMENT_BYTES_MAX, About, Note, SegmentWriter, segment_path

_LIVE_MAX = 64


class Segments:
    """Writes batches into segments of its own."""

    def __init__(self, disk: Disk) -> None:
        """Take a name that no other process has."""
        self._disk = disk
        self._owner = disk.new_name()
        self._count = 0
        self._live: OrderedDict[int, SegmentWriter] = OrderedDict()

    def write(self, about: About, batch: pa.RecordBatch, note: Note) -> Extent:
        """Add a batch in the stored form to the stream's segment."""
        writer = self._live.get(about.number)
        if writer is not None and writer.end >= SEGMENT_BYTES_MAX:
            self.seal([about.number])
            writer = None
        if writer is None:
            self._count += 1
            writer = SegmentWriter(self._disk, f"{self._owner}-{self._count:06d}", about)
            self._live[about.number] = writer
            if len(self._live) > _LIVE_MAX:
                self.seal([next(iter(self._live))])
        self._live.move_to_end(about.number)
        return writer.write(batch, note)

    def sync(self, names: Iterable[str]) -> None:
        """Make segments durable, whoever wrote them; one that is gone was replaced durably."""
        live = {writer.name: writer for writer in self._live.values()}
        for name in names:
            if name in live:
                live[name].sync()
                continue
            try:
                fd = self._disk.open_write(segment_path(name))
            except FileNotFoundError:
                continue
            try:
                self._disk.sync(fd)
            finally:
                self._disk.close(fd)

    def seal(self, streams: Collection[int] | None = None) -> None:
        """End the segments of these streams, or all of them."""
        for stream in list(self._live) if streams is None else streams:
            writer = self._live.pop(stream, None)
            if writer is not None:
                writer.seal()

    def streams(self) -> set[int]:
        """The streams that have a segment which is written to."""
        return set(self._live)
