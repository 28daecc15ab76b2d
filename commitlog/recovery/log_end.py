"""The end of a log that no writer has open, from its files alone. Nothing is changed here.

A recovery and a reader use the same steps, so a reader ends where the next recovery cuts the log:
the clean mark decides if the segments agree with it; otherwise the frames above what is known to
be durable.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection
from typing import NamedTuple

from commitlog._kernel.failure import END, ROLLED_BACK
from commitlog._kernel.segments import HEADER_SIZE
from commitlog.errors import CommitLogError, CorruptSegmentError
from commitlog.flush import checkpoint as checkpoints
from commitlog.flush import known_durable as durability
from commitlog.flush.known_durable import known_durable
from commitlog.recovery.epochs import Epochs
from commitlog.recovery.location import (
    AHEAD_LIMIT,
    Location,
    is_blank,
    land,
    locate,
    tail_location,
)
from commitlog.recovery.walk import walk_valid
from commitlog.segment.directory import LogDirectory

_logger = logging.getLogger("commitlog.recovery")
_SKIPS_MOST = 8  # a SKIP takes up to 256 MiB, and a segment has up to 1 GiB


class LogEnd(NamedTuple):
    """Where a log ends. Below `known`, everything was durable. `clean`: the last handle closed the
    log, and its segments agree with that.
    """

    position: int
    known: int
    clean: bool


def find_end(directory: LogDirectory) -> LogEnd:
    """Find the end for a reader. If a segment is deleted meanwhile, raise `PositionError`."""
    size = directory.segment_size
    # Of a log with a store, the segments on this disk: only those have a tail.
    numbers = set(LogDirectory.segment_numbers(directory))
    checkpoint = checkpoints.read(directory.fd, directory.log_uuid)
    if not numbers:
        number = first_number(directory, 0 if checkpoint is None else checkpoint.position)
        empty = number * size + HEADER_SIZE
        return LogEnd(empty, empty, clean=checkpoint is not None and checkpoint.clean)
    if checkpoint is not None and checkpoint.clean and _is_closed(directory, numbers, checkpoint):
        return LogEnd(checkpoint.position, checkpoint.position, clean=True)
    known = known_durable(directory, numbers, checkpoint)
    start = locate(directory, numbers, known)
    end = (
        last_location(directory, numbers, known)
        if start is None
        else walk_valid(directory, numbers, land(directory, start)).end
    )
    position = tail_location(directory, numbers, end).position(size)
    return LogEnd(position, min(known, position), clean=False)


def _is_closed(
    directory: LogDirectory, numbers: Collection[int], checkpoint: checkpoints.Checkpoint
) -> bool:
    """Return whether a clean mark is true. A join changes the segments behind it, and a damaged
    header says nothing about it.
    """
    with contextlib.suppress(CorruptSegmentError):
        return directory.joining or (
            closed_location(directory, numbers, checkpoint.position) is not None
        )
    return True


def first_number(directory: LogDirectory, durable: int) -> int:
    """Return the number with which a log without segments begins: positions are never reused."""
    return -(-durable // directory.segment_size) if durable > HEADER_SIZE else 0


def closed_location(
    directory: LogDirectory, numbers: Collection[int], position: int
) -> Location | None:
    """Return where a log was closed; None if the last segments contradict its clean mark."""
    end = locate(directory, numbers, position)
    above = sorted(number for number in numbers if end is not None and number > end.number)
    if (
        end is None
        or len(above) > AHEAD_LIMIT
        or above != list(range(end.number + 1, end.number + 1 + len(above)))
    ):
        _logger.error(
            "%s: the log was closed at position %d, but its segments do not match that",
            directory.path,
            position,
        )
        return None
    if _is_skipped(directory, end):
        _logger.error(
            "%s: the log was closed at position %d, but a SKIP reaches beyond it",
            directory.path,
            position,
        )
        return None
    locations = [Location(number, HEADER_SIZE) for number in above]
    if end.offset < directory.segment_size:
        locations.append(end)
    for location in locations:
        with directory.opened_segment(location.number) as segment:
            blank = is_blank(segment, location.offset)
        if not blank:
            _logger.error(
                "%s: unexpected data at position %d, behind the end of a cleanly closed log",
                directory.path,
                location.position(directory.segment_size),
            )
            return None
    return end


def _is_skipped(directory: LogDirectory, end: Location) -> bool:
    """Return whether SKIPs from the segment's start on reach beyond the end of a closed log.

    An older `repair` left the clean mark on a log whose last segment it had replaced by SKIPs. No
    other SKIP can lie across the end, so the segment's frames need not be read.
    """
    if end.offset >= directory.segment_size:
        return False
    with directory.opened_segment(end.number) as segment:
        offset = HEADER_SIZE
        for _ in range(_SKIPS_MOST):
            code, step = segment.step(offset) if offset < end.offset else (END, 0)
            if code != ROLLED_BACK:
                break
            offset += step
        return offset > end.offset


def last_location(directory: LogDirectory, numbers: Collection[int], durable: int) -> Location:
    """Return where a log ends whose segments do not reach what was durable: behind the last one
    that is left. The log itself creates no files farther ahead than that.
    """
    reached = durable // directory.segment_size + AHEAD_LIMIT
    number = max((each for each in numbers if each <= reached), default=min(numbers))
    with directory.opened_segment(number) as segment:
        offset = segment.certain_end(HEADER_SIZE)
        if segment.nonzero(offset, segment.size) < segment.size:
            offset = segment.size
    return Location(number, offset)


def _last_epoch(directory: LogDirectory, numbers: Collection[int]) -> int:
    """Return where the last epoch or recovery of a log begins that follows no other: everything
    below was durable before `epoch` was written.
    """
    with contextlib.suppress(CommitLogError, OSError):
        found = Epochs(directory).read()
        if found.follows is None and found.epochs:
            return found.epochs[-1].start
    return 0


durability.register(_last_epoch)
