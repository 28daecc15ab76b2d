"""Pace: when each of a series of records is due, by their timestamps."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from numbers import Real
from typing import cast

from commitlog.base.units import Duration, parse_duration
from commitlog.errors import InvalidOptionError

_SECOND_NS = 1_000_000_000
_SLICE_S = 0.05  # how long a pause may keep the log's close() waiting
SPEED_LEAST, SPEED_MOST = 1e-6, 1e6


class Pace:
    """Compute when each record is due.

    The first record is due at once. Each further one is due after the difference of the timestamps,
    divided by `speed`; a timestamp that steps back adds nothing. Late records cause no pause, so a
    slow reader catches up.
    """

    def __init__(self, speed: object, max_pause: Duration | None) -> None:
        if speed is None:
            raise InvalidOptionError(
                "max_pause applies only to a replay: also give speed=, such as speed=1"
            )
        if (
            isinstance(speed, bool)
            or not isinstance(speed, Real)
            or not SPEED_LEAST <= cast(float, speed) <= SPEED_MOST
        ):
            raise InvalidOptionError(
                f"speed must be a number from {SPEED_LEAST:g} to {SPEED_MOST:g}, such as 1 for "
                f"the recorded pace, not {speed!r}; leave it out to read without pauses"
            )
        self._speed = float(cast(float, speed))
        self._longest_ns = (
            math.inf if max_pause is None else parse_duration(max_pause, "max_pause") * _SECOND_NS
        )
        self._latest_ns: int | None = None
        self._due_ns = 0.0

    def wait_s(self, timestamp_ns: int) -> float:
        """Return the seconds until a record with that timestamp is due; 0 if it is late."""
        now_ns = time.monotonic_ns()
        if self._latest_ns is None:
            self._latest_ns, self._due_ns = timestamp_ns, now_ns
        gap_ns = timestamp_ns - self._latest_ns
        if gap_ns > 0:
            self._latest_ns = timestamp_ns
            self._due_ns += min(gap_ns / self._speed, self._longest_ns)
        return max(0.0, (self._due_ns - now_ns) / _SECOND_NS)

    def naps(self, timestamp_ns: int) -> Iterator[float]:
        """Yield how many seconds to sleep, in slices, until a record with that timestamp is due."""
        while (left_s := self.wait_s(timestamp_ns)) > 0:
            yield min(left_s, _SLICE_S)
