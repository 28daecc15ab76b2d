"""AheadCount: how many segments to create ahead of need."""

from __future__ import annotations

import math

from commitlog.options.tuning import ALLOCATE_AHEAD_MOST

_RESERVE = 2.0  # safety factor: a creation may take this many times the slowest recent one
_MEMORY = 0.75  # decay of the slowest creation time with each further creation


class AheadCount:
    """The number of segments that appends fill while one is made, one to eight; or a `fixed`
    number.
    """

    def __init__(self, fixed: int | None) -> None:
        self._fixed = fixed
        self._number: int | None = None
        # None: the tail was already in the segment at the first call.
        self._entered_s: float | None = None
        self._fill_s = math.inf
        self._make_s = 0.0

    def tail_in(self, number: int, now_s: float) -> None:
        """Record the tail's segment at a time; the time between rolls is the time to fill one."""
        if self._number is not None:
            if number <= self._number:
                return
            if self._entered_s is not None:
                self._fill_s = (now_s - self._entered_s) / (number - self._number)
            self._entered_s = now_s
        self._number = number

    def made_in(self, seconds: float) -> None:
        self._make_s = max(seconds, self._make_s * _MEMORY)

    @property
    def value(self) -> int:
        """The number of segments that are to exist behind the tail's."""
        if self._fixed is not None:
            return self._fixed
        if self._fill_s <= 0:
            return ALLOCATE_AHEAD_MOST
        return min(1 + int(_RESERVE * self._make_s / self._fill_s), ALLOCATE_AHEAD_MOST)
