"""Comparison: whether a copy has the records of the log that it is to follow.

Epochs and ends do not show it. A primary that was restored from a backup, or a clone of it, goes on
under the same epoch, in segments with the same ids, and may have passed the end of the copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from commitlog.extension import FRAME_ALIGN, HEADER_SIZE
from commitlog.network.replication.digests import Digest, Digests
from commitlog.network.replication.wire import DIGESTS_LIMIT

_COMPARED_BYTES = 256 << 20  # before the copy's last segment, which is compared as a whole
_STEP_BYTES = 64 << 20  # that the other log reads for one request

Ask = Callable[[list[tuple[int, int]]], list[Digest | None]]
"""Asks the other log for the digests of segments up to offsets."""


def first_difference(
    own: Digests,
    ask: Ask,
    numbers: list[int],
    end: int,
    segment_size: int,
    *,
    before: int | None = None,
) -> int | None:
    """Return the position of the first frame of a copy, which ends at `end`, that the other log
    does not have; None if there is none.

    Logs that once differ never become equal again: each frame has its time, and each segment that
    was created afterwards another id. So the last segment is compared, frame for frame, with the
    one `before` it, or with so many bytes, and earlier ones are not. A segment that the other log
    has deleted is left out.
    """
    before = _COMPARED_BYTES if before is None else before
    for batch in _batches(numbers, end, segment_size, before):
        found = [(number, own.of(number, stop)) for number, stop in batch]
        wanted = [(number, mine) for number, mine in found if mine and mine[0] > HEADER_SIZE]
        theirs = ask([(number, stop) for number, (stop, _) in wanted]) if wanted else []
        for (number, mine), other in zip(wanted, theirs, strict=True):
            if other is not None and other != mine:
                return number * segment_size + _narrow(own, ask, number, mine[0])
    return None


def parted_below(
    own: Digests, ask: Ask, numbers: list[int], end: int, segment_size: int
) -> int | None:
    """Return the position of the first frame that two logs do not have in common below the end of
    the shorter one, in its last segments; None if there is none.
    """
    number, offset = divmod(end, segment_size)
    mine = own.of(number, offset) if offset > HEADER_SIZE and number in numbers else None
    found = first_difference(own, ask, numbers, end, segment_size, before=0)
    if found is None and mine is not None and mine[0] < offset:
        return number * segment_size + mine[0]  # the own frame goes on behind the other log's end
    return found


def _batches(
    numbers: list[int], end: int, segment_size: int, before: int
) -> Iterator[list[tuple[int, int]]]:
    """Yield segments with offsets to compare them at, each time as many as one request takes."""
    last, offset = divmod(end, segment_size)
    first = last - max(before // segment_size, 1)
    batch: list[tuple[int, int]] = []
    size = 0
    for number in numbers:
        if not first <= number <= last:
            continue
        stop = offset if number == last else segment_size
        for at in [*range(_STEP_BYTES, stop, _STEP_BYTES), stop]:
            batch.append((number, at))
            size += min(at, _STEP_BYTES)
            if size >= _STEP_BYTES or len(batch) >= DIGESTS_LIMIT:
                yield batch
                batch, size = [], 0
    if batch:
        yield batch


def _narrow(own: Digests, ask: Ask, number: int, stop: int) -> int:
    """Return the offset of the first frame of a segment that differs, below `stop`."""
    same = low = HEADER_SIZE
    while stop - low > FRAME_ALIGN:
        middle = (low + stop) // 2
        mine = own.of(number, middle)
        if mine is not None and (mine[0] == same or ask([(number, mine[0])]) == [mine]):
            same, low = mine[0], middle
        else:
            stop = middle
    return same
