"""LowWaterMark: decide when a pool warns that it runs low."""

from __future__ import annotations


class LowWaterMark:
    """Warn once each time the share of free buffers falls below the mark; under the pool's lock."""

    __slots__ = ("_armed", "_share")

    def __init__(self, share: float) -> None:
        self._share = share
        self._armed = True

    def lent(self, available: int, total: int) -> bool:
        """Record that a buffer was lent; return whether to warn.

        If lending the first buffer always falls below the mark, as in a pool of one, a warning is
        meaningless.
        """
        meaningful = (total - 1) / total >= self._share
        falls = self._armed and meaningful and available / total < self._share
        if falls:
            self._armed = False
        return falls

    def came_back(self, available: int, total: int) -> None:
        """Record that a buffer is free again."""
        if available / total >= self._share:
            self._armed = True
