"""Rolling: when a log's cycle is over, and what is done about it."""

from __future__ import annotations

import time

from commitlog._kernel.engine import Writer
from commitlog.segment.directory import LogDirectory
from commitlog.segment.mapped_file_queue import MappedFileQueue


class Rolling:
    """Ends the cycles of one writable log.

    The kernel compares the clock with the end of the cycle, as far as this handle knows it, and
    asks here when that is reached. The header of the segment in use decides: it says when the log
    rolled into it, and that is what its cycle is reckoned from, in every process. A segment is
    closed by one swap on the tail that names it, so that however many find its cycle over, it is
    closed once.

    Parameters
    ----------
    writer : Writer
        The kernel's handle.
    directory : LogDirectory
        Knows the cycle.
    queue : MappedFileQueue
        The segments.
    """

    def __init__(self, writer: Writer, directory: LogDirectory, queue: MappedFileQueue) -> None:
        self._writer = writer
        self._directory = directory
        self._queue = queue

    def close_if_over(self) -> None:
        """Close the segment in use where its cycle is over. The next append rolls, and its time
        says in which cycle the next one is.

        A clock that was set back closes nothing, and never leads back into a cycle that was left.
        """
        tail = self._writer.tail
        cycle = self._directory.roll_cycle
        if tail is None or cycle is None or tail[1] >= self._directory.segment_size:
            return
        opened_ns = self._opened_ns(tail[0])
        # One that does not say when it was opened is in no known cycle.
        end_ns = cycle.end_ns(cycle.number_at(opened_ns)) if opened_ns else 0
        if time.time_ns() < end_ns:
            self._writer.cycle_end_ns = end_ns
        else:
            self._writer.close_segment(tail[0])

    def time_after(self, number: int) -> int:
        """With what time the log rolls on from a segment: the clock's, but none before that with
        which it rolled into this one.
        """
        return max(time.time_ns(), self._opened_ns(number))

    def _opened_ns(self, number: int) -> int:
        held = self._queue.hold(number, "its cycle", briefly=True)
        if held is None:
            return 0
        file, token = held
        try:
            return file.segment.opened_ns
        finally:
            file.release(token)
