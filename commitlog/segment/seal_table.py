"""SealTable: the seals of a log's segments, each read off its file once."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass

from commitlog._kernel.segments import read_seal
from commitlog.segment.directory import LogDirectory

# The smallest 64-bit timestamp.
TIME_SMALLEST = -(1 << 63)


@dataclass(frozen=True, slots=True)
class Seal:
    """What a finished segment says of itself: see docs/format.md."""

    segment_id: int
    crc: int
    end: int
    first_sequence: int
    record_count: int
    first_timestamp_ns: int
    last_timestamp_ns: int
    largest_timestamp_ns: int

    @property
    def largest(self) -> int:
        """The largest timestamp; below all there can be where the segment has no record."""
        return self.largest_timestamp_ns if self.record_count else TIME_SMALLEST


class SealTable:
    """The seals that are known, so that a search over a thousand segments opens none of them twice.

    A segment that reaches beyond what `certain_end` returns counts as not sealed: recovery may cut
    it.
    """

    def __init__(
        self, directory: LogDirectory, certain_end: Callable[[], int] | None = None
    ) -> None:
        self._directory = directory
        self._certain_end = certain_end
        self._seals: dict[int, Seal] = {}
        self._from = 0
        # The running maximum of the largest timestamps, from segment `_from` on.
        self._largest: list[int] = []

    def get(self, number: int) -> Seal | None:
        """The seal of a segment; None where it is not sealed (yet), or not there."""
        seal = self._seals.get(number)
        if seal is None:
            seal = self._read(number)
            if seal is not None:
                self._seals[number] = seal
        return seal

    def _read(self, number: int) -> Seal | None:
        page = self._directory.read_header(number)
        if page is None:
            return None
        base = number * self._directory.segment_size
        if (
            self._certain_end is not None
            and base + self._directory.segment_size > self._certain_end()
        ):
            return None
        found = read_seal(page, self._directory.log_uuid, base, self._directory.segment_size)
        return None if found is None else Seal(*found)

    def sealed_before(self, first: int, stop: int) -> int:
        """The first number in [first, stop) that is not sealed, or `stop`; seals ascend."""
        unsealed = range(first, stop)
        return first + bisect.bisect_left(
            unsealed, True, key=lambda number: self.get(number) is None
        )

    def first_since(self, timestamp_ns: int, first: int, stop: int) -> int:
        """The first of the sealed segments [first, stop) that has a record with that timestamp or a
        larger one, or `stop`.

        Timestamps may step back from one segment to the next, so what is searched is their running
        maximum.
        """
        if self._from != first:
            self._from, self._largest = first, []
            for number in [number for number in self._seals if number < first]:
                del self._seals[number]
        for number in range(first + len(self._largest), stop):
            seal = self.get(number)
            largest = seal.largest if seal is not None else TIME_SMALLEST
            self._largest.append(max(largest, self._largest[-1]) if self._largest else largest)
        return min(first + bisect.bisect_left(self._largest, timestamp_ns), stop)
