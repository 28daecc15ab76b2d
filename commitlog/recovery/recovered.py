"""What a recovery found and did."""

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
        ``"kept"``, ``"cut"``: by which rule it was recovered; a log of the first kind whose memory
        turned out damaged counts as the second.
    tail : tuple of int
        Segment number and offset where the next claim goes. The offset is the segment's size when
        it is full.
    end : int
        Position, exclusive end of what is kept.
    rolled_back : int
        Claims turned into SKIP.
    cut_range : tuple of int or None
        Positions that were taken out and zeroed.
    saved_as : str or None
        The first file in which valid frames of that range were saved.
    from_shm, unused, lost : tuple of str
        Shared-memory buffers that were recovered; those that had been attached ahead of need; those
        that had been recorded and are missing or unusable.
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
