"""What an open does before anything is exposed: it finds the end of the log and makes everything below it durable.

Two rules. *Kept:* the memory of this boot is whole, so every claim is known; those that nobody will publish become SKIP, and everything
else stays, because readers may have seen it. *Cut:* something was lost; the log ends at the first frame above what is known durable that
is neither valid nor marked. Frames below the checkpoint are never touched. Run again after a kill at any step, recovery ends at the same
place.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from commitlog._kernel.cursors import MODE_MAPPED, MODE_POOLED, STATE_NONE, STATE_RECOVERING, Cursors
from commitlog._kernel.segment import HEADER_SIZE
from commitlog.errors import DiskFullError, LogLockedError
from commitlog.flush.checkpoint import Checkpoint
from commitlog.pool.shm import ShmSurvey, discard, find_buffers
from commitlog.recovery_cut import Taken, find_cut, take_out
from commitlog.recovery_walk import Place, Walk, passed, walk_buffers, walk_claimed, walk_valid
from commitlog.segment.directory import LogDirectory, segment_name

_logger = logging.getLogger("commitlog.recovery")
_AHEAD_LIMIT = 8  # segments ahead of a clean end that are looked at; the allocation service makes one or two


@dataclass(frozen=True)
class Recovered:
    """What a recovery found and did.

    Attributes
    ----------
    case : str
        ``"empty"``: there was no segment. ``"clean"``: the last handle had closed the log. ``"kept"``, ``"cut"``: by which rule it was
        recovered; a log of the first kind whose memory turned out damaged counts as the second.
    tail : tuple of int
        Segment number and offset where the next claim goes. The offset is the segment's size when it is full.
    end : int
        Position, exclusive end of what is kept.
    rolled_back : int
        Claims turned into SKIP.
    cut_range : tuple of int or None
        Positions that were taken out and zeroed.
    saved_as : str or None
        The first file in which valid frames of that range were saved.
    from_shm, lost : tuple of str
        Shared-memory buffers that were recovered; those that had been recorded and are missing or unusable.
    """

    case: Literal["empty", "clean", "kept", "cut"]
    tail: tuple[int, int]
    end: int
    rolled_back: int = 0
    cut_range: tuple[int, int] | None = None
    saved_as: str | None = None
    from_shm: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


def recover(
    directory: LogDirectory, cursors: Cursors, *, cursors_usable: bool, checkpoint: Checkpoint | None, shm_names: Sequence[str]
) -> Recovered:
    """Recover a log. Only under its exclusive lock; leaves the state RECOVERING, for the caller to end once the clean mark is gone.

    Parameters
    ----------
    directory : LogDirectory
        The log.
    cursors : Cursors
        Its mapped file.
    cursors_usable : bool
        Whether the file is of this log, boot and place. Its state does not matter: one that was rebuilt has no tail, and one whose
        recovery was killed still has it, and needs it.
    checkpoint : Checkpoint or None
        The record in force.
    shm_names : sequence of str
        Buffers that the last pool of this boot had recorded.

    Raises
    ------
    CorruptSegmentError
        A segment from which recovery would have to go on is missing or damaged.
    LogLockedError
        A live pool still holds records of this log.
    DiskFullError, IOFailureError
        The system refused. Nothing is lost by it: the next open starts over.
    """
    usable = cursors_usable and cursors["state"] != STATE_NONE
    cursors["state"] = STATE_RECOVERING
    directory.sweep()
    passed("swept")
    survey = find_buffers(shm_names, directory.log_uuid)
    if survey.live_in_use:
        raise LogLockedError(
            "a pool that lives still holds records of this log in shared memory; close it, or the process that has it", path=directory.path
        )
    lost = _report_lost(directory, survey)
    numbers = directory.segment_numbers()
    found = None
    if not numbers and not survey.recoverable:
        found = _begin(directory, checkpoint)
    elif checkpoint is not None and checkpoint.clean and not survey.recoverable:
        found = _clean(directory, numbers, checkpoint)
    if found is None:
        found = _Unclean(directory, numbers, cursors, usable, checkpoint, survey).recover(lost)
    _finish(cursors, found)
    for name in (*found.from_shm, *survey.free):
        discard(name)
        passed("buffer discarded")
    return found


def _report_lost(directory: LogDirectory, survey: ShmSurvey) -> tuple[str, ...]:
    for name in survey.missing:
        _logger.warning(
            "%s: the shared-memory buffer %s is missing: records that were not committed from it are lost", directory.path, name
        )
    for name, fault in survey.unusable:
        _logger.warning("%s: the shared-memory buffer %s cannot be used: %s", directory.path, name, fault)
    return (*survey.missing, *(name for name, _ in survey.unusable))


def _finish(cursors: Cursors, found: Recovered) -> None:
    """Give the cursors what every later handle starts from."""
    for watermark in ("appended", "committed", "flushed"):
        cursors[watermark] = found.end
    for cell in ("failed", "flusher", "waiters"):
        cursors[cell] = 0
    cursors["tail"] = found.tail[0] << 32 | found.tail[1]
    passed("cursors set")
    _logger.info("%s: recovered (%s), ends at position %d", cursors.mode and "log" or "log", found.case, found.end)


def _begin(directory: LogDirectory, checkpoint: Checkpoint | None) -> Recovered:
    """Create the first segment. Positions never come again: a log that lost all of its segments goes on behind them."""
    number = 0
    if checkpoint is not None and checkpoint.position > HEADER_SIZE:
        number = -(-checkpoint.position // directory.segment_size)
        _logger.error("%s: all segments are missing; the log had %d bytes. It goes on behind them", directory.path, checkpoint.position)
    directory.create_segment(number, opened_ns=time.time_ns())
    passed("first segment created")
    place = Place(number, HEADER_SIZE)
    return Recovered("empty", place, place.position(directory.segment_size))


def _locate(directory: LogDirectory, numbers: set[int], position: int) -> Place | None:
    """The place of a position, if the files reach as far."""
    number, offset = divmod(position, directory.segment_size)
    if offset % 8:
        return None
    if number in numbers:
        return Place(number, max(offset, HEADER_SIZE))
    if offset <= HEADER_SIZE and number - 1 in numbers:
        return Place(number - 1, directory.segment_size)
    return None


def _resting_place(directory: LogDirectory, numbers: set[int], end: Place) -> Place:
    """Of the two places at a border of segments, the one at which the tail stands: a roll that was begun is not begun again."""
    number, offset = end
    if offset <= HEADER_SIZE and number - 1 in numbers:
        full = Place(number - 1, directory.segment_size)
    elif offset >= directory.segment_size and number + 1 in numbers:
        full, number = end, number + 1
    else:
        return end
    segment = directory.open_segment(number, writable=False)
    try:
        blank = segment.opened_ns == 0 and segment.nonzero(HEADER_SIZE, HEADER_SIZE + 8) == HEADER_SIZE + 8
    finally:
        segment.release()
    return full if blank else Place(number, HEADER_SIZE)


def _make_solid(directory: LogDirectory, number: int) -> None:
    """Give a segment all of its blocks: a copied file may have holes, and a full disk would turn an append into one into SIGBUS."""
    name = segment_name(number * directory.segment_size)
    fd = os.open(name, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=directory.fd)
    try:
        os.posix_fallocate(fd, 0, directory.segment_size)
    except OSError as error:
        raise DiskFullError(
            f"no room for all blocks of the segment in use ({error.strerror}): free space and open the log again",
            path=directory.segment_path(number),
            errno=error.errno,
        ) from error
    finally:
        os.close(fd)


def _clean(directory: LogDirectory, numbers: list[int], checkpoint: Checkpoint) -> Recovered | None:
    """The end of a log that was closed, or None when what is there contradicts the mark. Looks at the last segments only."""
    end = _locate(directory, set(numbers), checkpoint.position)
    above = [number for number in numbers if end is not None and number > end.number]
    if end is None or len(above) > _AHEAD_LIMIT:
        _logger.error("%s: the log was closed at position %d, and its segments do not fit that", directory.path, checkpoint.position)
        return None
    places = [Place(number, HEADER_SIZE) for number in above]
    if end.offset < directory.segment_size:
        places.append(end)
    for place in places:
        segment = directory.open_segment(place.number, writable=False)
        try:
            blank = segment.nonzero(place.offset, place.offset + 8) == place.offset + 8
        finally:
            segment.release()
        if not blank:
            position = place.position(directory.segment_size)
            _logger.error("%s: the log was closed, and yet something stands behind its end, at position %d", directory.path, position)
            return None
        _make_solid(directory, place.number)
    tail = _resting_place(directory, set(numbers), end)
    return Recovered("clean", tail, tail.position(directory.segment_size))


class _Unclean:
    """The recovery of a log that was not closed."""

    def __init__(
        self, directory: LogDirectory, numbers: list[int], cursors: Cursors, usable: bool, checkpoint: Checkpoint | None, survey: ShmSurvey
    ) -> None:
        self.directory = directory
        self.cursors = cursors
        self.usable = usable
        self.survey = survey
        self.numbers = set(numbers)
        self.position = checkpoint.position if checkpoint is not None else 0
        if not numbers:
            # Only buffers are left. The one that comes first says where the log goes on.
            first = survey.recoverable[0]
            number = first.base // directory.segment_size
            directory.create_segment(number, opened_ns=time.time_ns(), segment_id=first.segment_id)
            self.numbers.add(number)
        self.first = Place(min(self.numbers), HEADER_SIZE)

    def recover(self, lost: tuple[str, ...]) -> Recovered:
        size = self.directory.segment_size
        checkpoint = self._durable("checkpoint", self.position)
        if checkpoint is None:
            return self._keep_what_is_there(lost)
        floor = max(checkpoint, self._durable("flushed mark", self.cursors["flushed"]) or checkpoint) if self.usable else checkpoint
        walk, case = self._walk(floor)
        taken = self._cut(walk.end)
        tail = _resting_place(self.directory, self.numbers, walk.end)
        self._make_durable(checkpoint, walk.end)
        lost = (*lost, *walk.stranded)
        return Recovered(
            "cut" if walk.damaged else case,
            tail,
            tail.position(size),
            walk.rolled_back,
            taken.cut_range,
            taken.saved_as,
            tuple(walk.recovered),
            lost,
        )

    def _durable(self, what: str, position: int) -> Place | None:
        """The place of a position that is said to be durable; None when the files do not reach it."""
        if position <= self.first.position(self.directory.segment_size):
            return self.first
        place = _locate(self.directory, self.numbers, position)
        if place is None:
            _logger.error("%s: the %s is at position %d, and the segments do not reach it", self.directory.path, what, position)
        return place

    def _walk(self, floor: Place) -> tuple[Walk, Literal["kept", "cut"]]:
        """Walk by the rule that fits what is known."""
        if self.survey.recoverable or (self.usable and self.cursors.mode == MODE_POOLED and self.survey.free):
            return walk_buffers(self.directory, self.numbers, floor, self.survey.recoverable), "kept"
        tail = self._tail(floor) if self.usable and self.cursors.mode == MODE_MAPPED else None
        if tail is not None:
            return walk_claimed(self.directory, floor, tail), "kept"
        # From now on there is no tail, so that a run after a kill does not take this one's zeros for claims.
        self.cursors["tail"] = 0
        return walk_valid(self.directory, self.numbers, self._aligned(floor)), "cut"

    def _tail(self, floor: Place) -> Place | None:
        """The tail that the cursors hold, if it can be one."""
        place = self.cursors["tail"]
        number, offset = place >> 32, min(place & 0xFFFFFFFF, self.directory.segment_size)
        if number not in self.numbers or offset % 8 or offset < HEADER_SIZE or (number, offset) < floor:
            if place:
                _logger.warning("%s: the tail in `cursors` (%d, %d) is of no use", self.directory.path, place >> 32, place & 0xFFFFFFFF)
            return None
        return Place(number, offset)

    def _aligned(self, floor: Place) -> Place:
        """The floor, at the end of the frame that it lies in should it lie in one."""
        segment = self.directory.open_segment(floor.number, writable=False)
        try:
            offset, code = segment.scan(HEADER_SIZE, floor.offset)[:2]
        finally:
            segment.release()
        if code != 0:
            position = Place(floor.number, offset).position(self.directory.segment_size)
            _logger.error(
                "%s: damage at position %d, below what is known durable; it is left as it is. Run `commitlog verify` on the log",
                self.directory.path,
                position,
            )
            return floor
        return Place(floor.number, max(offset, floor.offset))

    def _cut(self, end: Place) -> Taken:
        found = find_cut(self.directory, self.numbers, end)
        if found is None:
            return Taken(None, None)
        self.cursors["tail"] = 0
        taken = take_out(self.directory, found)
        self.numbers.difference_update(found.later, found.blank)
        return taken

    def _make_durable(self, start: Place, end: Place) -> None:
        """Write what is kept above the checkpoint again, and flush it: the system may have taken pages for clean whose writing failed."""
        for number in sorted(number for number in self.numbers if start.number <= number <= end.number):
            segment = self.directory.open_segment(number, writable=True)
            try:
                offset = start.offset if number == start.number else 0
                stop = end.offset if number == end.number else segment.size
                segment.rewrite(offset, stop)
                segment.flush(offset, stop)
            finally:
                segment.release()
            passed("segment flushed")
        for number in self.numbers:
            if number >= end.number:
                _make_solid(self.directory, number)
        self.directory.sync()
        passed("all flushed")

    def _keep_what_is_there(self, lost: tuple[str, ...]) -> Recovered:
        """The last segments are gone, and what is left was durable: none of it is touched."""
        number = max(self.numbers)
        segment = self.directory.open_segment(number, writable=False)
        try:
            offset = segment.certain_end(HEADER_SIZE)
            if segment.nonzero(offset, segment.size) < segment.size:
                offset = segment.size
        finally:
            segment.release()
        tail = Place(number, offset)
        _make_solid(self.directory, number)
        self.cursors["tail"] = 0
        return Recovered("cut", tail, tail.position(self.directory.segment_size), lost=lost)
