"""Which way a tailer reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from commitlog._kernel.readers import Record
    from commitlog.tail.seek import Seeker

Direction = Literal["forward", "backward"]
DIRECTIONS = ("forward", "backward")


def stride(tailer: Seeker) -> Iterator[Record]:
    """The indexed records alone, from where a tailer stands, in its direction at each step."""
    tailer.return_to_place()
    try:
        yield from _steps(tailer)
    finally:
        tailer.return_to_place()


def _steps(tailer: Seeker) -> Iterator[Record]:
    while True:
        tailer.save_place()
        place = tailer.position
        backward = tailer.direction == "backward"
        entry = tailer.log_index.entry(place, before=backward)
        if entry is None:
            return
        tailer.move_to(entry)
        record = tailer.read_onward()
        if backward:
            tailer.move_to(entry)
        if record is not None and (record.position == entry or not backward):
            yield record
        elif not backward:
            tailer.move_to(place)  # the next one is not to be seen yet
            return
