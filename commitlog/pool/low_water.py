"""When a pool that runs low is worth a warning."""

from __future__ import annotations


class LowWaterMark:
    """Says so once each time the share of free buffers falls below the mark. Used with the pool's
    lock held.
    """

    __slots__ = ("_armed", "_share")

    def __init__(self, share: float) -> None:
        self._share = share
        self._armed = True

    def lent(self, available: int, total: int) -> bool:
        """Note that a buffer was lent; True when that calls for a warning.

        Where the first buffer lent leaves less than the mark already, as in a pool of one, the
        warning would say nothing.
        """
        meaningful = (total - 1) / total >= self._share
        falls = self._armed and meaningful and available / total < self._share
        if falls:
            self._armed = False
        return falls

    def came_back(self, available: int, total: int) -> None:
        """Note that a buffer is free again."""
        if available / total >= self._share:
            self._armed = True
