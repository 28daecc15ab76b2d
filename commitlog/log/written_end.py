"""WrittenEnd: whether the path of a log still leads to the files that its writer has open.

A backup may be restored over a log that is open, by a new directory, by new files in it, or by
other content of the same files. What is written then is not in the log that the next program opens.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from commitlog._kernel.segments import HEADER_SIZE
from commitlog.segment import identity as identities
from commitlog.segment.directory import LogDirectory, segment_name

_MOST = 64  # bytes that are compared; the CRC of a frame is at its beginning
_BACK = 4096  # in which the end of a log that was just opened is compared


class _Written(NamedTuple):
    number: int
    offset: int
    content: bytes


class WrittenEnd:
    """Compare the end of a log with what was written there last, and with what was before it.

    Parameters
    ----------
    directory : LogDirectory
        Of the log.
    number, offset : int
        Where the log ends: a segment, and the offset in it.
    """

    def __init__(self, directory: LogDirectory, number: int, offset: int) -> None:
        self._directory = directory
        self._path = os.path.realpath(directory.path)  # the working directory may change
        if offset <= HEADER_SIZE and directory.has(number - 1):
            number, offset = number - 1, directory.segment_size
        start = max(HEADER_SIZE, offset - _BACK)
        found = self._read(number, start, offset - start) or b""
        # Two of them: content that is written over the files does not have the first.
        self._before = self._last = _Written(number, start, found if any(found) else b"")

    def note(self, number: int, offset: int, content: bytes | memoryview) -> None:
        """Note frames that were written at the end of the log."""
        self._before, self._last = self._last, _Written(number, offset, bytes(content[:_MOST]))

    def is_there(self) -> bool:
        """Return whether the log at the path has what was noted last; it takes some microseconds.

        What retention has deleted since then says nothing.
        """
        try:
            status = os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        if (status.st_dev, status.st_ino) != self._directory.inode:
            return False
        return self._has(self._before) and self._has(self._last)

    def _has(self, written: _Written) -> bool:
        if not written.content:
            return True
        found = self._read(written.number, written.offset, len(written.content))
        if found is not None:
            return found == written.content
        # Retention deletes the oldest segments; a backup lacks the newest.
        numbers = self._directory.segment_numbers()
        if not numbers:
            return self._directory.has_file(identities.NAME)
        return numbers[0] > written.number

    def _read(self, number: int, offset: int, size: int) -> bytes | None:
        """Read by the name of a segment, in the directory: its path was compared."""
        name = segment_name(number * self._directory.segment_size)
        try:
            fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._directory.fd)
        except FileNotFoundError:
            return None
        try:
            return os.pread(fd, size, offset)
        finally:
            os.close(fd)
