"""The file `followed` of a copy: up to where the primary that it follows was durable.

A crash takes no record that was durable. So a primary that ends lower after a recovery has an older
state, restored from a backup or a snapshot, and its copy must not be cut to that.
"""

from __future__ import annotations

import logging

from commitlog.base.host import host
from commitlog.errors import CorruptSegmentError
from commitlog.extension import Notes

NAME = "followed"
_INTERVAL_S = 10.0  # between two writes while records come

_logger = logging.getLogger("commitlog.replication")


class FollowedMark:
    """Remember how far the primary of a copy was durable; write it every ten seconds.

    Parameters
    ----------
    notes : Notes
        Of the copy.

    Attributes
    ----------
    position : int
        Below it, the primary had everything durably that the copy has.
    flushed : int
        Up to where the primary was durable when it reported last.
    """

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self.position, self.flushed = self._written = _read(notes)
        self._written_s = host.monotonic()

    @property
    def lag_bytes(self) -> int:
        """Return how many durable bytes of the primary the copy lacked then."""
        return max(0, self.flushed - self.position)

    def note(self, position: int, flushed: int) -> None:
        """Note that everything below a position of the copy is durable at the primary, which is
        durable up to `flushed`.
        """
        self.position, self.flushed = max(self.position, position), flushed
        if host.monotonic() - self._written_s >= _INTERVAL_S:
            self.settle()

    def lower(self, position: int) -> None:
        """Note that the copy is cut at a position."""
        self.position = self.flushed = min(self.position, position)
        self.settle()

    def settle(self) -> None:
        """Write what changed durably."""
        self._written_s = host.monotonic()
        now = self.position, self.flushed
        if now != self._written:
            content = {"durable": self.position, "flushed": self.flushed}
            self._notes.write(NAME, content)
            self._written = now


def _read(notes: Notes) -> tuple[int, int]:
    try:
        content = notes.read(NAME) or {}
    except CorruptSegmentError as error:
        _logger.warning("%s", error)
        return 0, 0
    durable, flushed = (
        found if type(found := content.get(name)) is int and found >= 0 else 0
        for name in ("durable", "flushed")
    )
    return durable, flushed
