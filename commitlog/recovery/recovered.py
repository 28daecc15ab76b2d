"""Recovered: the outcome of a recovery."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Recovered:
    """The result of `recover`.

    Attributes
    ----------
    case : str
        ``"empty"``: there was no segment. ``"clean"``: the last handle had closed the log.
        ``"kept"``, ``"cut"``: the rule by which it was recovered; ``"cut"`` also if the kept memory
        was damaged.
    tail : tuple of int
        Segment number and offset of the next claim. In a full segment, the offset is its size.
    end : int
        The end of what is kept, exclusive.
    rolled_back : int
        The number of claims turned into SKIP.
    cut_range : tuple of int or None
        The positions that were cut off.
    saved_as : str or None
        The first file with saved frames of that range.
    from_shm, unused, lost : tuple of str
        The recovered shared-memory buffers; those that were attached ahead of need; those that were
        recorded but are missing or unusable.
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
