"""Counters in shared memory: they hold what a process has done, even after it was killed."""

from __future__ import annotations

import mmap
import os

APPENDED = 0  # lines whose append has returned, counted from the start of the log
POSITION = 1  # the position that the last of those appends returned
READ = 2  # lines that the tailing process has seen
WRITER_READY = 3
READER_READY = 4
GO = 5  # the writer may begin
MEASURED = 6  # finished runs of the comparison
_CELLS = 8


class Counters:
    """Share 64-bit cells between processes. Only one process writes each cell.

    Parameters
    ----------
    descriptor : int, optional
        The descriptor of existing cells. None creates new ones.

    Attributes
    ----------
    descriptor : int
        The descriptor to pass to another process.
    cells : memoryview
        The cells. A write is one aligned store, so a kill leaves the old or the new number.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        if descriptor is None:
            # The kernel frees anonymous memory with its last user, even if that one is killed.
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
