"""Joining: staged segments become a part of a log, all of them at once as readers see it, or none.

One process does it, and no other may have the log open for writing. Its steps, each durable before
the next: the staged files get the headers of their places; a note of the whole join is put into the
log's directory; what it says is carried out; the note goes. A join that dies before the note is
there never happened; one that dies later is finished by the next writable open.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from commitlog._kernel.memory import STATE_READY
from commitlog._kernel.segments import HEADER_SIZE
from commitlog.base.failpoint import failpoint
from commitlog.base.path import path_of, telling_of_refusals
from commitlog.base.polling import attempts
from commitlog.errors import CorruptSegmentError, LogLockedError
from commitlog.log.opening import Opened, open_for_writing
from commitlog.options import Options
from commitlog.recovery.join_manifest import Manifest
from commitlog.recovery.join_note import JoinNote
from commitlog.recovery.pending_join import finish, give_place, mark_clean, roll_into, seal_below
from commitlog.segment import cursors_file
from commitlog.segment.lock_file import describe_process
from commitlog.stage.staging import StagedSegment


@dataclass(frozen=True)
class Joined:
    """What a join did.

    Attributes
    ----------
    first_position, end_position : int
        The log's part that is new: where its first record stands, and where the next one will.
    records : int
        In it.
    repeated : bool
        The batch was in the log already, and nothing was done.
    """

    first_position: int
    end_position: int
    records: int
    repeated: bool = False


def join(
    path: str | os.PathLike[str],
    staged: Sequence[StagedSegment],
    *,
    query: str | None = None,
    batch: int | None = None,
    options: Options | None = None,
) -> Joined:
    """Join staged segments to a log, in their order. Durable, and to be seen by readers, when it
    returns.

    Parameters
    ----------
    path : path
        The log; it is created where there is none.
    staged : sequence of StagedSegment
        Of the log's segment size, on its file system. They are moved, and not copied.
    query, batch : str and int, optional
        Together they name what is joined: a batch up to one that the log has of that query is not
        joined again.
    options : Options, optional
        For a new log.

    Returns
    -------
    Joined

    Raises
    ------
    LogLockedError
        Somebody has the log open for writing.
    CorruptSegmentError
        A staged file is not complete, or not for this log; or the log is damaged. Nothing was
        joined.
    ReadOnlyError, DiskFullError, IOFailureError
        The system refused. Where that was in the middle, the next writable open finishes the join.
    """
    where = path_of(path)
    with telling_of_refusals(where):
        opened = _open_alone(where, options or Options())
        try:
            return _join(opened, staged, query, batch)
        finally:
            opened.close()


def _open_alone(path: str, options: Options) -> Opened:
    """The log, recovered and with nobody else at it. Who only prunes it has the lock for a moment,
    and is waited for.
    """
    for _ in attempts(options.open_timeout, f"other processes to let go of {path}"):
        opened = open_for_writing(path, "a", options)
        if opened.exclusive:
            return opened
        writers = cursors_file.live_writers(opened.directory.fd, opened.identity)
        opened.close()
        if writers:
            break
    names = (
        ", ".join(describe_process(writer.pid, writer.pid_namespace) for writer in writers)
        or "another process"
    )
    raise LogLockedError(
        f"segments are joined to a log that nobody else writes, and this one is open in {names}: "
        "close it there, then try again",
        path=path,
        holder=names,
    )


def _join(
    opened: Opened, staged: Sequence[StagedSegment], query: str | None, batch: int | None
) -> Joined:
    directory = opened.directory
    # What recovery left is durable, and nobody can append: the log may say so before anything is
    # done to it.
    mark_clean(directory, opened.end)
    repeated = (
        query is not None and batch is not None and Manifest.read(directory).has(query, batch)
    )
    size = directory.segment_size
    if repeated or not staged:
        _let_in(opened, opened.tail, opened.end)
        end = opened.end + (HEADER_SIZE if opened.end % size == 0 else 0)
        return Joined(end, end, 0, repeated)
    try:
        note = _prepare(opened, staged, query, batch)
        note.write(directory)
    except BaseException:
        _let_in(opened, opened.tail, opened.end)
        raise
    failpoint("note written")
    finish(directory, note)
    _let_in(opened, (note.moves[-1].number, size), note.end)
    return Joined(
        note.first_number * size + HEADER_SIZE,
        note.end + HEADER_SIZE,
        sum(segment.records for segment in staged),
    )


def _prepare(
    opened: Opened, staged: Sequence[StagedSegment], query: str | None, batch: int | None
) -> JoinNote:
    """Everything but the note itself: where the segments go, and their headers."""
    directory = opened.directory
    number, offset = opened.tail
    if offset >= directory.segment_size and directory.has(number + 1):
        number, offset = (
            number + 1,
            HEADER_SIZE,
        )  # made ahead of need, and perhaps some reader waits in it
    gate = (number, offset) if offset < directory.segment_size else None
    sequence = seal_below(directory, number + 1 if gate is None else number)
    if gate is not None:
        sequence += _count(opened, *gate)
    opened_ns = max(time.time_ns(), roll_into(directory, number))
    sequences = accumulate((segment.records for segment in staged), initial=sequence)
    moves = []
    for index, (segment, first_sequence) in enumerate(zip(staged, sequences, strict=False)):
        moves.append(
            give_place(segment.path, directory, number + 1 + index, first_sequence, opened_ns)
        )
        failpoint("place given")
    return JoinNote(
        opened.end,
        (moves[-1].number + 1) * directory.segment_size,
        gate,
        tuple(moves),
        query,
        batch,
    )


def _count(opened: Opened, number: int, offset: int) -> int:
    """How many records stand in the tail's segment."""
    segment = opened.directory.open_segment(number, writable=False)
    try:
        stopped, code, records = segment.scan(HEADER_SIZE, offset)[:3]
    finally:
        segment.release()
    if code != 0 or stopped < offset:
        raise CorruptSegmentError(
            "this segment is damaged, so that its records cannot be counted: run `commitlog "
            "verify` on the log",
            path=segment.path,
            position=number * opened.directory.segment_size + stopped,
        )
    return records


def _let_in(opened: Opened, tail: tuple[int, int], end: int) -> None:
    """Tell the others where the log ends; the tail last."""
    cursors = opened.cursors
    for watermark in ("appended", "committed", "flushed"):
        cursors[watermark] = end
    cursors["tail"] = tail[0] << 32 | tail[1]
    cursors["state"] = STATE_READY
