"""Growing: the end of a log that grows in another place, as its readers here see it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from commitlog._kernel.memory import MODE_POOLED, STATE_READY, Cursors
from commitlog._kernel.segments import HEADER_SIZE
from commitlog.base.boot import boot_id
from commitlog.base.host import host
from commitlog.base.regular_file import write_whole
from commitlog.errors import CorruptSegmentError, IOFailureError
from commitlog.segment import cursors_file
from commitlog.segment.directory import LogDirectory

_BLOCK_BYTES = 16 << 20  # of one call

Take = Callable[[int, bytes | memoryview], None]


class Growing:
    """The watermarks of a log, and the fetched segments that its end has not passed: usually one.

    Readers wait for records, so each byte below a watermark is in its file before the watermark
    rises.

    Parameters
    ----------
    folder : LogDirectory
        The segments, and the file of watermarks, which this makes.
    refused : callable
        Returns the error for a segment that the folder cannot take.
    read : callable
        Reads ranges of positions from the source.

    Attributes
    ----------
    cells : Cursors
        The watermarks, as a pooled log's readers see them: they wait at its end.
    """

    def __init__(
        self,
        folder: LogDirectory,
        refused: Callable[[int, OSError], IOFailureError],
        read: Callable[[Iterable[tuple[int, int]], Take], None],
    ) -> None:
        self._lock = host.lock()
        self.folder = folder
        self._size = folder.segment_size
        self._refused = refused
        self._read = read
        self._files: dict[int, tuple[int, int]] = {}  # descriptor, and up to where it is filled
        file = cursors_file.open_writable(folder.fd, folder.identity)
        self.cells: Cursors = file.cells
        self.cells.rebuild(folder.log_uuid, boot_id(), file.inode, self._size)
        self.cells.mode = MODE_POOLED
        self.cells["state"] = STATE_READY

    @property
    def committed(self) -> int:
        """The end of what readers see."""
        return int(self.cells["committed"])

    @property
    def wanted(self) -> int | None:
        """Where the bytes of the last file end, if a reader is there; None: it wants none."""
        with self._lock:
            number = max(self._files, default=None)
            return None if number is None else number * self._size + self._files[number][1]

    def take(
        self, committed: int, flushed: int, position: int = 0, content: bytes | memoryview = b""
    ) -> None:
        """Write the bytes below a watermark, which begin at `position` or are read from the source;
        then show them to readers. A watermark never falls.
        """
        cells = self.cells
        committed = max(committed, self.committed)
        with self._lock:
            for number in list(self._files):
                self._extend(number, position, content, committed)
            cells["appended"] = cells["committed"] = committed
        cells.end_flush(max(min(flushed, committed), int(cells["flushed"])))
        cells.wake_readers()

    def fill(self, number: int, fd: int) -> None:
        """Write what there is of a segment to a file, and extend it from now on."""
        base, size = number * self._size, self._size
        os.posix_fallocate(fd, 0, size)  # a full disk would end a read of a hole by SIGBUS

        def end() -> int:
            return min(size, max(HEADER_SIZE, self.committed - base))

        filled = 0
        while filled < end():
            stop = min(end(), filled + _BLOCK_BYTES)
            self._fetch(number, fd, filled, stop)
            filled = stop
        with self._lock:
            if filled < size:
                self._drop(number)
                self._files[number] = os.dup(fd), filled

    def _extend(
        self, number: int, position: int, content: bytes | memoryview, committed: int
    ) -> None:
        fd, filled = self._files[number]
        base = number * self._size
        stop = min(self._size, committed - base)
        if position == base + filled and content:
            filled = self._write(number, fd, position, content)
        if filled < stop:
            self._fetch(number, fd, filled, stop)
            filled = stop
        self._files[number] = fd, filled
        if filled >= self._size:
            self._drop(number)

    def _fetch(self, number: int, fd: int, start: int, stop: int) -> None:
        base = number * self._size
        self._read(
            [(base + start, base + stop)],
            lambda position, content: self._put(number, fd, position, content),
        )

    def _put(self, number: int, fd: int, position: int, content: bytes | memoryview) -> None:
        self._write(number, fd, position, content)

    def _write(self, number: int, fd: int, position: int, content: bytes | memoryview) -> int:
        offset = position - number * self._size
        end = offset + len(content)
        if not 0 <= offset <= end <= self._size:
            raise CorruptSegmentError(
                f"the source gave {len(content)} bytes at position {position}, beyond the segment "
                f"at {number * self._size}: open the log again, or report it to its author",
                path=self.folder.path,
                position=position,
            )
        try:
            write_whole(fd, memoryview(content), offset)
        except OSError as error:
            raise self._refused(number, error) from error
        return end

    def _drop(self, number: int) -> None:
        known = self._files.pop(number, None)
        if known is not None:
            os.close(known[0])

    def close(self) -> None:
        """Release the files."""
        with self._lock:
            for number in list(self._files):
                self._drop(number)
