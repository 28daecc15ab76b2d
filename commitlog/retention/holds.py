"""Holds: read from a log's files what keeps its segments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from commitlog._kernel.memory import Cursors
from commitlog.errors import CommitLogError
from commitlog.retention import stored_mark
from commitlog.retention.deletion import Hold
from commitlog.segment import checked_json
from commitlog.segment.directory import LogDirectory
from commitlog.segment.seal_table import SealTable
from commitlog.tail.tailer_state import lowest_required

STORE = "store"
_EPOCH = "epoch"  # see commitlog/recovery/lineage.py


@dataclass(frozen=True)
class Ends:
    """Positions from which on segments must stay.

    Attributes
    ----------
    flushed : int
        Where the durable part ends.
    copied : int or None
        Where the part ends that the required copies have; None if no append waits for copies.
    held : mapping
        Where extensions of this handle hold the log, by their names; see `LogView.hold`. "store":
        what this handle has stored whole. Other handles know it from the file `stored`, which may
        be behind, or could not be written because the disk is full.
    """

    flushed: int
    copied: int | None = None
    held: Mapping[str, int] = field(default_factory=dict)


def copied_end(directory: LogDirectory, cursors: Cursors) -> int | None:
    """Return where the part ends that the required copies have, as a handle with `replicate=`
    publishes it; None if no append waits for copies.
    """
    if not cursors["replicated"]:  # no such handle since the log was recovered
        return None
    content = checked_json.read(directory, _EPOCH)
    requires = content is not None and content.get("require", 0)
    return int(cursors["copied"]) if requires else None


def read_holds(
    directory: LogDirectory, seals: SealTable, ends: Ends, waived: frozenset[str]
) -> list[Hold]:
    """Return what keeps segments now, except for what the caller waives."""
    size = directory.segment_size
    holds = [Hold("flush", ends.flushed // size, "it is not durable yet")]
    readers: dict[str, Callable[[], Hold | None]] = {
        STORE: lambda: _store_hold(directory, ends.held.get(STORE)),
        "copies": lambda: _copies_hold(size, ends.copied),
        "tailers": lambda: _tailers_hold(directory, seals),
    }
    found = (read() for name, read in readers.items() if name not in waived)
    holds += (
        Hold(name, position // size, f"{name} needs it")
        for name, position in ends.held.items()
        if name != STORE
    )
    return [*holds, *(hold for hold in found if hold is not None)]


def _store_hold(directory: LogDirectory, stored: int | None) -> Hold | None:
    size = directory.segment_size
    try:
        known = stored_mark.read(directory)
    except (CommitLogError, OSError) as error:
        if stored is None:
            return Hold("store", 0, f"it is not known what the store has: {error}")
        known = None
    if known is None:
        return None if stored is None else Hold("store", stored // size, "it is not stored yet")
    number = (known.kept_position if stored is None else stored) // size
    return Hold("store", number, f"it is not stored in {known.target} yet")


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
