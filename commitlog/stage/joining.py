"""Join staged segments to a log atomically: readers see all of them or none.

One process joins, and no other may have the log open for writing. Its steps, each durable before
the next: write the headers of their new numbers into the staged files; write a note of the whole
join into the log's directory; execute the note; remove it. If the process dies before the note is
written, the join has no effect; if it dies later, the next writable open finishes the join.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

from commitlog._kernel.memory import STATE_READY
from commitlog._kernel.segments import HEADER_SIZE
from commitlog.base.failpoint import failpoint
from commitlog.base.path import path_of, translate_refusals
from commitlog.base.polling import attempts
from commitlog.errors import CorruptSegmentError, LogLockedError
from commitlog.flush import checkpoint as checkpoints
from commitlog.log.opened import Opened
from commitlog.log.opening import open_for_writing
from commitlog.options import Options, ready_wait_s
from commitlog.recovery.join_note import JoinNote, Manifest
from commitlog.recovery.pending_join import finish, give_place, roll_into, seal_below
from commitlog.segment import cursors_file


@dataclass(frozen=True)
class Joined:
    """What a join did: the position of the first new record, the end of the log, where the next
    record will be, and the number of new records. `repeated`: the batch was in the log already, and
    nothing was done.
    """

    first_position: int
    end_position: int
    records: int
    repeated: bool = False


def join(
    path: str | os.PathLike[str],
    staged: Sequence[str],
    *,
    query: str | None = None,
    batch: int | None = None,
    options: Options | None = None,
) -> Joined:
    """Join staged segments, given by paths, to a log, in their order. They are durable and visible
    when this returns.

    The log is created, with these options, if it does not exist. The segments must have its segment
    size and be on its file system; they are moved, not copied. Query and batch together name the
    batch: if the log has this or a later batch of the query, it is not joined again.

    If another process has the log open for writing, raise `LogLockedError`. If a staged file is not
    complete, or not for this log, nothing is joined. If a system call fails after the note was
    written, the next writable open finishes the join.
    """
    where = path_of(path)
    with translate_refusals(where):
        opened = _open_alone(where, options or Options())
        try:
            return _join(opened, staged, query, batch)
        finally:
            opened.close()


def _open_alone(path: str, options: Options) -> Opened:
    """Open and recover the log exclusively; wait for a process that only prunes it."""
    for _ in attempts(ready_wait_s(options), f"other processes to close {path}"):
        opened = open_for_writing(path, "a", options)
        if opened.exclusive:
            return opened
        writers = cursors_file.live_writers(opened.directory.fd, opened.directory.identity)
        opened.close()
        if writers:
            break
    names = cursors_file.describe(writers)
    raise LogLockedError(
        f"segments can only be joined if no other process writes the log, but it is open in {names}"
        ": close it there, then try again",
        path=path,
        holder=names,
    )


def _join(opened: Opened, staged: Sequence[str], query: str | None, batch: int | None) -> Joined:
    directory = opened.directory
    # The recovered log is durable and no process can append: mark it clean before changing it.
    checkpoints.write(directory.fd, directory.log_uuid, opened.end, clean=True)
    repeated = (
        query is not None and batch is not None and Manifest.read(directory).has(query, batch)
    )
    size = directory.segment_size
    if repeated or not staged:
        _let_in(opened, opened.tail, opened.end)
        end = opened.end + (HEADER_SIZE if opened.end % size == 0 else 0)
        return Joined(end, end, 0, repeated)
    try:
        note, records = _prepare(opened, staged, query, batch)
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
        records,
    )


def _prepare(
    opened: Opened, staged: Sequence[str], query: str | None, batch: int | None
) -> tuple[JoinNote, int]:
    """Return the note of a join, and the number of its records."""
    directory = opened.directory
    number, offset = opened.tail
    if offset >= directory.segment_size and directory.has(number + 1):
        number, offset = number + 1, HEADER_SIZE  # allocated ahead; a reader may wait in it
    gate = (number, offset) if offset < directory.segment_size else None
    sequence = seal_below(directory, number + 1 if gate is None else number)
    if gate is not None:
        sequence += _count(opened, *gate)
    opened_ns = max(time.time_ns(), roll_into(directory, number))
    moves, joined = [], 0
    for place, path in enumerate(staged, number + 1):
        move, records = give_place(path, directory, place, sequence + joined, opened_ns)
        moves.append(move)
        joined += records
        failpoint("place given")
    note = JoinNote(
        opened.end,
        (moves[-1].number + 1) * directory.segment_size,
        gate,
        tuple(moves),
        query,
        batch,
    )
    return note, joined


def _count(opened: Opened, number: int, offset: int) -> int:
    with opened.directory.opened_segment(number) as segment:
        stopped, code, records = segment.scan(HEADER_SIZE, offset)[:3]
    if code != 0 or stopped < offset:
        raise CorruptSegmentError(
            "this segment is damaged, and its records cannot be counted: run `commitlog verify` on "
            "the log",
            path=segment.path,
            position=number * opened.directory.segment_size + stopped,
        )
    return records


def _let_in(opened: Opened, tail: tuple[int, int], end: int) -> None:
    """Publish the log's end in the cursors; the tail last."""
    cursors = opened.cursors
    for watermark in ("appended", "committed", "flushed"):
        cursors[watermark] = end
    cursors.tail = tail
    cursors["state"] = STATE_READY
