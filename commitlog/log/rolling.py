"""Rolling: close the current segment when its cycle is over."""

from __future__ import annotations

import time

from commitlog._kernel.engine import Writer
from commitlog.segment.mapped_file_queue import MappedFileQueue


class Rolling:
    """End the cycles of one writable log.

    The kernel compares the clock with the cycle's end that this handle knows, and calls the policy
    when the end is reached. The header of the current segment then decides: it holds the time at
    which the log rolled into the segment, so every process computes the same cycle. One swap on the
    tail closes the segment, so it is closed once even if several handles find its cycle over.
    """

    def __init__(self, writer: Writer, queue: MappedFileQueue) -> None:
        self._writer = writer
        self._directory = queue.directory
        self._queue = queue

    def close_if_over(self) -> None:
        """Close the current segment if its cycle is over; the next append then rolls.

        A clock that was set back closes nothing and never reopens an earlier cycle.
        """
        tail = self._writer.tail
        cycle = self._directory.roll_cycle
        if tail is None or cycle is None or tail[1] >= self._directory.segment_size:
            return
        opened_ns = self._opened_ns(tail[0])
        # A segment without a time is in no known cycle.
        end_ns = cycle.end_ns(cycle.number_at(opened_ns)) if opened_ns else 0
        if time.time_ns() < end_ns:
            self._writer.cycle_end_ns = end_ns
        else:
            self._writer.close_segment(tail[0])

    def time_after(self, number: int) -> int:
        """Return the time of the roll from a segment: now, but not before the last roll."""
        return max(time.time_ns(), self._opened_ns(number))

    def _opened_ns(self, number: int) -> int:
        with self._queue.held(number, "its cycle") as segment:
            return 0 if segment is None else segment.opened_ns
