"""Growing: the files of segments that are not whole yet, extended as the log grows."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from commitlog.base.regular_file import write_whole
from commitlog.errors import IOFailureError, ReplicationError
from commitlog.remote.update import Update


class Growing:
    """Extend the fetched segments that the log's end has not passed: usually one, or none.

    Their readers wait for records, so each byte below a watermark must be in the file before the
    watermark rises. The caller holds `lock` meanwhile.

    Parameters
    ----------
    segment_size : int
        Bytes.
    refused : callable
        Returns the error for a segment that the folder cannot take.
    read : callable
        Reads ranges of positions from the server.
    """

    def __init__(
        self,
        segment_size: int,
        refused: Callable[[int, OSError], IOFailureError],
        read: Callable[[list[tuple[int, int]], Any], None],
    ) -> None:
        self.lock = threading.Lock()
        self._size = segment_size
        self._refused = refused
        self._read = read
        self._files: dict[int, tuple[int, int]] = {}  # descriptor, and up to where it is filled

    @property
    def end(self) -> int | None:
        """Return where the bytes of the last file end; None if there is none."""
        with self.lock:
            number = max(self._files, default=None)
            return None if number is None else number * self._size + self._files[number][1]

    def add(self, number: int, fd: int, filled: int) -> None:
        """Extend a segment's file from now on; `fd` stays the caller's."""
        self._drop(number)
        self._files[number] = os.dup(fd), filled

    def extend(self, update: Update, committed: int) -> None:
        """Write the bytes below a watermark, from the update or from the server."""
        for number in list(self._files):
            self._extend(number, update, committed)

    def _extend(self, number: int, update: Update, committed: int) -> None:
        fd, filled = self._files[number]
        base = number * self._size
        stop = min(self._size, committed - base)
        if update.position == base + filled and update.content:
            filled = self._write(number, fd, update)
        if filled < stop:
            self._read([(base + filled, base + stop)], lambda part: self._write(number, fd, part))
            filled = stop
        self._files[number] = fd, filled
        if filled >= self._size:
            self._drop(number)

    def _write(self, number: int, fd: int, update: Update) -> int:
        offset = update.position - number * self._size
        end = offset + len(update.content)
        if not 0 <= offset <= end <= self._size:
            raise ReplicationError("the server sent bytes beyond their segment")
        try:
            write_whole(fd, memoryview(update.content), offset)
        except OSError as error:
            raise self._refused(number, error) from error
        return end

    def _drop(self, number: int) -> None:
        known = self._files.pop(number, None)
        if known is not None:
            os.close(known[0])

    def close(self) -> None:
        """Release the files."""
        with self.lock:
            for number in list(self._files):
                self._drop(number)
