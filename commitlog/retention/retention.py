"""Retention: for how long, and in how much room, a log keeps its segments."""

from __future__ import annotations

import datetime as dt
import math
import re
import time
import zoneinfo
from dataclasses import dataclass, field

from commitlog.base.roll_cycle import zone_of
from commitlog.base.units import (
    Age,
    Duration,
    Size,
    parse_age,
    parse_duration,
    parse_size,
    seconds_of,
)
from commitlog.errors import InvalidOptionError
from commitlog.retention.archive import Archive

_WINDOW_FORM = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-3]):([0-5][0-9])")
_INTERVAL_LEAST_S = 0.001


@dataclass(frozen=True, kw_only=True)
class Retention:
    """Which segments may go. One that any of these asks for goes, oldest first.

    Only sealed and flushed segments are ever deleted, never one that this handle holds, never one
    with a record that a required named tailer has yet to read, and the last sealed one stays.

    Parameters
    ----------
    max_age : str or datetime.timedelta, optional
        Text with a unit, such as ``"7d"`` (also `w`, `h`, `m`, `s`): how long after the log rolled
        on from it a segment goes. The time is the clock's at that roll, not that of the records,
        which their appenders may choose.
    max_bytes : int or str, optional
        Bytes, or text such as ``"10GiB"``, that the log's segments may take on the disk, the one
        that is written and those allocated ahead included.
    min_free_bytes : int or str, optional
        How much the file system is to have free.
    min_free_percent : float, optional
        The same as a part of its size, 0 to 100.
    between : str, optional
        A time of day, such as ``"02:00-05:30"`` or ``"22:00-04:00"``: `max_age` and `max_bytes`
        only act then. A disk that gets full does not wait for it.
    time_zone : str
        The zone of `between`, as the IANA data base names it.
    archive : Archive, optional
        Where segments go before they are deleted. One that cannot be archived stays.
    interval : float or str
        Seconds (at least 0.001) from one look at the segments to the next. Longer: old segments
        stay longer.

    Raises
    ------
    InvalidOptionError
        A value is not one of these, or nothing says when a segment may go.
    """

    max_age: Age | None = None
    max_bytes: Size | None = None
    min_free_bytes: Size | None = None
    min_free_percent: float | None = None
    between: str | None = None
    time_zone: str = "UTC"
    archive: Archive | None = None
    interval: Duration = 60.0
    _window: tuple[dt.time, dt.time] | None = field(
        default=None, init=False, repr=False, compare=False
    )
    _zone: zoneinfo.ZoneInfo = field(
        default=zoneinfo.ZoneInfo("UTC"), init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        limits = (self.max_age, self.max_bytes, self.min_free_bytes, self.min_free_percent)
        if all(limit is None for limit in limits):
            raise InvalidOptionError(
                "a Retention must say when a segment may go: give max_age, max_bytes, "
                "min_free_bytes or min_free_percent"
            )
        if self.max_age is not None:
            self._keep("max_age", parse_age(self.max_age, "max_age"))
        if self.max_bytes is not None:
            self._keep("max_bytes", parse_size(self.max_bytes, "max_bytes"))
        if self.min_free_bytes is not None:
            self._keep("min_free_bytes", parse_size(self.min_free_bytes, "min_free_bytes"))
        if self.min_free_percent is not None:
            self._keep("min_free_percent", _percent(self.min_free_percent))
        if self.between is not None:
            self._keep("_window", _window_of(self.between))
        try:
            self._keep("_zone", zone_of(self.time_zone))
        except ValueError:
            raise InvalidOptionError(
                "time_zone must be the name of a time zone, such as 'Europe/Berlin' or 'UTC', "
                f"not {self.time_zone!r}"
            ) from None
        if self.archive is not None and not isinstance(self.archive, Archive):
            raise InvalidOptionError(
                f"archive must be a commitlog.Archive or None, not {type(self.archive).__name__}"
            )
        interval_s = parse_duration(self.interval, "interval")
        if interval_s < _INTERVAL_LEAST_S:
            raise InvalidOptionError(
                f"interval must be at least {_INTERVAL_LEAST_S:g} seconds, not {self.interval!r}"
            )
        self._keep("interval", interval_s)

    def _keep(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @property
    def interval_s(self) -> float:
        """Seconds from one look to the next."""
        return float(self.interval)

    @property
    def max_age_s(self) -> float:
        """Seconds after which a segment goes; without end where none was given."""
        return (
            math.inf if self.max_age is None else parse_age(self.max_age, "max_age").total_seconds()
        )

    def acts_at(self, now_ns: int) -> bool:
        """Whether the time of day allows `max_age` and `max_bytes` to act."""
        if self._window is None:
            return True
        start, stop = self._window
        now = dt.datetime.fromtimestamp(now_ns / 1e9, self._zone).time().replace(microsecond=0)
        return start <= now < stop if start < stop else now >= start or now < stop

    def room_wanted(self, size_bytes: int) -> int:
        """How many bytes a file system of that size is to have free."""
        least = 0 if self.min_free_bytes is None else int(self.min_free_bytes)
        return max(least, int(size_bytes * (self.min_free_percent or 0.0) / 100))


def _percent(value: object) -> float:
    part = math.nan if isinstance(value, str) else seconds_of(value)  # of the same kinds of numbers
    if not 0 <= part <= 100:
        raise InvalidOptionError(f"min_free_percent must be a number from 0 to 100, not {value!r}")
    return part


def _window_of(value: object) -> tuple[dt.time, dt.time]:
    match = _WINDOW_FORM.fullmatch(value) if isinstance(value, str) else None
    if match is not None:
        start, stop = dt.time(int(match[1]), int(match[2])), dt.time(int(match[3]), int(match[4]))
        if start != stop:
            return start, stop
    raise InvalidOptionError(
        f"between must be two different times of day, such as '02:00-05:30', not {value!r}"
    )


def now_ns() -> int:
    """The clock that ages are taken by. Tests set it."""
    return time.time_ns()
