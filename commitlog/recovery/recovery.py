"""Recovery: before an open exposes the log, it finds the end and makes everything below it durable.

There are two rules. *Kept:* no memory of this boot was lost, so every claim is known; dead claims
become SKIP, and everything else stays, because readers may have seen it. *Cut:* data was lost; the
log ends at the first frame above the durable position that is neither valid nor marked, unless that
frame was written whole and is damaged now. Recovery never changes frames below what is known to be
durable. Run again after a kill at any step, it ends at the same
place.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from commitlog._kernel.memory import STATE_NONE, STATE_RECOVERING, Cursors
from commitlog._kernel.segments import HEADER_SIZE
from commitlog.base.failpoint import failpoint
from commitlog.errors import LogLockedError
from commitlog.flush.checkpoint import Checkpoint
from commitlog.pool.shm_survey import ShmSurvey, discard, find_buffers
from commitlog.recovery.location import Location, tail_location
from commitlog.recovery.log_end import closed_location, first_number
from commitlog.recovery.unclean import Recovered, UncleanLog
from commitlog.segment.blocks import blocks_for, make_ready, make_solid
from commitlog.segment.directory import LogDirectory
from commitlog.tail import tailer_file, tailer_folder

_logger = logging.getLogger("commitlog.recovery")


def recover(
    directory: LogDirectory,
    cursors: Cursors,
    *,
    cursors_usable: bool,
    checkpoint: Checkpoint | None,
    shm_names: Sequence[str],
) -> Recovered:
    """Recover a log. Requires its exclusive lock.

    The state is RECOVERING afterwards; the caller changes it once the clean mark is removed. If the
    cursors are usable, they belong to this log, boot and file. Their state does not matter: rebuilt
    cursors have no tail, and those of a killed recovery still have the tail that it needs.
    `shm_names` are the buffers that the last pool of this boot had recorded.

    If a live pool still holds records of this log, raise `LogLockedError`. After any error the next
    open recovers again, and nothing is lost.
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
            "a live pool still holds records of this log in shared memory: close the pool, or end "
            "its process",
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
        log = UncleanLog(
            directory,
            numbers,
            cursors=cursors if usable else None,
            checkpoint=checkpoint,
            survey=survey,
            interrupted=interrupted,
        )
        found = log.recover(lost)
    _finish(directory, cursors, found)
    for name in (*found.from_shm, *found.unused, *survey.free):
        discard(name)
        failpoint("buffer discarded")
    return found


def _report_lost(directory: LogDirectory, survey: ShmSurvey) -> tuple[str, ...]:
    for name in survey.missing:
        _logger.warning(
            "%s: the shared-memory buffer %s is missing: its uncommitted records are lost",
            directory.path,
            name,
        )
    for name, fault in survey.unusable:
        _logger.warning(
            "%s: the shared-memory buffer %s cannot be used: %s", directory.path, name, fault
        )
    return (*survey.missing, *(name for name, _ in survey.unusable))


def _finish(directory: LogDirectory, cursors: Cursors, found: Recovered) -> None:
    """Set the cursors for later handles, and move named tailers back to the log's end."""
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
        "replicated",
    ):  # not `waiters`: the first append wakes present sleepers
        cursors[cell] = 0
    cursors.tail = found.tail
    failpoint("cursors set")
    _logger.debug("%s: opened as %s, ends at position %d", directory.path, found.case, found.end)


def _begin(directory: LogDirectory, checkpoint: Checkpoint | None) -> Recovered:
    """Create the first segment. Positions are never reused: a log that lost all of its segments
    continues behind them.
    """
    number = first_number(directory, 0 if checkpoint is None else checkpoint.position)
    if checkpoint is not None and number:
        _logger.error(
            "%s: all segments below position %d are missing; the log continues behind them",
            directory.path,
            checkpoint.position,
        )
    allocated = blocks_for(directory.segment_size, HEADER_SIZE)
    directory.create_segment(number, opened_ns=time.time_ns(), allocated=allocated)
    failpoint("first segment created")
    location = Location(number, HEADER_SIZE)
    return Recovered("empty", location, location.position(directory.segment_size))


def _find_clean_end(directory: LogDirectory, numbers: set[int], position: int) -> Recovered | None:
    """Return the end of a closed log; None if the last segments contradict the clean mark."""
    end = closed_location(directory, numbers, position)
    if end is None:
        return None
    for number in sorted(number for number in numbers if number > end.number):
        make_solid(directory, number)
    tail = tail_location(directory, numbers, end)
    return Recovered("clean", tail, tail.position(directory.segment_size))
