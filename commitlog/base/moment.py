"""Read times from text, for seeks and the command line."""

from __future__ import annotations

import datetime as dt
import re
import time

from commitlog.base.units import SECOND_NS, nanoseconds_in

FORMS = (
    "2026-05-01, 2026-05-01T12:30, 2026-05-01T12:30:00.5+02:00, 10m or -10m, yesterday, now "
    "or @1777638600"
)

_DATE = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T "
    r"](\d\d:\d\d(?::\d\d)?)(?:(?<=:\d\d:\d\d)\.(\d{1,9}))?\s?(Z|[+-]\d\d:?\d\d)?)?",
    re.ASCII,
)
_SINCE_1970 = re.compile(r"@(\d{1,10})(?:\.(\d{1,9}))?", re.ASCII)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
NAIVE_EPOCH = EPOCH.replace(tzinfo=None)
_MICROSECOND = dt.timedelta(microseconds=1)
_DAYS = {"today": 0, "yesterday": 1}


def read_moment(text: str, zone: dt.tzinfo | None = dt.UTC) -> int:
    """Read a time in one of `FORMS`, as nanoseconds since 1970.

    A day begins at midnight; `10m` and `-10m` are ten minutes before now. The zone is for days and
    for times without one; None is this machine's. Any other text, and a time that no record can
    have, is a `ValueError`.
    """
    try:
        found = _nanoseconds_of(text, zone)
    except (ValueError, OverflowError):
        found = None
    if found is None or not -(1 << 63) <= found < 1 << 63:
        raise ValueError(f"a time such as {FORMS}, not {text!r}")
    return found


def nanoseconds_of(moment: dt.datetime) -> int:
    """Convert a datetime to nanoseconds since 1970; without a zone, by its clock."""
    return (moment - (NAIVE_EPOCH if moment.tzinfo is None else EPOCH)) // _MICROSECOND * 1000


def utc_datetime(timestamp_ns: int) -> dt.datetime:
    """Convert nanoseconds since 1970 to a datetime in UTC, truncated to microseconds."""
    return EPOCH + dt.timedelta(microseconds=timestamp_ns // 1000)


def _nanoseconds_of(text: str, zone: dt.tzinfo | None) -> int | None:
    if text == "now":
        return time.time_ns()
    if text in _DAYS:
        day = dt.datetime.now(zone).date() - dt.timedelta(days=_DAYS[text])
        return nanoseconds_of(dt.datetime.combine(day, dt.time(), zone).astimezone(dt.UTC))
    if (back_ns := nanoseconds_in(text.removeprefix("-"))) is not None:
        return time.time_ns() - back_ns
    if (match := _SINCE_1970.fullmatch(text)) is not None:
        return int(match[1]) * SECOND_NS + _fraction_ns(match[2])
    if (match := _DATE.fullmatch(text)) is not None:
        given = dt.datetime.fromisoformat(f"{match[1]}T{match[2] or '00:00'}{match[4] or ''}")
        # The years that fit 64 bits in any zone.
        if 1678 <= given.year <= 2261:
            zoned = given if given.tzinfo is not None else given.replace(tzinfo=zone)
            return nanoseconds_of(zoned.astimezone(dt.UTC)) + _fraction_ns(match[3])
    return None


def _fraction_ns(digits: str | None) -> int:
    return int((digits or "").ljust(9, "0"))
