"""Retention: the limits of age and size by which a log deletes old segments."""

from __future__ import annotations

import datetime as dt
import math
import re
from dataclasses import dataclass

from commitlog.base.keywords import refuses_unknown
from commitlog.base.option import Option, lasting, optional, zone_name, zone_of
from commitlog.base.units import Age, Duration, Size, parse_age, parse_size, seconds_of
from commitlog.errors import InvalidOptionError
from commitlog.options import RetentionRule

_WINDOW_FORM = re.compile(r"((?:[01][0-9]|2[0-3]):[0-5][0-9])-((?:[01][0-9]|2[0-3]):[0-5][0-9])")


def _percent(value: object, name: str) -> float:
    part = math.nan if isinstance(value, str | dt.timedelta) else seconds_of(value)
    if not 0 <= part <= 100:
        raise InvalidOptionError(f"{name} must be a number from 0 to 100, not {value!r}")
    return part


def _between(value: object, name: str) -> str:
    match = _WINDOW_FORM.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[1] == match[2]:
        raise InvalidOptionError(
            f"{name} must be two different times of day, such as '02:00-05:30', not {value!r}"
        )
    return match[0]


_size_or_none = optional(parse_size)


@refuses_unknown()
@dataclass(frozen=True, kw_only=True)
class Retention(RetentionRule):
    """Set which old segments to delete; a segment that exceeds any limit is deleted, oldest first.

    Only sealed and flushed segments are deleted. The last sealed segment stays, and so do segments
    that this handle holds or that a required named tailer has yet to read.

    Parameters
    ----------
    max_age : str or datetime.timedelta, optional
        The age limit as text with a unit, such as ``"7d"`` (also `w`, `h`, `m`, `s`). A segment's
        age starts when the log rolls past it, by the clock at that roll; the timestamps of its
        records, which appenders may choose, do not count.
    max_bytes : int or str, optional
        The limit of the log's disk space, in bytes or as text such as ``"10GiB"``, including the
        current segment and those allocated ahead.
    min_free_bytes : int or str, optional
        The free bytes to keep on the file system.
    min_free_percent : float, optional
        The free space to keep, as a percentage of the file system's size, 0 to 100.
    between : str, optional
        A time of day, such as ``"02:00-05:30"`` or ``"22:00-04:00"``: `max_age` and `max_bytes`
        apply only then. The free-space limits ignore `between`.
    time_zone : str
        The IANA time zone of `between`.
    interval : float or str
        Seconds (at least 0.001) between two checks of the segments. Longer: old segments stay
        longer.

    Raises
    ------
    InvalidOptionError
        A value is out of range, or no limit is given.
    """

    max_age: Option[dt.timedelta | None, Age | None] = Option(None, optional(parse_age))
    max_bytes: Option[int | None, Size | None] = Option(None, _size_or_none)
    min_free_bytes: Option[int | None, Size | None] = Option(None, _size_or_none)
    min_free_percent: Option[float | None, float | None] = Option(None, optional(_percent))
    between: Option[str | None, str | None] = Option(None, optional(_between))
    time_zone: Option[str, str] = Option("UTC", zone_name)
    interval: Option[float, Duration] = Option(60.0, lasting(0.001))

    def __post_init__(self) -> None:
        limits = (self.max_age, self.max_bytes, self.min_free_bytes, self.min_free_percent)
        if all(limit is None for limit in limits):
            raise InvalidOptionError(
                "a Retention needs a limit: give max_age, max_bytes, min_free_bytes or "
                "min_free_percent"
            )

    def acts_at(self, now_ns: int) -> bool:
        """Return whether `max_age` and `max_bytes` apply at this time of day."""
        if self.between is None:
            return True
        start, stop = map(dt.time.fromisoformat, self.between.split("-"))
        now = (
            dt.datetime.fromtimestamp(now_ns / 1e9, zone_of(self.time_zone))
            .time()
            .replace(microsecond=0)
        )
        return start <= now < stop if start < stop else now >= start or now < stop

    def room_wanted(self, size_bytes: int) -> int:
        """Return the free bytes to keep on a file system of that size."""
        return max(self.min_free_bytes or 0, int(size_bytes * (self.min_free_percent or 0.0) / 100))


def checked(value: object, path: str) -> Retention:
    """Return what is a retention; refuse everything else."""
    if isinstance(value, Retention):
        return value
    raise InvalidOptionError(
        "retention must be a commitlog.Retention, given here or to open(), not "
        f"{type(value).__name__}",
        path=path,
    )
