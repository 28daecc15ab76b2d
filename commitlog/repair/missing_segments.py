"""Missing segments: the gaps in the numbering of a log's segments, and the empty segments that
fill them.
"""

from __future__ import annotations

import os
import time

from commitlog._kernel import segments as kernel
from commitlog._kernel.segments import HEADER_SIZE, Frames
from commitlog.errors import DiskFullError
from commitlog.recovery.location import AHEAD_LIMIT
from commitlog.repair.recorded_end import RecordedEnd
from commitlog.segment.directory import LogDirectory, holes, is_base

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
