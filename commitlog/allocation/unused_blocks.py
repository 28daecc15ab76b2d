"""UnusedBlocks: what a segment that was closed early has allocated and will never hold goes back to
the disk.
"""

from __future__ import annotations

import contextlib
import os

from commitlog._kernel.failure import ROLLED_BACK
from commitlog._kernel.segments import HEADER_SIZE, Segment, punch_hole
from commitlog.segment.mapped_file_queue import MappedFileQueue

_CELL = 8
# Less is not given back: a page or two are not worth a system call and a fragment.
_WORTH_BYTES = 64 << 10


class UnusedBlocks:
    """Gives back the blocks behind the records of sealed segments. Their files stay as long as they
    were: what is gone reads as zeros.
    """

    def __init__(self, queue: MappedFileQueue) -> None:
        self._directory = queue.directory
        self._queue = queue
        self._next: int | None = None

    def give_back_below(self, number: int) -> None:
        """Go through the segments below a number that were not looked at before. They are sealed,
        and their ends are durable, so that no recovery has the log go on inside one of them. Where
        the file system cannot make holes, they stay as they are.
        """
        if number <= 0 or (self._next is not None and self._next >= number):
            return
        if self._next is None:
            # First, segments left by a killed process: go back from the last one to the first
            # without unused blocks.
            self._next = number
            while self._queue.first_number < self._next and self._give_back(self._next - 1):
                self._next -= 1
            self._next = number
        while self._next < number:
            self._give_back(self._next)
            self._next += 1

    def _give_back(self, number: int) -> bool:
        with self._queue.held(number, "unused blocks") as segment:
            if segment is None:
                return False
            start = _behind_last(segment)
        size = self._directory.segment_size
        if start >= size or self._directory.disk_bytes(number) < start + _WORTH_BYTES:
            return False
        with (
            contextlib.suppress(OSError),  # deleted meanwhile
            self._directory.opened_file(number, os.O_RDWR) as fd,
        ):
            return bool(punch_hole(fd, start, size))
        return False


def _behind_last(segment: Segment) -> int:
    """The first whole page behind the SKIP to a sealed segment's end, or the segment's size."""
    seal = segment.sealed()
    offset = segment.size if seal is None else seal[0]
    while offset < segment.size:
        # After the last record there may be other SKIP frames, of claims that were rolled back.
        code, step = segment.step(offset)
        if code != ROLLED_BACK:
            return segment.size
        if offset + step >= segment.size:
            return -(-(offset + _CELL) // HEADER_SIZE) * HEADER_SIZE
        offset += step
    return segment.size
