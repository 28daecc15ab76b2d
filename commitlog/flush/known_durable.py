"""What is known to be durable: the highest position that a witness in the log's files gives.

A bad frame below that position is damage, and is never cut as a torn tail. Recovery, readers of a
log that no writer has open, `verify`, `repair` and `prune` all ask `known_durable`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection

from commitlog._kernel.segments import HEADER_SIZE, durable_at_creation
from commitlog.flush.checkpoint import Checkpoint
from commitlog.segment.directory import LogDirectory

# Returns a position below which everything was durable; 0 if it knows none. It raises nothing.
Witness = Callable[[LogDirectory, Collection[int]], int]
_HEADERS_MOST = 16  # segments are created at most eight ahead of the tail


def known_durable(
    directory: LogDirectory, numbers: Collection[int], checkpoint: Checkpoint | None
) -> int:
    """Return the position below which everything is known to have been durable.

    It is that of the checkpoint, or a higher one that another witness gives and that the segments
    `numbers` reach. It is never below the first segment: segments are deleted only once they are
    durable.
    """
    size = directory.segment_size
    known = 0 if checkpoint is None else checkpoint.position
    if numbers:
        known = max(known, min(numbers) * size + HEADER_SIZE)
    for witness in _witnesses:
        position = witness(directory, numbers)
        number, offset = divmod(position, size)
        if number in numbers or (offset <= HEADER_SIZE and number - 1 in numbers):
            known = max(known, position)
    return known


def register(witness: Witness) -> None:
    """Ask another witness from now on: its file is durable, and so is everything below the position
    that it gives.
    """
    if witness not in _witnesses:
        _witnesses.append(witness)


def _at_creation(directory: LogDirectory, numbers: Collection[int]) -> int:
    """Return what was durable when the last segment was created whose header says so."""
    for number in heapq.nlargest(_HEADERS_MOST, numbers):
        size = directory.segment_size
        page = directory.read_header(number) or b""
        position = durable_at_creation(page, directory.log_uuid, number * size, size)
        if position:
            return position
    return 0


_witnesses: list[Witness] = [_at_creation]
