"""Digests: what a log's frames are, so that a copy and its primary can compare them."""

from __future__ import annotations

from typing import NamedTuple

from commitlog.errors import CorruptSegmentError, PositionError
from commitlog.extension import HEADER_SIZE, LockedLog, LogView

_REMEMBERED = 4096  # segments
_NEAR_BYTES = 64 << 10  # that are read again

# Where the frames of a segment end, and their digest.
Digest = tuple[int, int]


class _Known(NamedTuple):
    """A digest, the one a little before it, and the id of their segment."""

    segment_id: int
    near: Digest
    end: Digest


class Digests:
    """Digest the frames of a log's segments, each only once.

    A digest has the cells of the frames, and begins with the random id of their segment. The cell
    of a record has the CRC of its content. So logs with the same digest have the same records, and
    the rest of a SKIP, which is not read, does not count.

    Parameters
    ----------
    log : LockedLog or LogView
        The log.
    """

    def __init__(self, log: LockedLog | LogView) -> None:
        self._log = log
        self._known: dict[int, _Known] = {}

    def of(self, number: int, stop: int) -> Digest | None:
        """Return the digest of the whole frames of a segment up to an offset; None if the log does
        not have the segment, or cannot read it.
        """
        try:
            with self._log.opened_segment(number) as segment:
                first = HEADER_SIZE, segment.id
                known = self._known.get(number)
                # Logs that once differ never become equal again: the last frames show whether the
                # segment was overwritten.
                if (
                    known is None
                    or known.end[0] > stop
                    or known.segment_id != segment.id
                    or known.end != segment.digest(known.near[0], known.end[0], known.near[1])
                ):
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
