"""Walk over the frames above a position, to find the log's valid end and roll back dead claims.

There are three walks. `walk_valid` has only the files, and stops at the first frame that is neither
valid nor a SKIP, unless `behind_damage` shows that this frame is damaged and not torn.
`walk_claimed` has the tail, below which every cell was claimed. `walk_buffers` has the buffers of a
dead pool, which continue the files.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import numpy as np

from commitlog._kernel.failure import BUSY, DAMAGE, END
from commitlog._kernel.segments import CELL_SIZE, FRAME_ALIGN, HEADER_SIZE, Segment
from commitlog.base.failpoint import failpoint
from commitlog.pool.shm_survey import RecoverableBuffer
from commitlog.recovery.location import Location
from commitlog.segment.directory import LogDirectory

_logger = logging.getLogger("commitlog.recovery")
_SECTOR = 512  # bytes that a disk writes whole, at least


@dataclass
class Walk:
    """The end of a walk, below which every frame is valid, and what the walk changed.

    The walk passed `damage`, from each position to the next. `rolled_back` claims were turned into
    SKIP. `damaged`: an invalid frame stopped the walk below
    the tail of a log whose memory was never lost. The frames of the `recovered` buffers are in the
    log now; `unused` buffers were attached ahead of need and hold nothing; `stranded` ones do not
    continue the log.
    """

    end: Location
    damage: list[tuple[int, int]] = field(default_factory=list)
    rolled_back: int = 0
    damaged: bool = False
    recovered: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    stranded: list[str] = field(default_factory=list)


def walk_valid(directory: LogDirectory, numbers: Collection[int], start: Location) -> Walk:
    """Walk to the first frame that is neither valid, a SKIP, nor damage; change nothing."""
    walk = Walk(start)
    number, offset = start
    while True:
        with directory.opened_segment(number) as segment:
            offset, code = _pass(walk, segment, offset, segment.size)
        walk.end = Location(number, offset)
        if code != 0 or number + 1 not in numbers:
            return walk
        number, offset = number + 1, HEADER_SIZE


def _pass(walk: Walk, segment: Segment, offset: int, limit: int) -> tuple[int, int]:
    """Pass valid frames and damage up to a limit; return where that ends, and the kernel's code."""
    while True:
        offset, code = segment.scan(offset, limit)[:2]
        resume = behind_damage(segment, offset) if code == DAMAGE else None
        if resume is None or resume > limit:
            return offset, code
        walk.damage.append((segment.base + offset, segment.base + resume))
        offset = resume


def behind_damage(segment: Segment, offset: int) -> int | None:
    """Return where the frames continue behind a bad frame that is damaged and not torn; None if it
    may be torn.

    A valid frame follows, or the seal says where the frames end. So the bad frame was whole once,
    unless it looks unfinished. Only its own bytes count: other appenders may have written behind it
    before it was published.
    """
    resume = segment.resume(offset)
    if resume >= segment.size:
        seal = segment.sealed()
        if seal is None:
            return None
        if offset >= seal[0]:
            return segment.size
        resume = seal[0]
    step = segment.step(offset)[1]
    end = min(offset + step, resume) if step else resume
    return None if _is_unfinished(segment, offset, end) else resume


def _is_unfinished(segment: Segment, start: int, stop: int) -> bool:
    """Return whether a sector's part of a frame ends with a word of zeros.

    Recovery zeroes what it cuts, and a frame is written from its beginning to its end. So what a
    power cut leaves of a sector that was not written, or was read while the frame was being
    written, ends with zeros.
    """
    ends = (*range(start - start % _SECTOR + _SECTOR, stop, _SECTOR), stop)
    return any(segment.nonzero(end - FRAME_ALIGN, end) == end for end in ends)


def walk_claimed(directory: LogDirectory, start: Location, tail: Location) -> Walk:
    """Walk to the tail of a mapped log; turn the unpublished claims of dead owners into SKIP."""
    walk = Walk(start)
    for number in range(start.number, tail.number + 1):
        if number > start.number:
            walk.end = Location(number, HEADER_SIZE)
        with directory.opened_segment(number, writable=True) as segment:
            _resolve(walk, segment, tail.offset if number == tail.number else segment.size)
        if walk.damaged:
            break
    return walk


def _resolve(walk: Walk, segment: Segment, limit: int) -> None:
    """Walk one segment up to `limit`; turn gaps and claims into SKIP."""
    offset = walk.end.offset
    while True:
        offset, code = _pass(walk, segment, offset, limit)
        if code == END:
            stop = _mark(segment, offset, limit)
            _logger.info(
                "%s: a gap of %d bytes at position %d was rolled back",
                segment.path,
                stop - offset,
                segment.base + offset,
            )
        elif code == BUSY and offset + segment.step(offset)[1] <= limit:
            _roll_back(segment, offset)
        else:
            walk.damaged = code != 0
            walk.end = Location(segment.number, offset)
            return
        walk.rolled_back += 1
        failpoint("claim rolled back")


