"""Cuts what follows the end of a log: saves it to `<segment>.cut`, zeroes it, removes segments.

The order makes a kill at any step safe: a cut first saves the valid frames durably, then removes
segments from the last one down, so that the numbering never has a gap, and zeroes last. Run again,
it ends at the same place.

A fork, the records of a log beside those of a later epoch, is saved to `<segment>.fork`. Its
records were valid, and programs may have the segment open. So it is not zeroed: a new file with
what stays takes its place, and the old file does not change any more.

A `.cut` or `.fork` file has the layout of its segment: the header, a hole for the part that stays
in the log, and the bytes at their original offsets, so that their CRCs still fit.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from commitlog._kernel import segments as kernel
from commitlog._kernel.segments import HEADER_SIZE, SEAL_AT, SEAL_SIZE, Segment
from commitlog.base.failpoint import failpoint
from commitlog.base.path import translate_errors
from commitlog.base.regular_file import opened_regular, read_range, write_whole
from commitlog.base.temporary_file import temporary_file
from commitlog.errors import CorruptSegmentError, IOFailureError
from commitlog.recovery.location import Location, missing
from commitlog.segment.directory import LogDirectory, segment_name
from commitlog.segment.new_file import copy_names, put_aside

_logger = logging.getLogger("commitlog.recovery")
_CHUNK = 1 << 20
TORN, FORK = ".cut", ".fork"
_NOUN = {TORN: "a torn tail", FORK: "a fork"}


@dataclass(frozen=True)
class Cut:
    """The bytes and segments behind the end of a log, which a cut removes from `location` on.

    `dirty`: its own segment has non-zero bytes behind it, or a seal. `later` and `blank` are the
    numbers of later segments with data and without.
    """

    location: Location
    dirty: bool
    later: tuple[int, ...]
    blank: tuple[int, ...]


# The positions that a cut removed, and the first file with saved frames.
Taken = tuple[tuple[int, int] | None, str | None]


def find_cut(directory: LogDirectory, numbers: Iterable[int], end: Location) -> Cut | None:
    """Find the data behind `end`; None if there is none. If the segment that should follow is
    missing, and later ones hold records, raise `CorruptSegmentError`.
    """
    known = set(numbers)
    if end.offset >= directory.segment_size and end.number + 1 in known:
        # Readers may have entered the next segment: the cut empties it in place.
        end = Location(end.number + 1, HEADER_SIZE)
    above = sorted(number for number in known if number > end.number)
    later = tuple(number for number in above if not is_untouched(directory, number))
    dirty = end.offset < directory.segment_size and _is_dirty(directory, end)
    if later and end.offset >= directory.segment_size:
        raise missing(directory, end.number + 1)
    contiguous = all(number == end.number + 1 + index for index, number in enumerate(above))
    if not dirty and not later and contiguous:
        return None
    return Cut(end, dirty, later, tuple(number for number in above if number not in later))


def is_untouched(directory: LogDirectory, number: int) -> bool:
    """Return whether a segment is as it was created: without a frame, an opened part or a seal."""
    try:
        with directory.opened_segment(number) as segment:
            return segment.nonzero(kernel.OPENED_AT, segment.size) == segment.size
    except CorruptSegmentError:
        return False


def _is_dirty(directory: LogDirectory, end: Location) -> bool:
    with directory.opened_segment(end.number) as segment:
        sealed = segment.nonzero(SEAL_AT, SEAL_AT + SEAL_SIZE) < SEAL_AT + SEAL_SIZE
        return sealed or segment.nonzero(end.offset, segment.size) < segment.size


def take_out(directory: LogDirectory, cut: Cut, suffix: str = TORN) -> Taken:
    """Save, remove, and zero or replace, durably, in this order."""
    saved: list[str] = []
    stop = _save(directory, cut.location, saved, suffix) if cut.dirty else cut.location.offset
    cut_range = None
    for number in cut.later:
        _save(directory, Location(number, HEADER_SIZE), saved, suffix)
        cut_range = (
            cut.location.position(directory.segment_size),
            (number + 1) * directory.segment_size,
        )
    failpoint("frames saved")
    with _rest_prepared(directory, cut, suffix) as remove_rest:
        for number in sorted(cut.later + cut.blank, reverse=True):
            directory.remove_segment(number)
            failpoint("segment removed")
        if cut.dirty:
            stop = max(stop, remove_rest())
            directory.remove_index(cut.location.number)
            if cut_range is None and stop > cut.location.offset:
                cut_range = (
                    cut.location.position(directory.segment_size),
                    cut.location.number * directory.segment_size + stop,
                )
    directory.sync()
    failpoint("rest zeroed")
    if cut_range is not None:
        kept = (
            f"; frames among them were saved to {', '.join(saved)}"
            if saved
            else "; there was no whole frame among them"
        )
        _logger.warning(
            "%s: positions %d to %d were cut off as %s%s",
            directory.path,
            *cut_range,
            _NOUN[suffix],
            kept,
        )
    return cut_range, saved[0] if saved else None


@contextlib.contextmanager
def _rest_prepared(directory: LogDirectory, cut: Cut, suffix: str) -> Iterator[Callable[[], int]]:
    """Prepare the removal of what follows the end in its segment, as far as the disk may be full
    then. Yield what does it, and returns the end of what was there, as far as that was looked for.
    """
    if suffix != FORK or not cut.dirty:
        yield partial(_zero, directory, cut.location)
        return
    number, end = cut.location
    name = segment_name(number * directory.segment_size)
    with (
        directory.opened_segment(number) as segment,
        translate_errors(segment.path, "copy what stays of the segment"),
        temporary_file(directory.fd, name) as (fd, temporary),
    ):
        os.posix_fallocate(fd, 0, segment.size)
        _copy(segment, fd, (0, SEAL_AT), (SEAL_AT + SEAL_SIZE, end))
        os.fsync(fd)
        failpoint("start of the segment copied")

        def replace() -> int:
            directory.remove_index(number)  # of the frames in the old file
            os.rename(temporary, name, src_dir_fd=directory.fd, dst_dir_fd=directory.fd)
            failpoint("segment replaced")
            return end

        yield replace


def _save(directory: LogDirectory, start: Location, saved: list[str], suffix: str) -> int:
    """Save the bytes from `start` to the end of the segment's last valid frame; return that end, or
    the start if there is none.
    """
    try:
        segment = directory.open_segment(start.number, writable=False)
    except CorruptSegmentError as error:
        name = segment_name(start.number * directory.segment_size)
        _logger.error("%s; the whole file was renamed", error)
        saved.append(_put_aside(directory, name, name, suffix))
        return directory.segment_size
    try:
        end = segment.certain_end(start.offset)
        if end > start.offset:
            path = _existing_copy(directory, segment, start.offset, end, suffix) or _write_copy(
                directory, segment, start.offset, end, suffix
            )
            _logger.warning(
                "%s: frames from position %d to %d were saved to %s",
                segment.path,
                segment.base + start.offset,
                segment.base + end,
                path,
            )
            saved.append(path)
        return end
    finally:
        segment.release()


def _put_aside(directory: LogDirectory, source: str, name: str, suffix: str) -> str:
    return os.path.join(directory.path, put_aside(directory.fd, source, name, suffix))


def _existing_copy(
    directory: LogDirectory, segment: Segment, start: int, end: int, suffix: str
) -> str | None:
    """Return the copy of the same bytes that an earlier, killed recovery has made, or None."""
    for name in copy_names(os.path.basename(segment.path), suffix):
        spans = [(0, SEAL_AT), *((at, min(at + _CHUNK, end)) for at in range(start, end, _CHUNK))]
        try:
            with opened_regular(name, dir_fd=directory.fd) as fd:
                if all(
                    read_range(fd, stop - at, at) == segment.read(at, stop - at)
                    for at, stop in spans
                ):
                    return os.path.join(directory.path, name)
        except FileNotFoundError:
            return None
        except IOFailureError:
            continue  # a link, a directory or the like has this name: the copy gets the next one
    return None


def _write_copy(
    directory: LogDirectory, segment: Segment, start: int, end: int, suffix: str
) -> str:
    """Write the header and [start, end) to a new file beside the segment, durably."""
    name = os.path.basename(segment.path)
    with (
        translate_errors(segment.path, "save the frames that must be cut off"),
        temporary_file(directory.fd, name) as (fd, temporary),
    ):
        _copy(segment, fd, (0, HEADER_SIZE), (start, end))
        os.fsync(fd)
    return _put_aside(directory, temporary, name, suffix)


def _copy(segment: Segment, fd: int, *ranges: tuple[int, int]) -> None:
    for start, stop in ranges:
        for at in range(start, stop, _CHUNK):
            write_whole(fd, segment.read(at, min(_CHUNK, stop - at)), at)


def _zero(directory: LogDirectory, start: Location) -> int:
    """Zero a segment from `start` on, and its seal, durably; return the end of its non-zero bytes.

    Zeros are written instead of a punched hole, so that the range keeps its blocks. They are
    written from the end downwards, so that a recovery after a kill finds a prefix of the saved
    bytes.
    """
    last = 0
    with (
        directory.opened_segment(start.number) as segment,
        directory.opened_file(start.number, os.O_RDWR) as fd,
        translate_errors(segment.path, "zero what is cut off"),
    ):
        write_whole(fd, bytes(SEAL_SIZE), SEAL_AT)
        for stop in range(segment.size, start.offset, -_CHUNK):
            at = max(stop - _CHUNK, start.offset)
            if segment.nonzero(at, stop) == stop:
                continue
            last = last or at + len(segment.read(at, stop - at).rstrip(b"\0"))
            write_whole(fd, bytes(stop - at), at)
            failpoint("chunk zeroed")
        os.fsync(fd)
    return max(-(-last // 8) * 8, start.offset)
