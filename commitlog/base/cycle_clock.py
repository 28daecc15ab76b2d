"""CycleClock: the cycle of an instant, and when a cycle begins and ends. It reads no clock."""

from __future__ import annotations

import datetime as dt
import re
from bisect import bisect_left

from commitlog.base.moment import EPOCH, NAIVE_EPOCH, nanoseconds_of, utc_datetime
from commitlog.base.option import zone_of
from commitlog.base.units import DAY_NS, DURATION_UNITS_NS, HOUR_NS, SECOND_NS

# Up to an hour a cycle has a fixed length. The longer ones are windows of the wall clock, of a
# length that daylight saving can change.
LENGTHS_NS = {
    "MINUTELY": 60 * SECOND_NS,
    "FIVE_MINUTELY": 300 * SECOND_NS,
    "TEN_MINUTELY": 600 * SECOND_NS,
    "TWENTY_MINUTELY": 1200 * SECOND_NS,
    "HALF_HOURLY": 1800 * SECOND_NS,
    "HOURLY": HOUR_NS,
    "TWO_HOURLY": 2 * HOUR_NS,
    "FOUR_HOURLY": 4 * HOUR_NS,
    "SIX_HOURLY": 6 * HOUR_NS,
    "DAILY": DAY_NS,
    "WEEKLY": 7 * DAY_NS,
}
NAMES = tuple(LENGTHS_NS)
_PERIOD = re.compile(r"([1-9][0-9]{0,18})(h|min|s|ms)")
# 1 January 1970 was a Thursday: weeks begin with the Monday before.
_MONDAY_NS = -3 * DAY_NS


class CycleClock:
    """The cycles of a name, a zone and an epoch: those of a `RollCycle`.

    The name is one of `NAMES`, or that of a custom period, such as ``"90s"``. Cycle 0 begins
    `epoch_ns` after midnight of 1 January 1970: on the zone's wall clock for named cycles of two
    hours and longer (for ``"WEEKLY"``, after the Monday before), else in UTC.
    """

    def __init__(self, name: str, time_zone: str, epoch_ns: int) -> None:
        self.zone = zone_of(time_zone)
        self.length_ns = LENGTHS_NS.get(name) or _period_ns(name)
        self._on_wall_clock = LENGTHS_NS.get(name, 0) > HOUR_NS
        self._base_ns = epoch_ns + (_MONDAY_NS if name == "WEEKLY" else 0)

    # --- cycles -----------------------------------------------------------------------------------

    def number_at(self, time_ns: int) -> int:
        """Return the number of the cycle that contains an instant; negative before the epoch."""
        if not self._on_wall_clock:
            return (time_ns - self._base_ns) // self.length_ns
        shown_ns = time_ns + self._offset_s(time_ns // SECOND_NS) * SECOND_NS
        number = (shown_ns - self._base_ns) // self.length_ns
        # A wall clock that was set back or forward may show a time of another cycle.
        while time_ns < self.start_ns(number):
            number -= 1
        while time_ns >= self.start_ns(number + 1):
            number += 1
        return number

    def start_ns(self, number: int) -> int:
        """Return when a cycle begins, in nanoseconds since 1970."""
        shown_ns = self._base_ns + number * self.length_ns
        return self._first_instant(shown_ns) if self._on_wall_clock else shown_ns

    def end_ns(self, number: int) -> int:
        """Return when a cycle ends, which is when the next one begins."""
        return self.start_ns(number + 1)

    def midnight_ns(self, day: dt.date) -> int:
        """Return when a day begins on the zone's clock."""
        return self._first_instant((day - EPOCH.date()).days * DAY_NS)

    def show(self, time_ns: int) -> dt.datetime:
        """Return an instant as a datetime in the zone, truncated to microseconds."""
        return utc_datetime(time_ns).astimezone(self.zone)

    def epoch_ns(self, moment: dt.datetime) -> int:
        """Return the epoch with which cycle 0 begins at an instant, if that of this clock is 0."""
        shown = moment.astimezone(self.zone).replace(tzinfo=None) if self._on_wall_clock else moment
        return nanoseconds_of(shown) - self._base_ns

    # --- the zone's clock -------------------------------------------------------------------------

    def _offset_s(self, time_s: int) -> int:
        """Return how many seconds the zone's clock is ahead of UTC."""
        offset = (EPOCH + dt.timedelta(seconds=time_s)).astimezone(self.zone).utcoffset()
        return 0 if offset is None else offset // dt.timedelta(seconds=1)

    def _first_instant(self, shown_ns: int) -> int:
        """Return the first instant at which the zone's clock shows a time, or, if skipped, a later
        one.
        """
        shown_s, rest_ns = divmod(shown_ns, SECOND_NS)
        shown = (NAIVE_EPOCH + dt.timedelta(seconds=shown_s)).replace(tzinfo=self.zone)
        first_s, second_s = (
            nanoseconds_of(shown.replace(fold=fold)) // SECOND_NS for fold in (0, 1)
        )
        if second_s >= first_s:
            return first_s * SECOND_NS + rest_ns
        # The clock skips this time. The skip is between the two.
        offset_s = self._offset_s(second_s)
        between = range(second_s + 1, first_s)
        skipped = bisect_left(between, True, key=lambda time_s: self._offset_s(time_s) != offset_s)
        return (second_s + 1 + skipped) * SECOND_NS


def _period_ns(name: str) -> int:
    match = _PERIOD.fullmatch(name)
    assert match is not None  # `RollCycle` has checked it
    return int(match[1]) * DURATION_UNITS_NS[match[2]]
