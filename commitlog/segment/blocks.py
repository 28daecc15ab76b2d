"""Blocks: the disk blocks of a segment, and their allocation.

A segment gets all of its blocks when it is created, but for the first one of a log: that is a hole
behind its first blocks, and gets twice as many each time that the appends need more. Claims stay
below the blocks, because in a hole a full disk would turn a store through a mapping into SIGBUS.
"""

from __future__ import annotations

import contextlib
import os

from commitlog._kernel.failure import ROLLED_BACK
from commitlog._kernel.segments import FRAME_ALIGN, HEADER_SIZE, Segment, punch_hole
from commitlog.base.path import translate_errors
from commitlog.segment.directory import LogDirectory
from commitlog.segment.mapped_file_queue import MappedFileQueue

# Bytes allocated for a new log's first segment. The log also takes 64 KiB for `cursors` and a few
# pages.
FIRST_BYTES = 2 << 20


def blocks_for(segment_size: int, end: int) -> int:
    """Return how many bytes of a segment get blocks for claims up to `end` and for a cell behind
    them.
    """
    allocated = FIRST_BYTES
    while allocated < end + FRAME_ALIGN:
        allocated *= 2
    return min(allocated, segment_size)


def make_solid(
    directory: LogDirectory, number: int, stop: int | None = None, *, start: int = 0
) -> None:
    """Give a segment all of its blocks, or those of [start, stop): a copied file may have holes,
    and a full disk would turn an append into one into SIGBUS.
    """
    stop = directory.segment_size if stop is None else stop
    with (
        translate_errors(
            directory.segment_path(number),
            "allocate blocks of the segment in use",
            permission="open with mode 'r', or mount the disk for writing",
        ),
        directory.opened_file(number, os.O_RDWR) as fd,
    ):
        os.posix_fallocate(fd, start, stop - start)


def make_ready(directory: LogDirectory, number: int, offset: int) -> int:
    """Give the segment in which a log continues at `offset` blocks for the next claims; return the
    offset up to which it has blocks. A segment with all of its blocks keeps them.
    """
    allocated = size = directory.segment_size
    if directory.disk_bytes(number) < size:
        allocated = blocks_for(size, offset)
    make_solid(directory, number, allocated)
    return allocated


_CELL = 8
# Fewer are kept: a page or two are not worth a system call and a fragment.
_WORTH_BYTES = 64 << 10


class UnusedBlocks:
    """Gives back the blocks behind the records of sealed segments. Their files keep their length:
    the freed part reads as zeros.
    """

    def __init__(self, queue: MappedFileQueue) -> None:
        self._directory = queue.directory
        self._queue = queue
        self._next: int | None = None

    def give_back_below(self, number: int) -> None:
        """Free the blocks of the segments below a number that were not checked before. They are
        sealed, and their ends are durable, so that no recovery continues the log inside one of
        them. If the file system cannot make holes, they stay as they are.
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
    """Return the offset of the first whole page behind the cell of a sealed segment's closing SKIP,
    or the segment's size.
    """
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
