"""Sizes and durations: numbers, or texts with a unit, as every option takes them."""

from __future__ import annotations

import math
import operator
import re
from fractions import Fraction
from numbers import Real
from typing import SupportsIndex

from commitlog.errors import InvalidOptionError

Size = SupportsIndex | str
Duration = float | str

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40
SIZE_LARGEST = (1 << 63) - 1
SIZE_UNITS = {"": 1, "b": 1, "kib": KIB, "mib": MIB, "gib": GIB, "tib": TIB, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
SIZE_FORM = re.compile(r"\s*([0-9]{1,19}(?:\.[0-9]{1,19})?)\s*([A-Za-z]*)\s*")

DURATION_LARGEST_S = 366 * 86400.0
# Both characters that are printed as "µ" fold to U+03BC.
DURATION_UNITS = {
    "": Fraction(1),
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "\u03bcs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "min": Fraction(60),
    "h": Fraction(3600),
}
DURATION_FORM = re.compile(r"\s*([0-9]{1,19}(?:\.[0-9]{1,19})?)\s*([A-Za-z\u00b5\u03bc]*)\s*")


def parse_size(value: Size, name: str) -> int:
    """Read a size.

    Parameters
    ----------
    value : int or str
        Bytes, or a number with a unit: `"64KiB"`, `"1.5GiB"`, `"1MB"` (10**6). The case of the unit does not matter.
    name : str
        The option's name, for the error.

    Returns
    -------
    int
        Bytes, from 0 to 2**63 - 1.

    Raises
    ------
    InvalidOptionError
        For anything else: booleans, floats, negative numbers, unknown units, parts of a byte.
    """
    size = size_of(value)
    if size is None or not 0 <= size <= SIZE_LARGEST:
        raise InvalidOptionError(f"{name} must be a size, such as 65536 or '64MiB', not {value!r}")
    return size


def size_of(value: object) -> int | None:
    """The bytes, whatever their number; None for what is no size."""
    if isinstance(value, str):
        match = SIZE_FORM.fullmatch(value)
        unit = SIZE_UNITS.get(match[2].casefold()) if match else None
        size = Fraction(match[1]) * unit if match and unit else None
        return int(size) if size is not None and size.denominator == 1 else None
    return whole_of(value)


def whole_of(value: object) -> int | None:
    """An int as callers give it, a NumPy one or not, but no bool; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        return None
    try:
        return operator.index(value)
    except TypeError:  # a class of such, or an array of several
        return None


def parse_duration(value: Duration, name: str) -> float:
    """Read a duration.

    Parameters
    ----------
    value : float, int or str
        Seconds, or a number with a unit (`ns`, `us`, `ms`, `s`, `min`, `h`): `"500ms"`, `"1.5 min"`.
    name : str
        The option's name, for the error.

    Returns
    -------
    float
        Seconds, from 0 to 366 days.

    Raises
    ------
    InvalidOptionError
        For anything else: booleans, negative numbers, NaN, infinities, unknown units, more than 366 days.
    """
    duration_s = seconds_of(value)
    if not 0 <= duration_s <= DURATION_LARGEST_S:
        raise InvalidOptionError(
            f"{name} must be a duration of up to 366 days, in seconds or with a unit, such as 0.5 or '500ms', not {value!r}"
        )
    return duration_s


def seconds_of(value: object) -> float:
    """The seconds, or NaN, which no bound admits."""
    if isinstance(value, str):
        match = DURATION_FORM.fullmatch(value)
        unit = DURATION_UNITS.get(match[2].casefold()) if match else None
        return float(Fraction(match[1]) * unit) if match and unit else math.nan
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan
