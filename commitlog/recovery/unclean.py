"""UncleanLog: recover a log that was not closed: choose the rule, find the end, make it durable."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Literal

from commitlog._kernel.memory import MODE_MAPPED, MODE_POOLED, Cursors
from commitlog._kernel.segments import FRAME_ALIGN, HEADER_SIZE
from commitlog.base.failpoint import failpoint
from commitlog.flush.checkpoint import Checkpoint
from commitlog.flush.known_durable import known_durable
from commitlog.pool.shm_survey import ShmSurvey
from commitlog.recovery.cut import Taken, find_cut, take_out
from commitlog.recovery.location import Location, land, locate, missing, tail_location
from commitlog.recovery.log_end import last_location
from commitlog.recovery.walk import Walk, walk_buffers, walk_claimed, walk_valid
from commitlog.segment.blocks import make_solid
from commitlog.segment.directory import LogDirectory
from commitlog.tail import tailer_file


@dataclass(frozen=True)
class Recovered:
    """The result of `recover`.

    `case` is ``"empty"`` if there was no segment, and ``"clean"`` if the last handle had closed the
    log. Otherwise it is the rule by which the log was recovered, ``"kept"`` or ``"cut"``; it is
    ``"cut"`` also if the kept memory was damaged. `tail` is the segment number and the offset of
    the next claim; in a full segment, the offset is its size. `end` is the end of what is kept.
    `rolled_back` claims were turned into SKIP. The positions of `cut_range` were cut off, and
    `saved_as` is the first file with saved frames of them. Of the shared-memory buffers, `from_shm`
    were recovered, `unused` were attached ahead of need, and `lost` were recorded but are missing
    or unusable.
    """

    case: Literal["empty", "clean", "kept", "cut"]
    tail: tuple[int, int]
    end: int
    rolled_back: int = 0
    cut_range: tuple[int, int] | None = None
    saved_as: str | None = None
    from_shm: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


_logger = logging.getLogger("commitlog.recovery")


class UncleanLog:
    """A log whose end must be found.

    If it has no segments, there is a buffer to recover. The cursors are as the last writers left
    them; None if they are not usable. `position` is the checkpoint's, and `survey` has the buffers
    of its last pool. `interrupted`: an earlier recovery in this boot did not finish, and the disk
    may not have its zeros yet.
    """

    def __init__(
        self,
        directory: LogDirectory,
        numbers: set[int],
        *,
        cursors: Cursors | None,
        checkpoint: Checkpoint | None,
        survey: ShmSurvey,
        interrupted: bool = False,
    ) -> None:
        self.directory = directory
        self.cursors = cursors
        self.survey = survey
        self.interrupted = interrupted
        self.numbers = numbers
        if not numbers:
            # Only buffers are left. The first one determines where the log continues.
            first = survey.recoverable[0]
            number = first.base // directory.segment_size
            directory.create_segment(number, opened_ns=time.time_ns(), segment_id=first.segment_id)
            numbers.add(number)
        self.first = Location(min(numbers), HEADER_SIZE)
        self.known = known_durable(directory, numbers, checkpoint)

    def recover(self, lost: tuple[str, ...]) -> Recovered:
        """Find the end, cut everything behind it, and make everything before it durable."""
        durable = self._durable("known durable position", self.known)
        if durable is None:
            return self._keep_what_is_there(lost)
        floor = durable
        if self.cursors is not None:
            floor = max(floor, self._durable("flushed mark", self.cursors["flushed"]) or floor)
        floor = self._step_out(floor)
        walk, case = self._walk(floor)
        for position, resume in walk.damage:
            _logger.error(
                "%s: damage from position %d to %d was left unchanged, because what follows it was "
                "written: run `commitlog verify` on the log",
                self.directory.path,
                position,
                resume,
            )
        if walk.damaged:
            damaged = walk.end.position(self.directory.segment_size)
            _logger.error(
                "%s: the frame at position %d is damaged; the log is cut there",
                self.directory.path,
                damaged,
            )
        cut_range, saved_as = self._cut(walk.end)
        tail = tail_location(self.directory, self.numbers, walk.end)
        self._make_durable(durable, walk.end)
        return Recovered(
            case="cut" if walk.damaged else case,
            tail=tail,
            end=tail.position(self.directory.segment_size),
            rolled_back=walk.rolled_back,
            cut_range=cut_range,
            saved_as=saved_as,
            from_shm=tuple(walk.recovered),
            unused=tuple(walk.unused),
            lost=(*lost, *walk.stranded),
        )

    def _durable(self, what: str, position: int) -> Location | None:
        """Locate a position recorded as durable; None if the files do not reach it."""
        if position <= self.first.position(self.directory.segment_size):
            return self.first
        location = locate(self.directory, self.numbers, position)
        if location is None:
            _logger.error(
                "%s: the %s is %d, but the segments do not reach it",
                self.directory.path,
                what,
                position,
            )
        return location

    def _walk(self, floor: Location) -> tuple[Walk, Literal["kept", "cut"]]:
        mode = None if self.cursors is None else self.cursors.mode
        if self.survey.recoverable or (mode == MODE_POOLED and self.survey.free):
            return walk_buffers(
                self.directory, self.numbers, floor, self.survey.recoverable
            ), "kept"
        tail = (
            self._tail(self.cursors, floor)
            if self.cursors is not None and mode == MODE_MAPPED
            else None
        )
        if tail is not None:
            self._check_contiguous(floor, tail)
            return walk_claimed(self.directory, floor, tail), "kept"
        self._report_damage(floor)
        return walk_valid(self.directory, self.numbers, floor), "cut"

    def _forget_tail(self) -> None:
        """Clear the tail: to a recovery after a kill, this one's zeros would be claims."""
        if self.cursors is not None:
            self.cursors.tail = (0, 0)

    def _tail(self, cursors: Cursors, floor: Location) -> Location | None:
        """Return the cursors' tail, or None if it is not valid."""
        number, offset = cursors.tail
        tail = Location(number, min(offset, self.directory.segment_size))
        if (
            tail.number in self.numbers
            and tail.offset % FRAME_ALIGN == 0
            and tail.offset >= HEADER_SIZE
            and tail >= floor
        ):
            return tail
        if (number, offset) != (0, 0):
            _logger.warning(
                "%s: the tail in `cursors`, offset %d in segment %d, is not valid",
                self.directory.path,
                tail.offset,
                tail.number,
            )
        return None

    def _check_contiguous(self, floor: Location, tail: Location) -> None:
        for number in range(floor.number, tail.number + 1):
            if number not in self.numbers:
                raise missing(self.directory, number)

    def _step_out(self, floor: Location) -> Location:
        """Return the floor, or the end of the SKIP around it: no reader reaches what is inside."""
        landing = land(self.directory, floor)
        if landing != floor:
            _logger.error(
                "%s: the durable position %d is inside a SKIP: the log continues behind it, at %d",
                self.directory.path,
                floor.position(self.directory.segment_size),
                landing.position(self.directory.segment_size),
            )
            tailer_file.step_out(self.directory)
            failpoint("tailers stepped out")
        return landing

    def _report_damage(self, floor: Location) -> None:
        """Log damage below the floor, in its segment; it stays unchanged."""
        with self.directory.opened_segment(floor.number) as segment:
            offset, code = segment.scan(HEADER_SIZE, floor.offset)[:2]
        if code != 0:
            _logger.error(
                "%s: damage at position %d, below the durable position, was left unchanged: run "
                "`commitlog verify` on the log",
                self.directory.path,
                Location(floor.number, offset).position(self.directory.segment_size),
            )

    def _cut(self, end: Location) -> Taken:
        found = find_cut(self.directory, self.numbers, end)
        if found is None:
            return None, None
        self._forget_tail()
        taken = take_out(self.directory, found)
        self.numbers.difference_update(found.later, found.blank)
        return taken

    def _make_durable(self, start: Location, end: Location) -> None:
        """Write what is kept above the checkpoint again and flush it: the system may have marked
        pages clean whose writeback failed.
        """
        for number in sorted(number for number in self.numbers if number >= start.number):
            if number > end.number:
                make_solid(self.directory, number)
                if not self.interrupted:
                    continue
            with self.directory.opened_segment(number, writable=True) as segment:
                offset, stop = 0, segment.size
                if not self.interrupted:
                    offset = start.offset if number == start.number else offset
                    stop = end.offset if number == end.number else stop
                if number <= end.number:
                    make_solid(self.directory, number, segment.extent)
                segment.rewrite(offset, stop)
                segment.flush(offset, stop)
            failpoint("segment flushed")
        self.directory.sync()
        failpoint("all flushed")

    def _keep_what_is_there(self, lost: tuple[str, ...]) -> Recovered:
        """Keep all remaining segments: the last ones are missing, and the rest was durable."""
        self._forget_tail()
        tail = last_location(self.directory, self.numbers, self.known)
        stranded = (buffer.name for buffer in self.survey.recoverable)
        return Recovered(
            "cut", tail, tail.position(self.directory.segment_size), lost=(*lost, *stranded)
        )
