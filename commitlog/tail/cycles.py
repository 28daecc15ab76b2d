"""LogCycles: the segments and records of each cycle of a log."""

from __future__ import annotations

import datetime as dt
import itertools
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from commitlog._kernel.segments import HEADER_SIZE, read_opened
from commitlog.base.cycle_clock import CycleClock
from commitlog.base.moment import nanoseconds_of, utc_datetime
from commitlog.errors import InvalidOptionError
from commitlog.tail.index import LogIndex

CycleLike = int | dt.datetime | dt.date
_NUMBER_MOST = 1 << 62


@dataclass(frozen=True)
class Cycle:
    """Describe a cycle of a log; in a log that rolls by size alone, one segment.

    Attributes
    ----------
    number : int or None
        The number of the cycle; None if the log rolls by size alone.
    start, end : datetime.datetime or None
        When the cycle begins and ends, in the log's time zone. For a segment: when the log rolled
        into it and out of it; None if that is not known (yet).
    over : bool
        Whether the log has rolled past it, so that it gets no more records.
    files : tuple of str
        The paths of its segments, oldest first.
    first_position, end_position : int
        Its first position, and its current end, exclusive.
    records : int
        The number of visible records.
    bytes : int
        The size of its frames, including padding and rolled-back claims. A full segment that the
        log has not sealed yet counts whole.
    disk_bytes : int
        The disk space of its files.
    """

    number: int | None
    start: dt.datetime | None
    end: dt.datetime | None
    over: bool
    files: tuple[str, ...]
    first_position: int
    end_position: int
    records: int
    bytes: int
    disk_bytes: int


class LogCycles:
    """Find the cycles of one open log, by binary search: cycles ascend from segment to segment."""

    def __init__(self, index: LogIndex) -> None:
        self._index = index
        self._queue = index.queue
        self._core = index.queue.core
        self._directory = index.queue.directory
        self._opened: dict[int, int] = {}

    def cycles(self) -> list[Cycle]:
        """List the cycles that have segments, oldest first, without past cycles that are empty."""
        spans = list(self._spans())
        counted = self._index.end()[0]
        found = [self._describe(*span, last=span is spans[-1]) for span in spans]
        return [
            cycle
            for cycle in found
            if cycle.number is None
            or cycle.records
            or not cycle.over
            or cycle.end_position > counted
        ]

    def records_in(self, cycle: CycleLike) -> int:
        """Count a cycle's records; 0 if it was skipped or deleted, or is in the future."""
        number = self.number_of(cycle)
        first, stop = self.first_segment(number), self.first_segment(number + 1)
        return self._sequence(stop) - self._sequence(first) if first < stop else 0

    def number_of(self, cycle: object) -> int:
        """Return the number of a cycle that the caller names by number, by instant or by day."""
        clock = self._clock()
        if isinstance(cycle, dt.datetime):
            if cycle.tzinfo is None:
                raise InvalidOptionError(
                    f"cycle must have a time zone, and {cycle!r} has none: use replace(tzinfo=...)",
                    path=self._directory.path,
                )
            return clock.number_at(nanoseconds_of(cycle))
        if isinstance(cycle, dt.date):
            return clock.number_at(clock.midnight_ns(cycle))
        if (
            isinstance(cycle, int)
            and not isinstance(cycle, bool)
            and -_NUMBER_MOST <= cycle <= _NUMBER_MOST
        ):
            return cycle
        raise InvalidOptionError(
            f"cycle must be an int, a datetime with a time zone or a date, not {cycle!r}",
            path=self._directory.path,
        )

    def first_segment(self, cycle: int) -> int:
        """Return the first segment of a cycle or of a later one, or the number behind the last."""
        first = self._queue.first_number
        return first + bisect_left(range(first, self._stop()), cycle, key=self._cycle_of)

    # --- segments ---------------------------------------------------------------------------------

    def _clock(self) -> CycleClock:
        clock = self._directory.cycle_clock
        if clock is None:
            raise InvalidOptionError(
                "this log was created without roll_cycle and has no cycles: use "
                "seek(timestamp=...)",
                path=self._directory.path,
            )
        return clock

    def _stop(self) -> int:
        number = self._core.tail_position // self._directory.segment_size
        return number + 1 if self._opened_ns(number) else number

    def _opened_ns(self, number: int) -> int:
        """Return when the log rolled into a segment; 0 if it has not, or the header is damaged."""
        opened_ns = self._opened.get(number, 0)
        if opened_ns == 0:
            page = self._directory.read_header(number)
            opened = None if page is None else read_opened(page)
            if opened is not None:
                opened_ns = self._opened[number] = opened[0]
        return opened_ns

    def _cycle_of(self, number: int) -> int:
        """Return a segment's cycle.

        If its header has no time, that is its predecessor's cycle, or its successor's for the
        oldest segment.
        """
        clock = self._clock()
        first, stop = (
            self._queue.first_number,
            self._core.tail_position // self._directory.segment_size + 1,
        )
        for candidate in itertools.chain(range(number, first - 1, -1), range(number + 1, stop)):
            opened_ns = self._opened_ns(candidate)
            if opened_ns:
                return clock.number_at(opened_ns)
        return 0

    def _spans(self) -> Iterator[tuple[int | None, int, int]]:
        """Yield each cycle, its first segment and the number behind its last."""
        first, stop = self._queue.first_number, self._stop()
        if self._directory.cycle_clock is None:
            yield from ((None, number, number + 1) for number in range(first, stop))
            return
        while first < stop:
            cycle = self._cycle_of(first)
            behind = first + 1
            while behind < stop and self._cycle_of(behind) == cycle:
                behind += 1
            yield cycle, first, behind
            first = behind

    def _describe(self, cycle: int | None, first: int, stop: int, *, last: bool) -> Cycle:
        size = self._directory.segment_size
        start, end = self._window(cycle, first, stop)
        end_position = min(stop * size, self._core.tail_position)
        closed = end_position // size >= stop
        return Cycle(
            number=cycle,
            start=start,
            end=end,
            over=not last or (cycle is None and closed),
            files=tuple(self._directory.segment_path(number) for number in range(first, stop)),
            first_position=first * size + HEADER_SIZE,
            end_position=end_position,
            records=self._sequence(stop) - self._sequence(first),
            bytes=sum(self._used_bytes(number) for number in range(first, stop)),
            disk_bytes=sum(self._directory.disk_bytes(number) for number in range(first, stop)),
        )

    def _window(
        self, cycle: int | None, first: int, stop: int
    ) -> tuple[dt.datetime | None, dt.datetime | None]:
        clock = self._directory.cycle_clock
        if clock is not None and cycle is not None:
            return clock.show(clock.start_ns(cycle)), clock.show(clock.end_ns(cycle))
        times_ns = self._opened_ns(first), self._opened_ns(stop)
        start, end = (utc_datetime(time_ns) if time_ns else None for time_ns in times_ns)
        return start, end

    def _used_bytes(self, number: int) -> int:
        seal = self._index.seals.get(number)
        if seal is not None:
            return seal.end - HEADER_SIZE
        size = self._directory.segment_size
        return max(0, min(self._core.tail_position - number * size, size) - HEADER_SIZE)

    def _sequence(self, number: int) -> int:
        """Return the sequence of the first record from a segment on, or where counting ends."""
        position, sequence = self._index.end()
        return (
            sequence
            if number > position // self._directory.segment_size
            else self._index.first_sequence(number)
        )
