"""Clock: prints timestamps."""

from __future__ import annotations

import datetime as dt

from commitlog.base.units import SECOND_NS

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Clock:
    """Prints timestamps, to the nanosecond.

    Parameters
    ----------
    zone : datetime.tzinfo or None
        In whose time; None is this machine's.
    """

    def __init__(self, zone: dt.tzinfo | None = dt.UTC) -> None:
        self._zone = zone
        self._second: int | None = None
        self._last_ns: int | None = None
        self._before = self._behind = self._last = ""

    def text(self, timestamp_ns: int) -> str:
        """A timestamp in ISO 8601."""
        if timestamp_ns == self._last_ns:  # coarse timestamps, and those of a batch, repeat
            return self._last
        second, rest_ns = divmod(timestamp_ns, SECOND_NS)
        if second != self._second:
            local = (_EPOCH + dt.timedelta(seconds=second)).astimezone(self._zone).isoformat()
            self._second, self._before, self._behind = (
                second,
                local[:19],
                "Z" if self._zone is dt.UTC else local[19:],
            )
        self._last_ns, self._last = timestamp_ns, f"{self._before}.{rest_ns:09d}{self._behind}"
        return self._last
