"""Sizes and durations: accepted forms, and refusals that name the option."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commitlog.base.units import parse_age, parse_duration, parse_size
from commitlog.errors import InvalidOptionError

MIB = 1 << 20
NO_SIZES = (
    True,
    False,
    np.True_,
    -1,
    1.0,
    1.5,
    1 << 63,
    math.inf,
    None,
    b"64",
    [64],
    Decimal(64),
    int,
    np.array([1, 2]),
)
NO_SIZE_TEXTS = (
    "-1",
    "1.",
    "1e3",
    "0x10",
    "1_000",
    "",
    "MiB",
    "64Ki",
    "64 s",
    "64 bytes",
    "1.0001KiB",
    "8388608TiB",
    "\uff11KiB",
    "9" * 5000,
)
NO_DURATIONS = (
    True,
    math.nan,
    math.inf,
    -math.inf,
    -1,
    -0.001,
    10**400,
    366 * 86400 + 1,
    None,
    b"5",
    [5],
)
NO_DURATION_TEXTS = (
    "-1s",
    "1.s",
    "nan",
    "inf",
    "1e400",
    "",
    "ms",
    "5 seconds",
    "5G",
    "367h1",
    "9000h",
    "\u0663s",
    "9" * 5000,
)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (0, 0),
        (65536, 65536),
        (np.int64(4096), 4096),
        ("0", 0),
        ("4096", 4096),
        ("17B", 17),
        ("64KiB", 65536),
        ("64K", 65536),
        ("64M", 64 * MIB),
        ("1.5G", 3 << 29),
        ("1t", 1 << 40),
        ("64MiB", 64 * MIB),
        ("1GiB", 1 << 30),
        ("1TiB", 1 << 40),
        ("1kB", 1000),
        ("1MB", 1_000_000),
        ("2GB", 2 * 10**9),
        ("1TB", 10**12),
        ("1.5KiB", 1536),
        (" 64 mib ", 64 * MIB),
        ((1 << 63) - 1, (1 << 63) - 1),
    ],
)
def test_size_is_parsed(value: Any, size: int) -> None:
    assert parse_size(value, "segment_size") == size
    assert type(parse_size(value, "segment_size")) is int


@pytest.mark.parametrize("value", [*NO_SIZES, *NO_SIZE_TEXTS])
def test_invalid_size_is_refused_by_name(value: Any) -> None:
    with pytest.raises(InvalidOptionError, match="^buffer_size must be a size"):
        parse_size(value, "buffer_size")


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (0, 0.0),
        (2, 2.0),
        (0.25, 0.25),
        (np.float32(0.5), 0.5),
        (Fraction(1, 4), 0.25),
        ("5", 5.0),
        ("0.5", 0.5),
        ("100ns", 1e-7),
        ("10us", 1e-5),
        ("10\u00b5s", 1e-5),
        ("10\u03bcs", 1e-5),
        ("500ms", 0.5),
        ("2s", 2.0),
        ("1min", 60.0),
        ("10m", 600.0),
        ("1.5h", 5400.0),
        ("7d", 604800.0),
        ("2w", 1209600.0),
        ("1.5 min", 90.0),
        (" 2 H ", 7200.0),
        (366 * 86400, 366 * 86400.0),
    ],
)
def test_duration_is_parsed(value: Any, seconds: float) -> None:
    assert parse_duration(value, "sync_timeout") == seconds
    assert type(parse_duration(value, "sync_timeout")) is float


@pytest.mark.parametrize("value", [*NO_DURATIONS, *NO_DURATION_TEXTS])
def test_invalid_duration_is_refused_by_name(value: Any) -> None:
    with pytest.raises(InvalidOptionError, match="^flush_interval must be a duration"):
        parse_duration(value, "flush_interval")


@pytest.mark.parametrize("value", ["7d", "168h", "1 W", "604800s", dt.timedelta(days=7)])
def test_age_is_parsed(value: Any) -> None:
    assert parse_age(value, "max_age") == dt.timedelta(days=7)


@pytest.mark.parametrize(
    "value", [7, 7.0, "7", "", "-7d", "7x", "36601d", None, True, dt.timedelta(-1)]
)
def test_invalid_age_is_refused(value: Any) -> None:
    with pytest.raises(InvalidOptionError, match="^max_age must be an age with its unit"):
        parse_age(value, "max_age")


@given(st.integers(0, (1 << 63) - 1))
def test_size_written_as_text_is_parsed_back(size: int) -> None:
    assert parse_size(str(size), "s") == parse_size(f"{size} B", "s") == size


@given(st.text(max_size=30))
def test_any_text_is_a_size_or_refused(text: str) -> None:
    for parse in (parse_size, parse_duration):
        try:
            assert parse(text, "some_option") >= 0
        except InvalidOptionError as error:
            assert str(error).startswith("some_option ")  # noqa: PT017 - what else it raises is what the test is about


@pytest.mark.parametrize(
    ("value", "duration_s"),
    [
        (dt.timedelta(milliseconds=500), 0.5),
        (dt.timedelta(days=366), 366 * 86400),
        (dt.timedelta(), 0),
    ],
)
def test_duration_may_be_a_timedelta(value: dt.timedelta, duration_s: float) -> None:
    assert parse_duration(value, "wait") == duration_s


@pytest.mark.parametrize(
    "value", [dt.timedelta(-1), dt.timedelta(367), dt.timedelta.max, dt.timedelta.min]
)
def test_timedelta_out_of_bounds_is_refused(value: dt.timedelta) -> None:
    with pytest.raises(InvalidOptionError, match="wait must be a duration"):
        parse_duration(value, "wait")


@pytest.mark.parametrize("count", [500, "NaT"])
@pytest.mark.parametrize("unit", ["ns", "s", "Y"])
def test_duration_of_numpy_is_refused(count: int | str, unit: str) -> None:
    """Its number counts nanoseconds, or anything else."""
    with pytest.raises(InvalidOptionError, match="wait must be a duration"):
        parse_duration(np.timedelta64(count, unit), "wait")  # type: ignore[arg-type]