def _mark(segment: Segment, offset: int, limit: int) -> int:
    """Turn the unnamed ranges from `offset` on into SKIP; return where that ends."""
    if limit < segment.size or segment.nonzero(offset, limit) < limit:
        return int(segment.mark_gap(offset, limit))
    # The tail had left the segment, which may lack blocks for more than this cell.
    segment.skip(offset, 0)
    return limit


def _roll_back(segment: Segment, offset: int) -> None:
    length = segment.step(offset)[1]
    segment.skip(offset, length)
    _logger.warning(
        "%s: the claim at position %d, %d bytes, was rolled back",
        segment.path,
        segment.base + offset,
        length,
    )


def walk_buffers(
    directory: LogDirectory,
    numbers: set[int],
    start: Location,
    buffers: Sequence[RecoverableBuffer],
) -> Walk:
    """Walk to the end of a pooled log, through the files and the buffers of its dead pool, and copy
    the buffers' frames into the files.

    The buffers are by ascending base. Segments that are created for a buffer are added to
    `numbers`.
    """
    walk = Walk(start)
    waiting: dict[int, RecoverableBuffer] = {}
    for buffer in buffers:
        number, rest = divmod(buffer.base, directory.segment_size)
        if number < start.number:
            walk.recovered.append(buffer.name)  # it is flushed, and was not returned yet
        elif rest or number in waiting:
            _logger.error(
                "%s: the buffer %s in shared memory belongs to no segment; it stays there",
                directory.path,
                buffer.name,
            )
            walk.stranded.append(buffer.name)
        else:
            waiting[number] = buffer
    while True:
        number = walk.end.number
        _walk_one(walk, directory, numbers, waiting.pop(number, None))
        if walk.end.offset < directory.segment_size or (
            number + 1 not in numbers and number + 1 not in waiting
        ):
            break
        walk.end = Location(number + 1, HEADER_SIZE)
    for number, buffer in sorted(waiting.items()):
        _take_aside(walk, directory, numbers, number, buffer)
    return walk


def _walk_one(
    walk: Walk, directory: LogDirectory, numbers: set[int], buffer: RecoverableBuffer | None
) -> None:
    """Walk over one segment, and then over its buffer if it has one.

    Without a buffer, claims in the file were made in the file itself.
    """
    number, offset = walk.end
    with _open_or_create(directory, numbers, number, buffer) as segment:
        fits = buffer is not None and _fits(walk, segment, buffer)
        while True:
            offset, code = _pass(walk, segment, offset, segment.size)
            if code != BUSY or fits:
                break
            _roll_back(segment, offset)
            walk.rolled_back += 1
        if fits and buffer is not None:
            before = offset
            offset, claims = segment.take_over(buffer.memory, offset)
            walk.rolled_back += claims
            walk.recovered.append(buffer.name)
            _logger.info(
                "%s: %d bytes recovered from shared memory %s",
                segment.path,
                offset - before,
                buffer.name,
            )
            _keep_the_rest(segment, buffer, offset)
            failpoint("buffer taken over")
        walk.end = Location(number, offset)


def _open_or_create(
    directory: LogDirectory, numbers: set[int], number: int, buffer: RecoverableBuffer | None
) -> AbstractContextManager[Segment]:
    """Open a segment; create it if it is missing and a buffer continues it."""
    if number not in numbers and buffer is not None:
        directory.create_segment(number, segment_id=buffer.segment_id)
        numbers.add(number)
        failpoint("segment created")
    return directory.opened_segment(number, writable=True)


def _fits(walk: Walk, segment: Segment, buffer: RecoverableBuffer) -> bool:
    """Return whether a buffer belongs to this segment: it has its id and its size."""
    if buffer.segment_id == segment.id and buffer.size >= segment.size:
        return True
    _logger.error(
        "%s: the buffer %s in shared memory belongs to another segment of this name; it stays "
        "there",
        segment.path,
        buffer.name,
    )
    walk.stranded.append(buffer.name)
    return False


def _keep_the_rest(segment: Segment, buffer: RecoverableBuffer, end: int) -> None:
    """Copy the frames behind an invalid one from a buffer into the file, for the cut to save them.

    The cell at `end` stays unchanged, so that the log ends there for readers of the file.
    """
    last = segment.certain_end(end, buffer.memory) if end < segment.size else end
    if last > end:
        _logger.error(
            "%s: the buffer %s is damaged at position %d",
            segment.path,
            buffer.name,
            segment.base + end,
        )
        with memoryview(buffer.memory) as view:
            segment.write(end + CELL_SIZE, view[end + CELL_SIZE : last])


def _take_aside(
    walk: Walk, directory: LogDirectory, numbers: set[int], number: int, buffer: RecoverableBuffer
) -> None:
    """Copy the frames of a buffer above the log's end into its segment's file, for the cut to save
    them. A buffer of zeros was attached before the log rolled.
    """
    if not np.frombuffer(memoryview(buffer.memory), np.uint8).any():
        walk.unused.append(buffer.name)
        return
    with _open_or_create(directory, numbers, number, buffer) as segment:
        if _fits(walk, segment, buffer):
            _logger.error(
                "%s: the log ends before the records that the buffer %s holds",
                segment.path,
                buffer.name,
            )
            segment.take_over(buffer.memory, HEADER_SIZE)
            walk.recovered.append(buffer.name)
