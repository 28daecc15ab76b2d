"""Recovered: the outcome of a recovery."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Recovered:
    """The result of `recover`.

    `case` is ``"empty"`` if there was no segment, and ``"clean"`` if the last handle had closed the
    log. Otherwise it is the rule by which the log was recovered, ``"kept"`` or ``"cut"``; it is
    ``"cut"`` also if the kept memory was damaged. `tail` is the segment number and the offset of
    the next claim; in a full segment, the offset is its size. `end` is the end of what is kept.
    `rolled_back` claims were turned into SKIP. The positions of `cut_range` were cut off, and
    `saved_as` is the first file with saved frames of them. Of the shared-memory buffers, `from_shm`
    were recovered, `unused` were attached ahead of need, and `lost` were recorded but are missing
    or unusable.
    """

    case: Literal["empty", "clean", "kept", "cut"]
    tail: tuple[int, int]
    end: int
    rolled_back: int = 0
    cut_range: tuple[int, int] | None = None
    saved_as: str | None = None
    from_shm: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
