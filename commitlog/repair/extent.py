"""The extent of a log: its recorded end, which `checkpoint` has, and `cursors` if they are of this
boot; the gaps in the numbering of its segments, and the empty segments that fill them.
"""

from __future__ import annotations

import os
import time

from commitlog._kernel import segments as kernel
from commitlog._kernel.memory import MODE_MAPPED, STATE_NONE, STATE_READY, Cursors
from commitlog._kernel.segments import HEADER_SIZE, Frames
from commitlog.base.failpoint import failpoint
from commitlog.errors import (
    CorruptSegmentError,
    DiskFullError,
    PositionError,
    UnsupportedVersionError,
)
from commitlog.flush import checkpoint as checkpoints
from commitlog.recovery.location import AHEAD_LIMIT
from commitlog.segment import cursors_file
from commitlog.segment.directory import LogDirectory, holes, is_base

_WATERMARKS = ("appended", "committed", "flushed")


class RecordedEnd:
    """The recorded end of a log that is not open; `checkpoint` is the latest valid one."""

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory
        self.checkpoint = checkpoints.read(directory.fd, directory.log_uuid)
        found = cursors_file.find(directory.fd, directory.identity)
        usable = found is not None and found.usable and found.cells["state"] != STATE_NONE
        self._cursors: Cursors | None = found.cells if found is not None and usable else None

    @property
    def clean(self) -> bool:
        return self.checkpoint is not None and self.checkpoint.clean

    @property
    def known(self) -> int:
        """Return the position of the checkpoint; 0 if there is none."""
        return 0 if self.checkpoint is None else self.checkpoint.position

    @property
    def last_number(self) -> int | None:
        """Return the number of the last segment that the log can have, those created ahead of need
        included. None if it is unknown: the log was not closed, and its `cursors` are lost.
        """
        size = self._directory.segment_size
        if self.clean:
            return self.known // size + AHEAD_LIMIT
        if (
            self._cursors is not None
            and self._cursors["state"] == STATE_READY
            and self._cursors.mode == MODE_MAPPED
        ):
            return max(self.known, self._tail(self._cursors)) // size + AHEAD_LIMIT
        return None

    def _tail(self, cursors: Cursors) -> int:
        (number, offset), size = cursors.tail, self._directory.segment_size
        return number * size + min(offset, size)

    def hidden(self) -> list[tuple[str, int, int]]:
        """Return the recorded ends that are inside a SKIP, where no reader comes: the file that
        records the end, the end, and the position behind the SKIP.
        """
        ends = [(checkpoints.NAME, self.known)]
        if self._cursors is not None and not self.clean:
            mapped = self._cursors.mode == MODE_MAPPED
            ends.append(
                (
                    cursors_file.NAME,
                    self._tail(self._cursors) if mapped else self._cursors["committed"],
                )
            )
        found = []
        for name, position in ends:
            try:
                landing = self._directory.landing(position)
            except (CorruptSegmentError, PositionError, UnsupportedVersionError):
                continue  # its segment is damaged or gone
            if landing != position:
                found.append((name, position, landing))
        return found

    def distrust(self) -> None:
        """Remove the clean mark, durably, and invalidate the cursors of a closed log, before a
        segment changes: the next open then searches the end itself. The caller holds the exclusive
        lock of the log.
        """
        if self.checkpoint is not None and self.checkpoint.clean:
            if self._cursors is not None:
                self._cursors["state"] = STATE_NONE
                self._cursors = None
            self._write(self.checkpoint.position)
        failpoint("distrusted")

    def move(self, name: str, position: int) -> None:
        """Record another end in one of the files. The caller holds the log's exclusive lock."""
        if name == checkpoints.NAME:
            self._write(position)
        elif self._cursors is not None:
            self._cursors.tail = divmod(position, self._directory.segment_size)
            for watermark in _WATERMARKS:
                self._cursors[watermark] = position

    def _write(self, position: int) -> None:
        # In both records of the file: if one sector is lost, the old end must not come back.
        for _ in range(2):
            checkpoints.write(self._directory.fd, self._directory.log_uuid, position, clean=False)
        self.checkpoint = checkpoints.read(self._directory.fd, self._directory.log_uuid)


# An empty segment takes two pages on the disk: its header, and the page of its SKIP.
_BLANK_BYTES = 2 * HEADER_SIZE


def last_possible(directory: LogDirectory, recorded: RecordedEnd, numbers: list[int]) -> int:
    """Return the number of the last segment that a log can have, those created ahead of need
    included.

    The recorded end gives it. If that is unknown, the checkpoint may lag, so the last segment with
    a header of this log counts as well.
    """
    if recorded.last_number is not None:
        return recorded.last_number
    reached = recorded.known // directory.segment_size
    return (
        max([reached, *(number for number in numbers if _is_own(directory, number))]) + AHEAD_LIMIT
    )


def _is_own(directory: LogDirectory, number: int) -> bool:
    size = directory.segment_size
    page = directory.read_header(number)
    return (
        page is not None
        and len(page) == HEADER_SIZE
        and kernel.check_header(page, directory.log_uuid, number * size, size) == 0
    )


def within_reach(numbers: list[int], last: int) -> list[int]:
    """Return the segments up to the last possible one, and those behind it without a gap."""
    for at, number in enumerate(numbers):
        if number > last and (at == 0 or numbers[at - 1] != number - 1):
            return numbers[:at]
    return numbers


def find_missing(numbers: list[int], size: int, known: int) -> list[tuple[int, int]]:
    """Return the first number and the length of each gap, also of that below the durable end."""
    missing = [(start // size, (stop - start) // size) for start, stop in holes(numbers, size)]
    end = -(-known // size)
    if not is_base(end * size, size):
        return missing  # no log reaches this position: the checkpoint is not usable
    if not numbers:
        # A position is never used twice, and deleted segments leave no trace: the log continues
        # behind all of them.
        return [(end, 1)] if known > HEADER_SIZE else []
    first = numbers[-1] + 1
    return [*missing, (first, end - first)] if known > first * size + HEADER_SIZE else missing


def check_room(directory: LogDirectory, count: int) -> None:
    """Refuse to begin if the disk has no space for `count` empty segments."""
    status = os.statvfs(directory.fd)
    free = status.f_bavail * status.f_frsize
    if count * _BLANK_BYTES > free:
        raise DiskFullError(
            f"{count} segments are missing; empty ones in their places need "
            f"{count * _BLANK_BYTES} bytes, and {free} are free: free space, or restore the "
            "segments from a copy, and run it again",
            path=directory.path,
        )


def create_blank(directory: LogDirectory, number: int, *, closed: bool) -> None:
    """Create a segment without records; a closed one is one SKIP, which readers pass."""
    segment_id = int.from_bytes(os.urandom(8), "little")
    frames = Frames(segment_id, directory.segment_size, HEADER_SIZE).closing() if closed else b""
    directory.create_segment(number, opened_ns=time.time_ns(), segment_id=segment_id, frames=frames)
