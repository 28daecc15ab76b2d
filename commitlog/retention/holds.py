"""Holds: read from a log's files what keeps its segments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from commitlog.errors import CommitLogError
from commitlog.retention import stored_mark
from commitlog.retention.deletion import Hold
from commitlog.segment.directory import LogDirectory
from commitlog.segment.seal_table import SealTable
from commitlog.tail.tailer_state import lowest_required


@dataclass(frozen=True)
class Ends:
    """Positions from which on segments must stay.

    Attributes
    ----------
    flushed : int
        Where the durable part ends.
    copied : int or None
        Where the part ends that the required copies have; None if no append waits for copies.
    """

    flushed: int
    copied: int | None = None


def read_holds(
    directory: LogDirectory, seals: SealTable, ends: Ends, waived: frozenset[str]
) -> list[Hold]:
    """Return what keeps segments now, except for what the caller waives."""
    size = directory.segment_size
    holds = [Hold("flush", ends.flushed // size, "it is not durable yet")]
    readers: dict[str, Callable[[], Hold | None]] = {
        "store": lambda: _store_hold(directory),
        "copies": lambda: _copies_hold(size, ends.copied),
        "tailers": lambda: _tailers_hold(directory, seals),
    }
    found = (read() for name, read in readers.items() if name not in waived)
    return [*holds, *(hold for hold in found if hold is not None)]


def _store_hold(directory: LogDirectory) -> Hold | None:
    try:
        mark = stored_mark.read(directory)
    except CommitLogError as error:
        return Hold("store", 0, f"it is not known what the store has: {error.message}")
    if mark is None:
        return None
    number = mark.position // directory.segment_size
    return Hold("store", number, f"it is not stored in {mark.target} yet")


def _copies_hold(size: int, copied: int | None) -> Hold | None:
    if copied is None:
        return None
    return Hold("copies", copied // size, "the required copies do not have it yet")


def _tailers_hold(directory: LogDirectory, seals: SealTable) -> Hold | None:
    """Keep what the slowest required tailer has yet to read."""
    position = lowest_required(directory)
    if position is None:
        return None
    number, offset = divmod(position, directory.segment_size)
    seal = seals.get(number)
    # Behind the end there is only the SKIP that closes the segment.
    if seal is not None and offset >= seal.end:
        number += 1
    start = number * directory.segment_size
    return Hold("tailers", number, f"a required tailer has yet to read from position {start} on")
