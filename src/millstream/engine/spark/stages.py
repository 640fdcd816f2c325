"""The levels of a job on Spark: each the work of its pages, with their state in Spark's store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessor, StatefulProcessorHandle

from millstream.engine.spark.freight import Freight, fetched
from millstream.engine.spark.garbage import set_aside
from millstream.engine.spark.pages import page_ids
from millstream.engine.spark.setup import Setup, freight_of, worker_of
from millstream.engine.stage.task import ticket_of


class Chunks:
    """A page's chunks in Spark's state store."""

    def __init__(self, state: MapState) -> None:
        """Take the map of the page that is being worked on."""
        self._state = state

    def get(self, number: int) -> bytes | None:
        """A chunk."""
        found = self._state.getValue((number,))
        return None if found is None else bytes(found[0])

    def __setitem__(self, number: int, data: bytes) -> None:
        """Keep a chunk."""
        self._state.updateValue((number,), (data,))


class PageProcessor(StatefulProcessor):
    """Works on the pages of one level."""

    def __init__(self, setup: Setup, level: int) -> None:
        """It is sent to workers as it is here."""
        self._setup = setup
        self._level = level

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Have a map for the chunks of each page."""
        self._map = handle.getMapState("chunks", "number int", "chunk binary")
        self._ids = page_ids(self._setup.pages)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803 - as Spark calls it
        """The parcels of one page, in one epoch."""
        parcels = [fetched(bytes(row.parcel)) for row in rows]
        ticket = ticket_of(parcels)
        page_id = key[0]
        worker = worker_of(self._setup)
        identity = (worker.job.name, self._setup.run, self._setup.pages, self._level, page_id)
        sent = worker.page(
            ticket, self._ids.index(page_id), self._level, parcels, Chunks(self._map), identity
        )
        with Freight(freight_of(self._setup), ticket.number) as freight:
            for page, data in sent:
                yield Row(page=self._ids[page], parcel=freight.left(data))
        set_aside()

    def close(self) -> None:
        """Nothing to let go of: the worker outlives the epoch."""
