"""Times as they are given on the command line, and as they are printed."""

from __future__ import annotations

import datetime as dt
import re
import time
from dataclasses import dataclass
from fractions import Fraction

from commitlog.base.units import DURATION_UNITS

FORMS = "2026-05-01, 2026-05-01T12:30, 2026-05-01T12:30:00.5+02:00, '10min ago', now or @1777638600"

_SECOND_NS = 10**9
_DATE = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(?:(?<=:\d\d:\d\d)\.(\d{1,9}))?\s?(Z|[+-]\d\d:?\d\d)?)?", re.ASCII)
_AGO = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*([a-zA-Z\u00b5\u03bc]+)\s+ago", re.ASCII)
_SINCE_1970 = re.compile(r"@(\d{1,10})(?:\.(\d{1,9}))?", re.ASCII)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_WORDS = {"second": "s", "sec": "s", "minute": "min", "min": "min", "hour": "h", "day": "d", "week": "w"}
_UNITS = {**DURATION_UNITS, "d": Fraction(86400), "w": Fraction(7 * 86400)}


@dataclass(frozen=True)
class Moment:
    """A time that was given, which may need a zone to be known.

    Attributes
    ----------
    text : str
        As it was given.
    local : datetime.datetime
        To the second; with a zone where one was given.
    rest_ns : int
        What the second lacks.
    """

    text: str
    local: dt.datetime
    rest_ns: int

    def nanoseconds(self, zone: dt.tzinfo | None) -> int:
        """Since 1970. `zone` is for a time without one; None is this machine's."""
        local = self.local if self.local.tzinfo is not None else self.local.replace(tzinfo=zone)
        return int((local.astimezone(dt.UTC) - _EPOCH).total_seconds()) * _SECOND_NS + self.rest_ns


def read_moment(text: str) -> Moment | None:
    """A time in one of the forms; None where it is none, or one that no record can have."""
    try:
        found = _moment_of(text)
        if found is not None:
            found.nanoseconds(dt.UTC)
    except (ValueError, OverflowError):
        return None
    return found if found is not None and 1678 <= found.local.year <= 2261 else None


def _moment_of(text: str) -> Moment | None:
    if text == "now":
        return _at(text, time.time_ns())
    if (match := _SINCE_1970.fullmatch(text)) is not None:
        return _at(text, int(match[1]) * _SECOND_NS + _nanoseconds(match[2]))
    if (match := _AGO.fullmatch(text)) is not None:
        word = match[2].casefold()
        unit = _UNITS.get(_WORDS.get(word.removesuffix("s"), word))
        return None if unit is None else _at(text, time.time_ns() - int(Fraction(match[1]) * unit * _SECOND_NS))
    if (match := _DATE.fullmatch(text)) is not None:
        return Moment(text, dt.datetime.fromisoformat(f"{match[1]}T{match[2] or '00:00'}{match[4] or ''}"), _nanoseconds(match[3]))
    return None


def _at(text: str, nanoseconds: int) -> Moment:
    second, rest_ns = divmod(nanoseconds, _SECOND_NS)
    return Moment(text, _EPOCH + dt.timedelta(seconds=second), rest_ns)


def _nanoseconds(fraction: str | None) -> int:
    return int((fraction or "").ljust(9, "0"))


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
        second, rest_ns = divmod(timestamp_ns, _SECOND_NS)
        if second != self._second:
            local = (_EPOCH + dt.timedelta(seconds=second)).astimezone(self._zone).isoformat()
            self._second, self._before, self._behind = second, local[:19], "Z" if self._zone is dt.UTC else local[19:]
        self._last_ns, self._last = timestamp_ns, f"{self._before}.{rest_ns:09d}{self._behind}"
        return self._last
