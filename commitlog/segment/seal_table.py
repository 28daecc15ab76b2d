"""SealTable: the seals of a log's segments, each read once."""

from __future__ import annotations

import bisect
from collections.abc import Callable

from commitlog.segment.directory import LogDirectory
from commitlog.segment.segment_header import TIME_SMALLEST, Seal, SegmentHeader


def read_seal(directory: LogDirectory, number: int) -> Seal | None:
    """Return the seal of a segment, from its file; None if it is not sealed, or missing."""
    page = directory.read_header(number)
    if page is None:
        return None
    return SegmentHeader(page).seal_of(directory.identity, number)


def first_unsealed(directory: LogDirectory, below: int) -> tuple[int, int]:
    """Return the first unsealed segment below a number, or that number, and the sequence of its
    first record. The very first segment of a log starts at 0.
    """
    number = below
    while number > 0 and directory.has(number - 1):
        seal = read_seal(directory, number - 1)
        if seal is not None:
            return number, seal.next_sequence
        number -= 1
    return number, 0


class SealTable:
    """The known seals, so that a search over a thousand segments opens none of them twice.

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
        """Return the seal of a segment; None if it is not sealed, or missing."""
        seal = self._seals.get(number)
        if seal is None:
            end = (number + 1) * self._directory.segment_size
            if self._certain_end is not None and end > self._certain_end():
                return None
            seal = read_seal(self._directory, number)
            if seal is not None:
                self._seals[number] = seal
        return seal

    def sealed_before(self, first: int, stop: int) -> int:
        """Return the first number in [first, stop) that is not sealed, or `stop`; segments are
        sealed in ascending order.
        """
        unsealed = range(first, stop)
        return first + bisect.bisect_left(
            unsealed, True, key=lambda number: self.get(number) is None
        )

    def first_since(self, timestamp_ns: int, first: int, stop: int) -> int:
        """Return the first of the sealed segments [first, stop) that has a record with that
        timestamp or a larger one, or `stop`.

        Timestamps may step back from one segment to the next, so the search is over their running
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
