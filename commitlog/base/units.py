"""Read sizes, durations and ages, as numbers or text with a unit, for options and the command line.

These are the only tables of units in the package. Both ignore case: `m` is a minute in a duration
and a MiB in a size.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
import re
from collections.abc import Mapping
from fractions import Fraction
from numbers import Real
from typing import SupportsIndex

import numpy as np

from commitlog.errors import InvalidOptionError

Size = SupportsIndex | str
Duration = float | str | dt.timedelta
Age = str | dt.timedelta

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40
SIZE_LARGEST = (1 << 63) - 1
SIZE_UNITS = {
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "k": KIB,
    "m": MIB,
    "g": GIB,
    "t": TIB,
    "kib": KIB,
    "mib": MIB,
    "gib": GIB,
    "tib": TIB,
}

SECOND_NS = 10**9
MINUTE_NS, HOUR_NS, DAY_NS = 60 * SECOND_NS, 3600 * SECOND_NS, 86400 * SECOND_NS
# Both characters that are printed as "µ" fold to U+03BC.
DURATION_UNITS_NS = {
    "ns": 1,
    "us": 1000,
    "\u03bcs": 1000,
    "ms": 10**6,
    "s": SECOND_NS,
    "m": MINUTE_NS,
    "min": MINUTE_NS,
    "h": HOUR_NS,
    "d": DAY_NS,
    "w": 7 * DAY_NS,
}
DURATION_LARGEST_S = 366 * 86400.0
_AGE_LARGEST_S = 100 * DURATION_LARGEST_S  # records may have to be kept for decades

_FORM = re.compile(r"\s*([0-9]{1,19}(?:\.[0-9]{1,19})?)\s*([A-Za-z\u00b5\u03bc]*)\s*")


def parse_size(value: Size, name: str) -> int:
    """Read a size: bytes, or a number with a unit, such as `"64KiB"` or `"64K"`, `"1.5G"`, `"1MB"`
    (10**6).

    Return bytes, from 0 to 2**63 - 1. Refuse booleans, floats, negative numbers, unknown units and
    parts of a byte with an error that names the option.
    """
    size = _product(value, SIZE_UNITS, 1) if isinstance(value, str) else whole_of(value)
    if size is None or not 0 <= size <= SIZE_LARGEST or size != int(size):
        raise InvalidOptionError(f"{name} must be a size, such as 65536 or '64MiB', not {value!r}")
    return int(size)


def parse_duration(value: Duration, name: str) -> float:
    """Read a duration: seconds, a `datetime.timedelta`, or a number with a unit (`ns`, `us`, `ms`,
    `s`, `m` or `min`, `h`, `d`, `w`), such as `"500ms"` or `"1.5h"`.

    Return seconds, from 0 to 366 days. Refuse booleans, negative numbers, NaN, infinities and
    unknown units with an error that names the option.
    """
    duration_s = seconds_of(value)
    if not 0 <= duration_s <= DURATION_LARGEST_S:
        raise InvalidOptionError(
            f"{name} must be a duration of up to 366 days, in seconds or with a unit, such as 0.5 "
            f"or '500ms', not {value!r}"
        )
    return duration_s


def parse_age(value: object, name: str) -> dt.timedelta:
    """Read an age of at most a hundred years: a text with a unit, such as ``"7d"``, or a
    `datetime.timedelta`.

    Refuse a number without a unit: it may be meant as days, and records would be lost.
    """
    age_s = math.nan
    if isinstance(value, dt.timedelta):
        age_s = value.total_seconds()
    elif isinstance(value, str):
        age_s = _seconds(_product(value, DURATION_UNITS_NS))
    if not 0 <= age_s <= _AGE_LARGEST_S:
        raise InvalidOptionError(
            f"{name} must be an age with its unit, such as '90s', '36h' or '7d', not {value!r}"
        )
    return dt.timedelta(seconds=age_s)


def seconds_of(value: object) -> float:
    """Return the seconds, or NaN, which is within no bounds."""
    if isinstance(value, str):
        return _seconds(_product(value, DURATION_UNITS_NS, SECOND_NS))
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    # NumPy's duration is a Real whose number counts any unit.
    if isinstance(value, bool | np.timedelta64) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def nanoseconds_in(text: str) -> int | None:
    """Return the nanoseconds of a text with a unit; None for any other text."""
    product = _product(text, DURATION_UNITS_NS)
    return None if product is None else int(product)


def whole_of(value: object) -> int | None:
    """Return a caller's int, also of NumPy, but no bool; None for anything else."""
    if type(value) is int:  # the check of a protocol takes microseconds
        return value
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        return None
    try:
        return operator.index(value)
    except TypeError:  # a class of such, or an array of several
        return None


def _product(text: str, units: Mapping[str, int], bare: int | None = None) -> Fraction | None:
    """Multiply a text's number by its unit, or by `bare` without one; None for any other text."""
    match = _FORM.fullmatch(text)
    unit = None if match is None else units.get(match[2].casefold()) if match[2] else bare
    return None if match is None or unit is None else Fraction(match[1]) * unit


def _seconds(nanoseconds: Fraction | None) -> float:
    return math.nan if nanoseconds is None else float(nanoseconds / SECOND_NS)
