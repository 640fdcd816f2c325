"""Reading on and on: an offset is a seq for each shard, and the history in which these were learned.

Where a query begins is not known before its first batch: Spark asks for the first offset again until one is
committed, and "latest" would be another place each time. So the first offset is a word, and the end of the
first batch says where it began.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from millstream.engine.spark.format.bounds import bound_of
from millstream.engine.spark.format.options import shared_log
from millstream.engine.spark.format.places import (
    Ends,
    Ranges,
    ends_of,
    places_of,
    ranges_of,
    tasks_of,
)
from millstream.engine.spark.format.reader import Columns
from millstream.errors import SeqTrimmed, UnknownStream
from millstream.log.batch import Limits
from millstream.log.commit import Commit, Offset
from millstream.log.group import Place
from millstream.log.log import Log

_WAIT_S = 0.1  # short: other sources of the query wait as long
_ONE = Limits(records=1, bytes=1)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches in a process of its own, and reads in tasks."""

    def __init__(self, columns: Columns) -> None:
        """Nothing is opened before it is asked for: this is sent to tasks too."""
        self._columns = columns
        self._options = columns.options
        self._target: dict[Place, int] | None = None
        self._published: dict[str, Any] | None = None

    @property
    def _log(self) -> Log:
        return shared_log(self._options.log)

    # -- planning

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - as Spark calls it
        """The same whenever it is asked."""
        return {"start": self._options.start}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - as Spark calls it
        """What the option says."""
        most = self._options.records_per_batch
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - as Spark calls it
        """Go no further than now."""
        self._target = {place: end for place, (_, end) in ends_of(self._log, self._options).items()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - as above
        """How far the next batch goes; `start` itself if there is nothing to read."""
        self.commit(start)  # Spark says it only when the next batch has something to read
        begun = "seqs" in start
        ends = self._ends()
        seqs = _seqs(start["seqs"]) if begun else places_of(self._log, bound_of(start["start"]), ends)
        seqs = self._there(seqs, ends)
        stops = self._stops(seqs, ends)
        if begun and stops == seqs and self._target is None:
            self._log.wait(seqs, _WAIT_S)  # so that Spark need not ask all the time
            stops = self._stops(seqs, self._ends())
        if begun and stops == seqs:
            return start
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        if most is not None:
            stops = cut(seqs, stops, most)
        found = {"seqs": _texts(stops), "history": self._history(stops)}
        return found if begun else {**found, "from": _texts(seqs)}

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - as Spark calls it
        """How far there is to read, for the query's progress."""
        return {"seqs": _texts({place: end for place, (_, end) in self._ends().items()})}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Ranges]:
        """What each task of a batch reads."""
        stops = _seqs(end["seqs"])
        begun = "seqs" in start
        starts = _seqs(start["seqs"] if begun else end.get("from", end["seqs"]))
        self._check_history(stops, end["history"])
        if begun:
            self._check_history(
                {place: starts[place] for place in starts if place in stops}, start["history"]
            )
        known = {place: starts.get(place, 0) for place in stops}
        return tasks_of(ranges_of(known, stops, end["history"]), self._options.records_per_task)

    def commit(self, end: dict[str, Any]) -> None:
        """A batch is done with: the group's offsets say so, if there is a group."""
        group = self._options.group
        if group is None or "seqs" not in end or end == self._published:
            return
        log = self._log
        known, ends = log.offsets(group), self._ends()
        offsets = tuple(
            Offset(group, *place, known.get(place), seq)
            for place, seq in _seqs(end["seqs"]).items()
            if place in ends and known.get(place) != seq
        )
        if offsets:
            log.commit(Commit(offsets=offsets))
        self._published = end

    # -- in tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of a task."""
        return self._columns.read(partition)

    # -- how far there is to read

    def _ends(self) -> Ends:
        return ends_of(self._log, self._options)

    def _stops(self, seqs: Mapping[Place, int], ends: Ends) -> dict[Place, int]:
        """How far each shard goes; never back."""
        stops = {place: end for place, (_, end) in ends.items()}
        if self._target is not None:
            stops = {
                place: min(end, self._target[place]) for place, end in stops.items() if place in self._target
            }
        return {place: max(end, seqs.get(place, 0)) for place, end in stops.items()}

    def _there(self, seqs: dict[Place, int], ends: Ends) -> dict[Place, int]:
        """The seqs, if nothing is gone that was not read; where that is allowed, the next that are there."""
        if not self._options.fail_on_data_loss:
            return {place: max(seq, ends[place][0]) for place, seq in seqs.items() if place in ends}
        for place, (first, _) in ends.items():
            seq = seqs.get(place, 0)
            if seq < first:
                raise SeqTrimmed(
                    f"stream '{place[0]}', shard {place[1]}: the query would go on at seq {seq}, and the log "
                    f"begins at {first}: {first - seq:,} seqs that it has not read are gone. Begin with "
                    'a new checkpoint, or leave them out by the option "failOnDataLoss" = "false"; the log '
                    'keeps what a query has not read if it has a group (option "group")',
                    first=first,
                    missing=first - seq,
                )
        if gone := sorted(seqs.keys() - ends.keys()):
            raise UnknownStream(
                f"stream '{gone[0][0]}' is without its shard {gone[0][1]}, which the query has read: it was "
                'deleted. Begin again with a new checkpoint, or go on with "failOnDataLoss" = "false"'
            )
        return seqs

    # -- the past, which a power cut may change

    def _history(self, stops: Mapping[Place, int]) -> int:
        """The history in which these ends are known."""
        return max(
            (self._log.read(*place, seq, _ONE).history for place, seq in list(stops.items())[:1]), default=0
        )

    def _check_history(self, seqs: Mapping[Place, int], history: int) -> None:
        """Refuse seqs that a power cut has taken back; each raises its own error."""
        for place, seq in seqs.items():
            try:
                self._log.read(*place, seq, _ONE, history=history)
            except (SeqTrimmed, UnknownStream):
                if self._options.fail_on_data_loss:
                    raise


def cut(seqs: Mapping[Place, int], stops: Mapping[Place, int], most: int) -> dict[Place, int]:
    """So many records at most: the same from each shard, and what some leave goes to the others.

    >>> cut({}, {("orders", 0): 5, ("orders", 1): 100, ("orders", 2): 100}, 45)
    {('orders', 0): 5, ('orders', 1): 20, ('orders', 2): 20}
    """
    lags = sorted((stop - seqs.get(place, 0), place) for place, stop in stops.items())
    found, left = {}, most
    for number, (lag, place) in enumerate(lags):
        share = min(lag, left // (len(lags) - number))
        found[place] = seqs.get(place, 0) + share
        left -= share
    return dict(sorted(found.items()))


def _texts(seqs: Mapping[Place, int]) -> dict[str, dict[str, int]]:
    """Seqs as an offset has them: by stream, and by shard, whose number JSON makes a text."""
    found: dict[str, dict[str, int]] = {}
    for (stream, shard), seq in sorted(seqs.items()):
        found.setdefault(stream, {})[str(shard)] = seq
    return found


def _seqs(texts: Mapping[str, Mapping[str, int]]) -> dict[Place, int]:
    return {(stream, int(shard)): seq for stream, shards in texts.items() for shard, seq in shards.items()}
