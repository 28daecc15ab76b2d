"""LogStreamReader: a stream read."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from commitlog.spark.log_topic import LogTopic
from commitlog.spark.reader import BaseReader
from commitlog.spark.stream_offset import (
    LogPosition,
    Offset,
    advanced,
    ended,
    offset_of,
    places_of,
    resumed,
)
from commitlog.spark.stream_topics import StreamTopics

_Positions = dict[str, LogPosition]


class LogStreamReader(BaseReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follow some logs. An offset is a position in each log, which rolls and retention do not
    change, and the log's uuid.
    """

    _stream = True

    def __init__(
        self, options: Mapping[str, str], schema: StructType, parallelism: int | None = None
    ) -> None:
        super().__init__(options, schema, parallelism)
        self._topics = StreamTopics(self._options)
        self._initial: Offset | None = None
        self._target: _Positions | None = None
        self._triggered_s = float("-inf")

    def __getstate__(self) -> dict[str, Any]:
        # Executors do not use the logs that are open on the driver.
        return {**self.__dict__, "_topics": None}

    # --- offsets ----------------------------------------------------------------------------------

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Return where a new query starts. Spark calls this twice; both results are the same."""
        if self._initial is None:
            self._initial = offset_of(self._topics.starts())
        return self._initial

    def latestOffset(self, start: Offset | None = None, limit: ReadLimit | None = None) -> Offset:  # noqa: N802
        """Return where the next batch ends. Without new records this reads one watermark in memory
        for each log, because Spark then polls every 10 ms.

        Spark writes the result to the checkpoint at once. So a log that is not the one of the
        checkpoint is refused here, before it can get in.
        """
        places = places_of(start)
        ends = self._ends(places)
        if all(places.get(name) == end for name, end in ends.items()):
            return offset_of({**places, **ends})
        for name in ends:
            self._from(name, places)
        if limit is not None and not isinstance(limit, ReadAllAvailable):
            ends = self._admitted(places, ends)
        if any(places.get(name) != end for name, end in ends.items()):
            self._triggered_s = time.monotonic()
        return offset_of({**places, **ends})

    def _ends(self, places: _Positions) -> _Positions:
        ends = {
            name: advanced(places.get(name), end, self._topics.topic(name).tail)
            for name, end in self._topics.ends().items()
        }
        if self._target is None:
            return ends
        for name, target in self._target.items():
            if name in ends and ends[name].uuid != target.uuid:
                self._target[name] = ends[name]
        return {
            name: min(end, self._target[name]) for name, end in ends.items() if name in self._target
        }

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Limit the query to the records that are present now."""
        self._target = self._topics.ends()

    def reportLatestOffset(self) -> Offset:  # noqa: N802
        """Return where the logs end, without limits, for the query's progress report."""
        return offset_of(self._topics.ends())

    # --- admission --------------------------------------------------------------------------------

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return one of the given limits, because Spark takes only one. `latestOffset` applies all
        of them.
        """
        options = self._options
        if options.max_offsets is not None:
            return ReadMaxRows(options.max_offsets)
        if options.max_bytes is not None:
            return ReadMaxBytes(options.max_bytes)
        if options.min_offsets is not None:
            return ReadMinRows(options.min_offsets)
        return ReadAllAvailable()

    def _admitted(self, places: _Positions, ends: _Positions) -> _Positions:
        """Apply the limits to [places, ends), and return the ends of the batch."""
        spans = [
            _Span(self._topics.topic(name), self._from(name, places), end.position)
            for name, end in ends.items()
        ]
        if self._waits_for_more(spans):
            return {name: places[name] for name in ends if name in places}
        options = self._options
        if options.max_offsets is not None:
            share_records(spans, options.max_offsets)
        if options.max_bytes is not None:
            share_bytes(spans, options.max_bytes)
        return {
            span.topic.name: LogPosition(span.stop, ends[span.topic.name].uuid) for span in spans
        }

    def _waits_for_more(self, spans: list[_Span]) -> bool:
        if self._options.min_offsets is None or self._target is not None:
            return False  # with availableNow, no further records come and the query would not end
        waited_s = time.monotonic() - self._triggered_s
        return (
            waited_s < self._options.max_trigger_delay_s
            and sum(span.records for span in spans) < self._options.min_offsets
        )

    def _from(self, name: str, places: _Positions) -> int:
        """Return where to continue in a log; report what is lost."""
        start, loss = resumed(places.get(name), self._topics.extent(name))
        self._topics.report(name, start, loss)
        return start

    def _to(self, name: str, place: LogPosition) -> int:
        """Return where a planned batch ends in a log; report what is lost."""
        stop, loss = ended(place, self._topics.extent(name))
        self._topics.report(name, stop, loss)
        return stop

    # --- reading ----------------------------------------------------------------------------------

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Plan what each task reads of a batch."""
        places, ends = places_of(start), places_of(end)
        self._topics.check_present(ends)
        ranges = [
            (self._topics.topic(name), self._from(name, places), self._to(name, stop))
            for name, stop in ends.items()
        ]
        return [*self._plan(ranges)]

    def stop(self) -> None:
        """Close the logs when the query ends."""
        self._topics.close()


class _Span:
    """A range of a log, which the limits of a batch shrink."""

    def __init__(self, topic: LogTopic, start: int, stop: int) -> None:
        self.topic = topic
        self.start = start
        self.stop = max(start, stop)

    @property
    def first_sequence(self) -> int:
        return self.topic.sequence_of(self.start)

    @property
    def records(self) -> int:
        return (
            self.topic.sequence_of(self.stop) - self.first_sequence if self.start < self.stop else 0
        )

    @property
    def size_bytes(self) -> int:
        return self.stop - self.start

    def keep_records(self, count: int) -> None:
        if count == 0:
            self.stop = self.start
        elif count < self.records:
            self.stop = min(self.topic.position_of(self.first_sequence + count), self.stop)

    def keep_bytes(self, size_bytes: int) -> None:
        """Keep as many whole records as fit. A binary search finds their number."""
        low, high = 0, self.records
        first = self.first_sequence
        while low < high:
            middle = (low + high + 1) // 2
            if self.topic.position_of(first + middle) - self.start <= size_bytes:
                low = middle
            else:
                high = middle - 1
        self.keep_records(low)


def share_records(spans: list[_Span], most: int) -> None:
    """Shrink ranges to `most` records in total, in proportion to the records of each log."""
    counts = [span.records for span in spans]
    total = sum(counts)
    if total <= most:
        return
    shares = [most * count // total for count in counts]
    left = most - sum(shares)
    for at, count in enumerate(counts):
        more = min(left, count - shares[at])
        left -= more
        spans[at].keep_records(shares[at] + more)


def share_bytes(spans: list[_Span], most_bytes: int) -> None:
    """Shrink ranges to `most_bytes` in total, in proportion to the bytes of each log. Headers and
    padding count. At least one record stays, because the query would otherwise not advance.
    """
    total_bytes = sum(span.size_bytes for span in spans)
    if total_bytes <= most_bytes:
        return
    before = [span.stop for span in spans]
    for span in spans:
        span.keep_bytes(most_bytes * span.size_bytes // total_bytes)
    if all(span.start == span.stop for span in spans):
        span, stop = max(zip(spans, before, strict=True), key=lambda pair: pair[1] - pair[0].start)
        span.stop = stop
        span.keep_records(min(1, span.records))
        if span.start == span.stop:
            span.stop = stop  # no record in the range: it is the rest of a segment
