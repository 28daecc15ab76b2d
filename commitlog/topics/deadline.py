"""Deadline: when a reader that waits for records gives up."""

from __future__ import annotations

import math
import time

from commitlog.base.units import Duration, parse_duration

_STEP_S = 0.1  # how often a waiting reader checks whether it must stop


class Deadline:
    """When a run without records ends; it waits in steps, because `stop` cannot wake it."""

    def __init__(self, timeout: Duration | None) -> None:
        self._limit_s = math.inf if timeout is None else parse_duration(timeout, "timeout")
        self._end = time.monotonic() + self._limit_s
        self.next_s = min(_STEP_S, self._limit_s)

    def has_passed(self, records: int) -> bool:
        """Return whether the run ends, `next_s` seconds or more after its last record."""
        now = time.monotonic()
        if records:
            self._end = now - self.next_s + self._limit_s
        elif now >= self._end:
            return True
        self.next_s = min(_STEP_S, max(0.0, self._end - now))
        return False
