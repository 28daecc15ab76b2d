"""Locations in a log, for recovery: which positions exist, and where the tail is after it."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from commitlog._kernel.segments import CELL_SIZE, FRAME_ALIGN, HEADER_SIZE, Segment
from commitlog.errors import CorruptSegmentError
from commitlog.segment.directory import LogDirectory

# How many segments ahead of the end count as the log's own: the allocation service creates one or
# two, and at most this many.
AHEAD_LIMIT = 8


class Location(NamedTuple):
    """A frame's begin or end: segment number, and offset in the segment."""

    number: int
    offset: int

    def position(self, segment_size: int) -> int:
        return self.number * segment_size + self.offset


def locate(directory: LogDirectory, numbers: Collection[int], position: int) -> Location | None:
    """Return the location of a position, or None if the files do not reach it."""
    number, offset = divmod(position, directory.segment_size)
    if offset % FRAME_ALIGN:
        return None
    if number in numbers:
        return Location(number, max(offset, HEADER_SIZE))
    if offset <= HEADER_SIZE and number - 1 in numbers:
        return Location(number - 1, directory.segment_size)
    return None


def missing(directory: LogDirectory, number: int) -> CorruptSegmentError:
    """Return the error for a missing segment before others with records."""
    return CorruptSegmentError(
        "this segment is missing, and later ones hold records: restore it from a copy, or run "
        "`commitlog repair` on the log",
        path=directory.segment_path(number),
        position=number * directory.segment_size,
    )


def is_blank(segment: Segment, offset: int) -> bool:
    return segment.nonzero(offset, offset + CELL_SIZE) == offset + CELL_SIZE


def land(directory: LogDirectory, location: Location) -> Location:
    """Return the location at or behind a given one at which a reader from the segment's start
    continues: behind the frame that contains it.
    """
    if location.offset >= directory.segment_size:
        return location
    landing = directory.landing(location.position(directory.segment_size))
    return Location(*divmod(landing, directory.segment_size))


def tail_location(directory: LogDirectory, numbers: Collection[int], end: Location) -> Location:
    """Return the tail's location; at a segment border, behind a roll that was already begun."""
    number, offset = end
    if offset <= HEADER_SIZE and number - 1 in numbers:
        full = Location(number - 1, directory.segment_size)
    elif offset >= directory.segment_size and number + 1 in numbers:
        full, number = end, number + 1
    else:
        return end
    with directory.opened_segment(number) as segment:
        blank = segment.opened_ns == 0 and is_blank(segment, HEADER_SIZE)
    return full if blank else Location(number, HEADER_SIZE)
