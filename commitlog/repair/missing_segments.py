"""Gaps in the numbering of a log's segments: which of them the log can have, and what is put
there.
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

_BLANK_BYTES = (
    2 * HEADER_SIZE
)  # what a closed segment without records takes on the disk: its header, and the page of its SKIP


def last_possible(directory: LogDirectory, recorded: RecordedEnd, numbers: list[int]) -> int:
    """The last segment that a log can have, those ahead of need included: what is recorded of its
    end says so, or, where that may lag behind, the last segment whose header is the log's own."""
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
    """The segments up to the last possible one, and those that follow it without a gap."""
    for at, number in enumerate(numbers):
        if number > last and (at == 0 or numbers[at - 1] != number - 1):
            return numbers[:at]
    return numbers


def find_missing(numbers: list[int], size: int, known: int) -> list[tuple[int, int]]:
    """The gaps below the position known to be durable and between segments: number of the first
    missing one, and how many there are.
    """
    missing = [(start // size, (stop - start) // size) for start, stop in holes(numbers, size)]
    end = -(-known // size)
    if not is_base(end * size, size):
        return missing  # a checkpoint that no log can have
    if not numbers:
        # Positions never come again. Nothing says which segments were deleted on purpose: the log
        # goes on behind all of them.
        return [(end, 1)] if known > HEADER_SIZE else []
    first = numbers[-1] + 1
    return [*missing, (first, end - first)] if known > first * size + HEADER_SIZE else missing


def check_room(directory: LogDirectory, count: int) -> None:
    """Refuse to begin with so many segments where the disk has no room for them.

    Raises
    ------
    DiskFullError
        It has not; nothing was created.
    """
    status = os.statvfs(directory.fd)
    free = status.f_bavail * status.f_frsize
    if count * _BLANK_BYTES > free:
        raise DiskFullError(
            f"{count} segments are missing, and {free} free bytes are too few to put empty ones "
            f"in their places ({count * _BLANK_BYTES}): "
            "free space, or restore them from a copy, and run it again",
            path=directory.path,
        )


def create_blank(directory: LogDirectory, number: int, *, closed: bool) -> None:
    """Create a segment without records; a closed one is a SKIP from end to end, so that readers
    come past it.
    """
    segment_id = int.from_bytes(os.urandom(8), "little")
    frames = Frames(segment_id, directory.segment_size, HEADER_SIZE).closing() if closed else b""
    directory.create_segment(number, opened_ns=time.time_ns(), segment_id=segment_id, frames=frames)
