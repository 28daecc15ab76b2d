"""Digests: what a log's frames are, so that a copy and its primary can compare them."""

from __future__ import annotations

from commitlog._kernel.segments import HEADER_SIZE
from commitlog.errors import CorruptSegmentError
from commitlog.segment.directory import LogDirectory

_REMEMBERED = 4096  # segments

# Where the frames of a segment end, and their digest.
Digest = tuple[int, int]


class Digests:
    """Digest the frames of a log's segments, each only once.

    A digest has the cells of the frames, and begins with the random id of their segment. The cell
    of a record has the CRC of its content. So logs with the same digest have the same records, and
    the rest of a SKIP, which is not read, does not count.

    Parameters
    ----------
    directory : LogDirectory
        Of the log. What was digested once must not be cut while this object is in use.
    """

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory
        self._known: dict[int, tuple[int, Digest]] = {}  # with the id of the segment

    def of(self, number: int, stop: int) -> Digest | None:
        """Return the digest of the whole frames of a segment up to an offset; None if the log does
        not have the segment, or cannot read it.
        """
        try:
            if not self._directory.has(number):
                return None
            with self._directory.opened_segment(number) as segment:
                first = HEADER_SIZE, segment.id
                known_id, known = self._known.get(number, (segment.id, first))
                if known_id != segment.id or known[0] > stop:
                    known = first
                found = segment.digest(known[0], max(min(stop, segment.size), known[0]), known[1])
                self._remember(number, segment.id, found)
                return found
        except (CorruptSegmentError, FileNotFoundError):
            return None

    def _remember(self, number: int, segment_id: int, found: Digest) -> None:
        if number not in self._known and len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[number] = segment_id, found
