"""Account: the last record that each sender was acknowledged, and the last that a reader has seen.

Both are cells of mapped files, so they outlive a kill of the process that writes them.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import NamedTuple

SENDERS = 4  # threads of a session
_SESSIONS = 1 << 14
_TEXT = b"%d:%d:%d:"
_REPEATED_MOST = 2  # the one at its place, and one that it took before it noted the place


class Mark(NamedTuple):
    """The session and the thread that sent a record, and its number there, from 1 on."""

    session: int
    sender: int
    number: int


def value_of(mark: Mark) -> bytes:
    """Return the record of a mark, of 20 to 400 bytes."""
    head = _TEXT % mark
    return head + b"." * (20 + mark.number * 7919 % 380)


def mark_of(value: bytes) -> Mark:
    """Return the mark of a record; fail if its bytes are not those that were sent."""
    session, sender, number, _ = value.split(b":", 3)
    mark = Mark(int(session), int(sender), int(number))
    assert value == value_of(mark), f"not a record of the soak: {value[:60]!r}"
    return mark


class Cells:
    """Numbers in a mapped file, one for each sender of each session."""

    def __init__(self, path: Path) -> None:
        with path.open("a+b") as file:
            os.truncate(file.fileno(), 8 * _SESSIONS * SENDERS)
            self._map = mmap.mmap(file.fileno(), 0)
        self._cells = memoryview(self._map).cast("Q")

    def get(self, session: int, sender: int) -> int:
        return self._cells[session * SENDERS + sender]

    def set(self, mark: Mark) -> None:
        self._cells[mark.session * SENDERS + mark.sender] = mark.number

    def total(self) -> int:
        """Return the sum of all cells: how many records there are."""
        return sum(self._cells)

    def cells(self) -> list[int]:
        return self._cells.tolist()


class Place:
    """The position of the record that a reader took last, 0 before the first, in a mapped file."""

    def __init__(self, path: Path) -> None:
        with path.open("a+b") as file:
            os.truncate(file.fileno(), 8)
            self._cell = memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")

    @property
    def position(self) -> int:
        return self._cell[0]

    @position.setter
    def position(self, position: int) -> None:
        self._cell[0] = position


class Seen:
    """Checks that a reader gets each sender's records in order, without a gap or a repetition.

    Parameters
    ----------
    path : Path
        The file of the cells; kept from reader to reader.
    """

    def __init__(self, path: Path) -> None:
        self._cells = Cells(path)
        self._may_repeat = _REPEATED_MOST

    def take(self, value: bytes) -> None:
        """Note a record; the first ones of a reader may be the last ones of a killed reader."""
        mark = mark_of(value)
        last = self._cells.get(mark.session, mark.sender)
        if self._may_repeat > 0 and mark.number <= last:
            self._may_repeat -= 1
            return
        self._may_repeat = 0
        assert mark.number == last + 1, f"after record {last} comes {mark}"
        self._cells.set(mark)


def missing(acknowledged: Cells, seen: Cells) -> int:
    """Return how many acknowledged records no reader has seen."""
    return sum(
        max(0, mine - theirs)
        for mine, theirs in zip(acknowledged.cells(), seen.cells(), strict=True)
    )
