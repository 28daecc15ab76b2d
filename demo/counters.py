"""Counters in shared memory: what a process had done is still known when it was killed in the
middle of it.
"""

from __future__ import annotations

import mmap
import os

APPENDED = 0  # lines whose append has returned, counted from the start of the log
POSITION = 1  # the position that the last of those appends returned
READ = 2  # lines that the tailing process has seen
WRITER_READY = 3
READER_READY = 4
GO = 5  # the writer may begin
MEASURED = 6  # runs of the comparison that are done
_CELLS = 8


class Counters:
    """A few 64-bit cells that several processes see. Each cell has one process that writes it.

    Parameters
    ----------
    descriptor : int, optional
        What the process that made them passed on; made anew by default.

    Attributes
    ----------
    descriptor : int
        For the next process.
    cells : memoryview
        The cells. One aligned store changes one, so that a kill leaves the old number or the new
        one.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        if descriptor is None:
            # Memory without a name: the kernel frees it with its last user, however that one ends.
            descriptor = os.memfd_create("commitlog-demo")
            os.ftruncate(descriptor, _CELLS * 8)
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, _CELLS * 8)
        self.cells = memoryview(self._memory).cast("Q")

    def close(self) -> None:
        """Release the memory."""
        self.cells.release()
        self._memory.close()
        os.close(self.descriptor)
