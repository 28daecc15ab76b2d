"""Executes a join note. Each step is idempotent: after a kill at any point, repeating all steps
finishes the join.

Readers follow frames, and reach the new segments only through the gate. It opens last, by one store
or one rename, so that readers see all of the new segments or none. Until then no reader visits the
new segments: a reader that opens the log takes its end from the checkpoint, which is the old one
until the gate is open.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time

from commitlog._kernel import segments as kernel
from commitlog._kernel.segments import CELL_SIZE, HEADER_SIZE, OPENED_AT, SEAL_AT
from commitlog.base.failpoint import failpoint
from commitlog.base.path import make_directory, sync_directory
from commitlog.base.regular_file import open_regular, opened_regular, read_range, write_whole
from commitlog.errors import CorruptSegmentError, IOFailureError
from commitlog.flush import checkpoint as checkpoints
from commitlog.recovery.join_note import JoinNote, Manifest, Move, is_inside
from commitlog.recovery.location import is_blank
from commitlog.segment.directory import JOIN_NOTE, STAGED, LogDirectory, segment_name
from commitlog.segment.seal_table import first_unsealed, read_seal

_logger = logging.getLogger("commitlog.stage")
# Where a join puts segments that were staged outside of the log's directory.
_TAKEN_IN = os.path.join(STAGED, "joining")


def finish_pending(directory: LogDirectory) -> JoinNote | None:
    """Finish the pending join, if there is one. Requires the log's exclusive lock. If the note is
    damaged, or a file that it names is missing, nothing is joined.
    """
    note = JoinNote.read(directory)
    if note is not None:
        _logger.info(
            "%s: finishing the join of %d segments that was begun", directory.path, len(note.moves)
        )
        finish(directory, note)
    return note


def finish(directory: LogDirectory, note: JoinNote) -> None:
    """Execute all steps of the note, and remove it."""
    check(directory, note)
    _clear(directory, note)
    # From the last down: as long as the first is missing, no reader finds the others.
    for move in reversed(note.moves):
        _place(directory, move)
        failpoint("segment placed")
    directory.sync()
    failpoint("placement synced")
    if note.gate is not None:
        _open_gate(directory, *note.gate)
    seal_below(directory, note.first_number)
    failpoint("sealed")
    _move_end(directory, note.end)
    if note.query is not None and note.batch is not None:
        Manifest.read(directory).add(directory, note.query, note.batch)
        failpoint("manifest written")
    JoinNote.remove(directory)
    failpoint("note removed")
    if not os.path.islink(os.path.join(directory.path, STAGED)):
        import shutil

        # Joins whose process died before the note was written have left these.
        shutil.rmtree(os.path.join(directory.path, _TAKEN_IN), ignore_errors=True)
    for folder in {os.path.dirname(move.source) for move in note.moves} | {STAGED}:
        with contextlib.suppress(OSError):
            os.rmdir(folder, dir_fd=directory.fd)


def check(directory: LogDirectory, note: JoinNote) -> None:
    """Check, before any move, that the log ends where the note begins, and all files exist."""
    checkpoint = checkpoints.read(directory.fd, directory.log_uuid)
    if (
        checkpoint is None
        or not checkpoint.clean
        or checkpoint.position not in (note.start, note.end)
    ):
        raise _unfit(
            directory, f"the log does not end where its join began, at position {note.start}"
        )
    for move in note.moves:
        found = [
            name
            for name in (move.source, segment_name(move.number * directory.segment_size))
            if _is(directory, name, move)
        ]
        if not found:
            raise _unfit(directory, f"the staged segment {move.source} is missing or was replaced")


def unreached(directory: LogDirectory) -> list[int]:
    """Return the segments that an unfinished join has placed behind the log's end.

    The log is closed before a join begins, and segments allocated ahead are empty.
    """
    checkpoint = checkpoints.read(directory.fd, directory.log_uuid)
    if not directory.joining or checkpoint is None or not checkpoint.clean:
        return []
    return [
        number
        for number in directory.segment_numbers()
        if number * directory.segment_size >= checkpoint.position
    ]


def _unfit(directory: LogDirectory, why: str) -> CorruptSegmentError:
    return CorruptSegmentError(
        f"the join in `{JOIN_NOTE}` cannot be finished: {why}; run `commitlog repair` on the log",
        path=os.path.join(directory.path, JOIN_NOTE),
    )


def _is(directory: LogDirectory, name: str, move: Move) -> bool:
    """Return whether a file is the segment to join: whole, with its id and its new header."""
    try:
        with opened_regular(name, dir_fd=directory.fd) as fd:
            page = read_range(fd, HEADER_SIZE, 0)
            whole = os.fstat(fd).st_size == directory.segment_size and len(page) == HEADER_SIZE
    except FileNotFoundError:
        return False
    base = move.number * directory.segment_size
    seal = (
        kernel.read_seal(page, directory.log_uuid, base, directory.segment_size) if whole else None
    )
    return seal is not None and seal[0] == move.segment_id


def _clear(directory: LogDirectory, note: JoinNote) -> None:
    """Remove the segments that were allocated ahead: the closed gate keeps readers out of them."""
    ids = {move.number: move for move in note.moves}
    for number in directory.segment_numbers():
        name = segment_name(number * directory.segment_size)
        if number < note.first_number or (number in ids and _is(directory, name, ids[number])):
            continue
        with directory.opened_segment(number) as segment:
            blank = segment.nonzero(OPENED_AT, HEADER_SIZE + CELL_SIZE) == HEADER_SIZE + CELL_SIZE
        if not blank:
            raise _unfit(directory, f"{name} exists already and is not empty")
        directory.remove_segment(number)
        failpoint("blank segment removed")


def _place(directory: LogDirectory, move: Move) -> None:
    """Rename a staged file to its segment name; no error if that is done already."""
    name = segment_name(move.number * directory.segment_size)
    with contextlib.suppress(FileNotFoundError):
        _rename_staged(move.source, name, dir_fd=directory.fd)


def _rename_staged(source: str, target: str, dir_fd: int | None = None) -> None:
    try:
        os.rename(source, target, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise IOFailureError(
            f"cannot move the staged segment to {target} ({error.strerror}): stage segments on the "
            "file system of their log",
            path=source,
            errno=error.errno,
        ) from error


def _open_gate(directory: LogDirectory, number: int, offset: int) -> None:
    """Close the segment in which readers wait by one store, durably, and free its unused blocks."""
    with (
        directory.opened_segment(number, writable=True) as segment,
        directory.opened_file(number, os.O_RDWR) as fd,
    ):
        if is_blank(segment, offset):
            segment.skip(offset, 0)
            failpoint("gate opened")
        # Writeback of these pages may have failed in an earlier try, and the system marked them
        # clean.
        segment.rewrite(0, HEADER_SIZE)
        segment.rewrite(offset, offset + CELL_SIZE)
        segment.flush(0, segment.size)
        # No appender writes there any more. The pages of the header and of the SKIP itself stay.
        start = -(-(offset + CELL_SIZE) // HEADER_SIZE) * HEADER_SIZE
        if start < segment.size and not kernel.punch_hole(fd, start, segment.size):
            _logger.debug("%s: the rest of the segment keeps its blocks", segment.path)
        os.fsync(fd)


def roll_into(directory: LogDirectory, number: int) -> int:
    """Record in a segment's header that the log rolled into it, if missing; return that time.

    Segments joined behind it get that time or a later one, so that cycles never go back.
    """
    with directory.opened_segment(number) as segment:
        opened_ns, segment_id = segment.opened_ns, segment.id
    if opened_ns:
        return int(opened_ns)
    before = roll_into(directory, number - 1) if directory.has(number - 1) else 0
    opened_ns = max(time.time_ns(), before)
    page = directory.header_page(number, segment_id, 0, opened_ns)
    with directory.opened_file(number, os.O_RDWR) as fd:
        write_whole(fd, page[OPENED_AT:SEAL_AT], OPENED_AT)
        os.fsync(fd)
    return opened_ns


def seal_below(directory: LogDirectory, number: int) -> int:
    """Seal every segment below `number` durably; return the first sequence of `number`."""
    first, sequence = first_unsealed(directory, number)
    for unsealed in range(first, number):
        with directory.opened_segment(unsealed, writable=True) as segment:
            if not segment.seal(sequence):
                raise CorruptSegmentError(
                    "this segment is not full, but later ones hold records: run `commitlog verify` "
                    "on the log",
                    path=segment.path,
                    position=segment.base,
                )
            segment.flush(0, HEADER_SIZE)
        seal = read_seal(directory, unsealed)
        if seal is None:
            raise IOFailureError(
                "the seal that was written to this segment cannot be read: check the disk, then "
                "try again",
                path=directory.segment_path(unsealed),
                position=unsealed * directory.segment_size,
            )
        sequence = seal.next_sequence
    return sequence


def _move_end(directory: LogDirectory, end: int) -> None:
    """Record the new end of the closed log in both records of the checkpoint, so that one lost
    sector does not restore the old end.
    """
    for _ in range(2):
        checkpoints.write(directory.fd, directory.log_uuid, end, clean=True)
        failpoint("checkpoint written")


def give_place(
    path: str, directory: LogDirectory, number: int, first_sequence: int, opened_ns: int
) -> tuple[Move, int]:
    """Write the header of its new position into a staged segment, durably; return the pending move
    and the number of its records. The log rolls into it at `opened_ns`, which decides its cycle.
    """
    taken_in = os.path.join(directory.path, _TAKEN_IN, os.path.basename(path))
    if not os.path.lexists(path) and os.path.lexists(taken_in):
        path = taken_in  # a join whose process died before the note was written has moved it
    try:
        fd = open_regular(path, os.O_RDWR)
    except FileNotFoundError:
        raise CorruptSegmentError(
            "a staged segment is missing: executors and driver must see the same file system",
            path=path,
        ) from None
    try:
        page = read_range(fd, HEADER_SIZE, 0)
        found = None
        if len(page) == HEADER_SIZE and os.fstat(fd).st_size == directory.segment_size:
            uuid, _, base, _, created_ns = kernel.header_fields(page)
            found = kernel.read_seal(page, uuid, base, directory.segment_size)
        if found is None:
            raise CorruptSegmentError(
                f"this is not a complete staged segment of {directory.segment_size} bytes: stage "
                "it anew, for the log's segment size",
                path=path,
            )
        segment_id, _, end, _, *counts = found
        placed = bytearray(directory.header_page(number, segment_id, created_ns, opened_ns))
        seal = kernel.seal_part(segment_id, end, first_sequence, *counts)
        placed[SEAL_AT : SEAL_AT + len(seal)] = seal
        write_whole(fd, bytes(placed), 0)
        os.fsync(fd)
    finally:
        os.close(fd)
    source = os.path.relpath(path, directory.path)
    if not is_inside(directory.path, source):
        # A note names files of its log only, so that a hostile one cannot move other files.
        make_directory(os.path.dirname(taken_in))
        _rename_staged(path, taken_in)
        sync_directory(os.path.dirname(taken_in))
        source = os.path.relpath(taken_in, directory.path)
    return Move(source, number, segment_id), counts[0]
