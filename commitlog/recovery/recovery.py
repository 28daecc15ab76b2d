"""Recovery: before an open exposes the log, it finds the end and makes everything below it durable.

Two rules. *Kept:* the memory of this boot is whole, so every claim is known; dead claims become
SKIP, and everything else stays, because readers may have seen it. *Cut:* data was lost; the log
ends at the first frame above the durable position that is neither valid nor marked. Recovery never
changes frames below the checkpoint. Run again after a kill at any step, it ends at the same place.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from commitlog._kernel.failure import END, ROLLED_BACK
from commitlog._kernel.memory import STATE_NONE, STATE_RECOVERING, Cursors
from commitlog._kernel.segments import HEADER_SIZE
from commitlog.base.failpoint import failpoint
from commitlog.errors import LogLockedError
from commitlog.flush.checkpoint import Checkpoint
from commitlog.pool.shm import ShmSurvey, discard, find_buffers
from commitlog.recovery.location import AHEAD_LIMIT, Location, locate, tail_location
from commitlog.recovery.recovered import Recovered
from commitlog.recovery.unclean import UncleanLog
from commitlog.segment.blocks import blocks_for, make_ready, make_solid
from commitlog.segment.directory import LogDirectory
from commitlog.tail import tailer_file, tailer_folder

_logger = logging.getLogger("commitlog.recovery")
_SKIPS_MOST = 8  # a SKIP takes up to 256 MiB, and a segment has up to 1 GiB


def recover(
    directory: LogDirectory,
    cursors: Cursors,
    *,
    cursors_usable: bool,
    checkpoint: Checkpoint | None,
    shm_names: Sequence[str],
) -> Recovered:
    """Recover a log. Only under its exclusive lock; leaves the state RECOVERING, for the caller to
    end once the clean mark is gone.

    Parameters
    ----------
    directory : LogDirectory
        The log.
    cursors : Cursors
        Its mapped file.
    cursors_usable : bool
        Whether the file is of this log, boot and place. Its state does not matter: one that was
        rebuilt has no tail, and one whose recovery was killed still has it, and needs it.
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
    PoolBufferError
        A buffer is there, and this user may not open it.
    DiskFullError, IOFailureError
        The system refused. Nothing is lost by it: the next open starts over.
    """
    usable = cursors_usable and cursors["state"] != STATE_NONE
    interrupted = cursors_usable and cursors["state"] == STATE_RECOVERING
    cursors["state"] = STATE_RECOVERING
    directory.sweep()
    tailer_folder.sweep(directory)
    failpoint("swept")
    survey = find_buffers(shm_names, directory.log_uuid)
    if survey.live_in_use:
        raise LogLockedError(
            "a pool that lives still holds records of this log in shared memory; close it, or the "
            "process that has it",
            path=directory.path,
        )
    lost = _report_lost(directory, survey)
    numbers = set(directory.segment_numbers())
    found = None
    if not numbers and not survey.recoverable:
        found = _begin(directory, checkpoint)
    elif checkpoint is not None and checkpoint.clean and not survey.recoverable:
        found = _find_clean_end(directory, numbers, checkpoint.position)
    if found is None:
        position = 0 if checkpoint is None else checkpoint.position
        log = UncleanLog(
            directory,
            numbers,
            cursors=cursors if usable else None,
            position=position,
            survey=survey,
            interrupted=interrupted,
        )
        found = log.recover(lost)
    _finish(directory, cursors, found)
    for name in (*found.from_shm, *survey.free):
        discard(name)
        failpoint("buffer discarded")
    return found


def _report_lost(directory: LogDirectory, survey: ShmSurvey) -> tuple[str, ...]:
    for name in survey.missing:
        _logger.warning(
            "%s: the shared-memory buffer %s is missing: what was not committed from it is lost",
            directory.path,
            name,
        )
    for name, fault in survey.unusable:
        _logger.warning(
            "%s: the shared-memory buffer %s cannot be used: %s", directory.path, name, fault
        )
    return (*survey.missing, *(name for name, _ in survey.unusable))


def _finish(directory: LogDirectory, cursors: Cursors, found: Recovered) -> None:
    """Give the cursors what every later handle starts from, and named tailers an end that is
    there.
    """
    tailer_file.cut_back(directory, found.end)
    failpoint("tailers cut back")
    number, offset = found.tail
    if offset < directory.segment_size:
        cursors.allocated = number, make_ready(directory, number, offset)
    for watermark in ("appended", "committed", "flushed"):
        cursors[watermark] = found.end
    for cell in (
        "failed",
        "flusher",
    ):  # `waiters` stays: who sleeps through the opening is woken by the first append
        cursors[cell] = 0
    cursors.tail = found.tail
    failpoint("cursors set")
    _logger.debug("%s: opened as %s, ends at position %d", directory.path, found.case, found.end)


def _begin(directory: LogDirectory, checkpoint: Checkpoint | None) -> Recovered:
    """Create the first segment. Positions never come again: a log that lost all of its segments
    goes on behind them.
    """
    number = 0
    if checkpoint is not None and checkpoint.position > HEADER_SIZE:
        number = -(-checkpoint.position // directory.segment_size)
        _logger.error(
            "%s: all segments below position %d are missing; the log goes on behind them",
            directory.path,
            checkpoint.position,
        )
    allocated = blocks_for(directory.segment_size, HEADER_SIZE)
    directory.create_segment(number, opened_ns=time.time_ns(), allocated=allocated)
    failpoint("first segment created")
    location = Location(number, HEADER_SIZE)
    return Recovered("empty", location, location.position(directory.segment_size))


def _find_clean_end(directory: LogDirectory, numbers: set[int], position: int) -> Recovered | None:
    """The end of a log that was closed, or None when what is there contradicts the mark. Looks at
    the last segments only.
    """
    end = locate(directory, numbers, position)
    above = sorted(number for number in numbers if end is not None and number > end.number)
    if (
        end is None
        or len(above) > AHEAD_LIMIT
        or above != list(range(end.number + 1, end.number + 1 + len(above)))
    ):
        _logger.error(
            "%s: the log was closed at position %d, and its segments do not fit that",
            directory.path,
            position,
        )
        return None
    if _is_skipped(directory, end):
        _logger.error(
            "%s: the log was closed at position %d, and a SKIP reaches beyond it",
            directory.path,
            position,
        )
        return None
    locations = [Location(number, HEADER_SIZE) for number in above]
    if end.offset < directory.segment_size:
        locations.append(end)
    for location in locations:
        with directory.opened_segment(location.number) as segment:
            blank = segment.nonzero(location.offset, location.offset + 8) == location.offset + 8
        if not blank:
            dirty = location.position(directory.segment_size)
            _logger.error(
                "%s: the log was closed, and yet something stands behind its end, at position %d",
                directory.path,
                dirty,
            )
            return None
        if location != end:
            make_solid(directory, location.number)
    tail = tail_location(directory, numbers, end)
    return Recovered("clean", tail, tail.position(directory.segment_size))


def _is_skipped(directory: LogDirectory, end: Location) -> bool:
    """Whether a SKIP with which the segment begins reaches beyond the end of a log that was closed.

    `repair` once left the clean mark on a log whose last segment it had replaced by SKIPs from end
    to end. It takes the mark away now, so no other SKIP can lie across the end, and the segment's
    frames need not be read.
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
