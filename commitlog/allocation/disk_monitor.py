"""DiskMonitor: the free space of the log's file system, a warning when it is low, and the limit at
which new segments are refused.
"""

from __future__ import annotations

import errno
import itertools
import logging
import os
from typing import Literal

from commitlog.base.later_log import LaterLog
from commitlog.errors import ClosedError, DiskFullError
from commitlog.options import Options
from commitlog.segment.directory import LogDirectory

DiskState = Literal["fine", "low", "full"]
_logger = logging.getLogger("commitlog")
_WARN_SEGMENTS = 4


def free_bytes(directory: LogDirectory) -> int:
    """Return the free space of a log's file system for this user; 0 if the path of a closed log is
    gone.
    """
    try:
        try:
            status = os.fstatvfs(directory.fd)
        except ClosedError:
            status = os.statvfs(directory.path)
    except FileNotFoundError:
        return 0
    return status.f_bavail * status.f_frsize


class DiskMonitor:
    """Checks the file system at intervals and before each new segment: an append costs nothing
    more.

    A segment has its blocks before an append needs them, so on a full disk only the next segment is
    refused. `report` logs the changes.
    """

    def __init__(self, directory: LogDirectory, options: Options) -> None:
        self._directory = directory
        self._least: int = options.min_free_bytes
        warn = options.tuning.warn_free_bytes
        # Above the limit at which appends stop, so that the warning comes first.
        self._warn: int = (
            self._least + _WARN_SEGMENTS * directory.segment_size if warn is None else warn
        )
        self._wanted = directory.segment_size  # bytes that the last allocation asked for
        self._refused = False
        # The service thread and an appender that rolls both read, without a lock. Readings are
        # numbered, so that an older one does not overwrite the result of a newer one.
        self._numbers = itertools.count(1)
        self._newest = 0
        self._log = LaterLog(_logger)
        self.state: DiskState = "fine"

    def look(self) -> None:
        """Check whether space is low, or sufficient again."""
        number, free = self._read()
        if not self._refused:
            full = self.state == "full" and not self._has_room(free)
            self._change(number, "full" if full else "low" if free < self._warn else "fine", free)

    def _read(self) -> tuple[int, int]:
        number = next(self._numbers)
        return number, free_bytes(self._directory)

    def _has_room(self, free: int) -> bool:
        return free - self._wanted >= self._least

    def admit(self, size: int) -> None:
        """Refuse new blocks that would leave less space than `min_free_bytes`."""
        self._wanted = size
        if not self._least:
            return
        number, free = self._read()
        if self._has_room(free):
            return
        self._change(number, "full", free)
        raise DiskFullError(
            f"{free} bytes are free, and {size} bytes for records would leave less than "
            f"min_free_bytes={self._least}: free space and append again",
            path=self._directory.path,
            errno=errno.ENOSPC,
        )

    def note_refusal(self) -> None:
        """Record that the file system refused an allocation. This ends only when it makes one: the
        free space that it reports may not be usable.
        """
        self._refused = True
        number, free = self._read()
        self._change(number, "full", free)

    def note_success(self) -> None:
        """Record that an allocation succeeded."""
        self._refused = False
        self.look()

    def _change(self, number: int, state: DiskState, free: int) -> None:
        if number < self._newest:
            return
        self._newest = number
        if state == self.state:
            return
        self.state = state
        path, size = self._directory.path, self._wanted
        if state == "full":
            self._log.note(
                logging.ERROR,
                "%s: no room for another %d bytes of records, %d are free: appends will be refused",
                path,
                size,
                free,
            )
        elif state == "low":
            self._log.note(
                logging.WARNING,
                "%s: %d bytes are free on its disk, less than %d: delete old segments, or free "
                "space",
                path,
                free,
                self._warn,
            )
        else:
            self._log.note(logging.INFO, "%s: %d bytes are free on its disk again", path, free)

    def report(self) -> None:
        """Log the changes since the last call. Call this while no lock is held."""
        self._log.report()
