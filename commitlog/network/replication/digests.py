"""Digests: what a log's frames are, so that a copy and its primary can compare them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple

from commitlog.errors import CorruptSegmentError, PositionError
from commitlog.extension import HEADER_SIZE, Segment

_REMEMBERED = 4096  # segments
_NEAR_BYTES = 64 << 10  # that are read again

# Where the frames of a segment end, and their digest.
Digest = tuple[int, int]


class _Known(NamedTuple):
    """A digest, the one a little before it, and the id of their segment."""

    segment_id: int
    near: Digest
    end: Digest

    def is_of(self, segment: Segment) -> bool:
        """Return whether the segment still has these frames, and was not overwritten.

        Logs that once differ never become equal again, so the last frames show it.
        """
        return self.segment_id == segment.id and self.end == segment.digest(
            self.near[0], self.end[0], self.near[1]
        )


class Digests:
    """Digest the frames of a log's segments, each only once.

    A digest has the cells of the frames, and begins with the random id of their segment. The cell
    of a record has the CRC of its content. So logs with the same digest have the same records, and
    the rest of a SKIP, which is not read, does not count.

    Parameters
    ----------
    opened : callable
        Opens and maps a segment of the log by its number, for the length of a `with`.
    """

    def __init__(self, opened: Callable[[int], AbstractContextManager[Segment]]) -> None:
        self._opened = opened
        self._known: dict[int, _Known] = {}

    def of(self, number: int, stop: int) -> Digest | None:
        """Return the digest of the whole frames of a segment up to an offset; None if the log does
        not have the segment, or cannot read it.
        """
        try:
            with self._opened(number) as segment:
                first = HEADER_SIZE, segment.id
                known = self._known.get(number)
                if known is None or known.end[0] > stop or not known.is_of(segment):
                    known = _Known(segment.id, first, first)
                stop = max(min(stop, segment.size), known.end[0])
                at, digest = known.end
                near = segment.digest(at, max(stop - _NEAR_BYTES, at), digest)
                found = segment.digest(near[0], stop, near[1])
                if found[0] > near[0]:
                    self._remember(number, _Known(segment.id, near, found))
                return found
        except (CorruptSegmentError, PositionError, FileNotFoundError):
            return None

    def _remember(self, number: int, known: _Known) -> None:
        if number not in self._known and len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[number] = known
