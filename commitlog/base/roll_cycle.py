"""RollCycle: the cycle of an instant, and when a cycle begins and ends. It reads no clock."""

from __future__ import annotations

import datetime as dt
import re
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from commitlog.base.units import DAY_NS, DURATION_UNITS_NS, HOUR_NS, SECOND_NS

if TYPE_CHECKING:
    import zoneinfo

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
PERIOD_SMALLEST_NS = 10 * 10**6
PERIOD_LARGEST_NS = 366 * DAY_NS
TIME_ZONE_DEFAULT = "UTC"
_PERIOD_UNITS = ("h", "min", "s", "ms")  # of the names in `log.json`
_PERIOD = re.compile(r"([1-9][0-9]{0,18})(h|min|s|ms)")
# 1 January 1970 was a Thursday: weeks begin with the Monday before.
_MONDAY_NS = -3 * DAY_NS
_EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_EPOCH = _EPOCH_UTC.replace(tzinfo=None)
_MICROSECOND = dt.timedelta(microseconds=1)


def period_name(period_ns: int) -> str:
    """Return the name of a custom period: its length in the largest unit that divides it. If it is
    not a whole number of milliseconds from 10 ms to 366 days, raise `ValueError`.
    """
    if PERIOD_SMALLEST_NS <= period_ns <= PERIOD_LARGEST_NS:
        for unit in _PERIOD_UNITS:
            if period_ns % DURATION_UNITS_NS[unit] == 0:
                return f"{period_ns // DURATION_UNITS_NS[unit]}{unit}"
    raise ValueError("a period is a whole number of milliseconds, from 10 ms to 366 days")


def nanoseconds_of(moment: dt.datetime) -> int:
    """Convert a datetime to nanoseconds since 1970; without a zone, by its clock."""
    return (moment - (_EPOCH if moment.tzinfo is None else _EPOCH_UTC)) // _MICROSECOND * 1000


@dataclass(frozen=True)
class RollCycle:
    """The time windows of a log, numbered from the epoch on.

    The name is one of `NAMES`, or a custom period such as ``"90s"``, as `period_name` makes it.
    Cycle 0 begins `epoch_ns` after midnight of 1 January 1970: on the zone's wall clock for named
    cycles of two hours and longer (for ``"WEEKLY"``, after the Monday before), else in UTC. An
    unknown cycle or zone is a `ValueError`.
    """

    name: str
    epoch_ns: int = 0
    time_zone: str = TIME_ZONE_DEFAULT

    def __post_init__(self) -> None:
        if self.length_ns == 0:
            raise ValueError(f"there is no roll cycle {self.name!r}")
        if not -PERIOD_LARGEST_NS * 1000 <= self.epoch_ns <= PERIOD_LARGEST_NS * 1000:
            raise ValueError(f"an epoch is within a thousand years of 1970, not {self.epoch_ns} ns")
        _ = self.zone

    @cached_property
    def length_ns(self) -> int:
        """Return a cycle's length, without a change by daylight saving time."""
        match = _PERIOD.fullmatch(self.name)
        if match is None:
            return LENGTHS_NS.get(self.name, 0)
        period_ns = int(match[1]) * DURATION_UNITS_NS[match[2]]
        return period_ns if PERIOD_SMALLEST_NS <= period_ns <= PERIOD_LARGEST_NS else 0

    @cached_property
    def zone(self) -> zoneinfo.ZoneInfo:
        return zone_of(self.time_zone)

    @cached_property
    def _on_wall_clock(self) -> bool:
        return LENGTHS_NS.get(self.name, 0) > HOUR_NS

    @cached_property
    def _base_ns(self) -> int:
        return self.epoch_ns + (_MONDAY_NS if self.name == "WEEKLY" else 0)

    def __str__(self) -> str:
        epoch = f", epoch {self.epoch_ns / SECOND_NS:g} s" if self.epoch_ns else ""
        return f"{self.name} ({self.time_zone}{epoch})"

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

    def epoch_of(self, moment: dt.datetime) -> int:
        """Return the `epoch_ns` with which cycle 0 begins at an instant."""
        shown = moment.astimezone(self.zone).replace(tzinfo=None) if self._on_wall_clock else moment
        return nanoseconds_of(shown) - (_MONDAY_NS if self.name == "WEEKLY" else 0)

    def midnight_ns(self, day: dt.date) -> int:
        """Return when a day begins on the zone's clock."""
        return self._first_instant((day - _EPOCH.date()).days * DAY_NS)

    def show(self, time_ns: int) -> dt.datetime:
        """Return an instant as a datetime in the zone, truncated to microseconds."""
        return (_EPOCH_UTC + dt.timedelta(microseconds=time_ns // 1000)).astimezone(self.zone)

    # --- the zone's clock -------------------------------------------------------------------------

    def _offset_s(self, time_s: int) -> int:
        """Return how many seconds the zone's clock is ahead of UTC."""
        offset = (_EPOCH_UTC + dt.timedelta(seconds=time_s)).astimezone(self.zone).utcoffset()
        return 0 if offset is None else offset // dt.timedelta(seconds=1)

    def _first_instant(self, shown_ns: int) -> int:
        """Return the first instant at which the zone's clock shows a time, or, if skipped, a later
        one.
        """
        shown_s, rest_ns = divmod(shown_ns, SECOND_NS)
        shown = (_EPOCH + dt.timedelta(seconds=shown_s)).replace(tzinfo=self.zone)
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


def zone_of(name: str) -> zoneinfo.ZoneInfo:
    """Return the zone with an IANA name; if there is none, raise `ValueError`."""
    import zoneinfo

    try:
        if isinstance(name, str):
            return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        pass
    raise ValueError(f"there is no time zone {name!r}")
