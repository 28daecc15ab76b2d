"""RollCycle: when a log rolls by time."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from commitlog.base.cycle_clock import NAMES, CycleClock
from commitlog.base.keywords import refuses_unknown
from commitlog.base.option import did_you_mean, zone_name
from commitlog.base.units import (
    DAY_NS,
    DURATION_LARGEST_S,
    DURATION_UNITS_NS,
    SECOND_NS,
    Duration,
    parse_duration,
    seconds_of,
)
from commitlog.errors import InvalidOptionError

_PERIOD_UNITS = ("h", "min", "s", "ms")  # of the names in `log.json`
_PERIOD_SMALLEST_NS = 10 * 10**6
_EPOCH_LARGEST_NS = 1000 * 366 * DAY_NS


@refuses_unknown()
@dataclass(frozen=True, init=False)
class RollCycle:
    """Set when a log rolls by time.

    A cycle is a window of time; cycles are numbered from the epoch on.

    Parameters
    ----------
    cycle : str or float
        "MINUTELY", "FIVE_MINUTELY", "TEN_MINUTELY", "TWENTY_MINUTELY", "HALF_HOURLY", "HOURLY",
        "TWO_HOURLY", "FOUR_HOURLY", "SIX_HOURLY", "DAILY", "WEEKLY", or a period of your own, from
        10 ms to 366 days, such as ``"90s"``.
    time_zone : str
        The IANA time zone of named cycles of two hours and longer; they follow its daylight saving
        time. Shorter cycles and custom periods have a fixed length and are counted in UTC.
    epoch : float, str or datetime.datetime
        The origin of the cycles: a duration after midnight of 1 January 1970 (``"6h"`` begins
        a "DAILY" cycle at six), or an instant with a time zone.

    Attributes
    ----------
    name : str
        The cycle's name; a custom period is a number and its largest unit, such as ``"90s"``.
    time_zone : str
        The time zone.
    epoch_ns : int
        Cycle 0 begins so many nanoseconds after midnight of 1 January 1970, on the zone's wall
        clock or in UTC; for "WEEKLY", after midnight of the Monday before.

    Raises
    ------
    InvalidOptionError
        There is no such cycle or zone, or the epoch is not within a thousand years of 1970.
    """

    name: str
    time_zone: str
    epoch_ns: int

    def __init__(
        self,
        cycle: str | Duration,
        *,
        time_zone: str = "UTC",
        epoch: Duration | dt.datetime = 0.0,
    ) -> None:
        name, zone = cycle_name(cycle, "cycle"), zone_name(time_zone, "time_zone")
        self._set(name, zone, _epoch_ns(epoch, CycleClock(name, zone, 0)), epoch)

    def _set(self, name: str, time_zone: str, epoch_ns: int, epoch: object) -> None:
        if abs(epoch_ns) > _EPOCH_LARGEST_NS:
            raise InvalidOptionError(
                f"epoch must be within a thousand years of 1970, not {epoch!r}"
            )
        for field, value in (("name", name), ("time_zone", time_zone), ("epoch_ns", epoch_ns)):
            object.__setattr__(self, field, value)

    def __str__(self) -> str:
        epoch = f", epoch {self.epoch_ns / SECOND_NS:g} s" if self.epoch_ns else ""
        return f"{self.name} ({self.time_zone}{epoch})"


def clock_of(cycle: RollCycle) -> CycleClock:
    return CycleClock(cycle.name, cycle.time_zone, cycle.epoch_ns)


def stored_cycle(name: str, time_zone: str, epoch_ns: int) -> RollCycle:
    """Return the roll cycle with the attributes that `log.json` has."""
    cycle = RollCycle(name, time_zone=time_zone)
    cycle._set(cycle.name, cycle.time_zone, epoch_ns, f"{epoch_ns} ns")
    return cycle


def cycle_name(cycle: object, option: str) -> str:
    """Return one of `NAMES`, or the name of a custom period: its length in the largest unit that
    divides it. `option` is for the error.
    """
    if isinstance(cycle, str) and cycle.upper() in NAMES:
        return cycle.upper()
    period_s = seconds_of(cycle)
    if 0 <= period_s <= DURATION_LARGEST_S:
        period_ns = round(period_s * SECOND_NS)
        for unit in _PERIOD_UNITS:
            count, rest = divmod(period_ns, DURATION_UNITS_NS[unit])
            if rest == 0 and period_ns >= _PERIOD_SMALLEST_NS:
                return f"{count}{unit}"
    raise InvalidOptionError(
        f"{option} must be one of {', '.join(NAMES)}, or a period of whole milliseconds "
        "from 10 ms to 366 days, such as 90 or "
        f"'15min', not {cycle!r}{did_you_mean(str(cycle).upper(), NAMES)}"
    )


def _epoch_ns(epoch: Duration | dt.datetime, clock: CycleClock) -> int:
    if not isinstance(epoch, dt.datetime):
        return round(parse_duration(epoch, "epoch") * SECOND_NS)
    if epoch.tzinfo is None:
        raise InvalidOptionError(
            f"epoch must have a time zone, and {epoch!r} has none: use replace(tzinfo=...)"
        )
    try:
        return clock.epoch_ns(epoch)
    except OverflowError:  # the zone's clock does not reach it
        return _EPOCH_LARGEST_NS + 1
