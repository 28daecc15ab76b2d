"""Moments: the texts accepted as times, and their instants."""

from __future__ import annotations

import datetime as dt
import time
import zoneinfo

import pytest

from commitlog.base.moment import read_moment, utc_datetime

SECOND_NS = 10**9
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
NOON_NS = 1_777_636_800 * SECOND_NS  # 2026-05-01T12:00Z


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("2026-05-01", NOON_NS - 12 * 3600 * SECOND_NS),
        ("2026-05-01T12:00", NOON_NS),
        ("2026-05-01 12:00:00", NOON_NS),
        ("2026-05-01T12:00:00.000000005", NOON_NS + 5),
        ("2026-05-01T14:00:00.5+02:00", NOON_NS + SECOND_NS // 2),
        ("@1777636800.5", NOON_NS + SECOND_NS // 2),
    ],
)
def test_time_is_parsed_to_the_nanosecond(text: str, nanoseconds: int) -> None:
    assert read_moment(text) == nanoseconds


def test_time_without_zone_is_in_the_given_zone() -> None:
    assert read_moment("2026-05-01T14:00", BERLIN) == NOON_NS
    assert read_moment("2026-05-01T12:00Z", BERLIN) == NOON_NS


@pytest.mark.parametrize(
    ("text", "back_s"),
    [("now", 0), ("-10m", 600), ("10m", 600), ("-10min", 600), ("-1.5h", 5400), ("-7d", 7 * 86400)],
)
def test_duration_is_counted_back_from_now(text: str, back_s: int) -> None:
    before_ns = time.time_ns()
    found_ns = read_moment(text)
    assert before_ns <= found_ns + back_s * SECOND_NS <= time.time_ns()


@pytest.mark.parametrize(("text", "days"), [("today", 0), ("yesterday", 1)])
def test_day_name_is_midnight_of_the_given_zone(text: str, days: int) -> None:
    earliest = dt.datetime.now(BERLIN).date()
    found = dt.datetime.fromtimestamp(read_moment(text, BERLIN) / SECOND_NS, BERLIN)
    assert found.time() == dt.time()
    assert found.date() + dt.timedelta(days=days) in (earliest, dt.datetime.now(BERLIN).date())


@pytest.mark.parametrize(
    "text",
    ["", "tomorrow", "-10", "-m", "10m ago", "2026-02-30", "1677-01-01", "9999-01-01", "-99999w"],
)
def test_other_text_is_refused_as_a_time(text: str) -> None:
    with pytest.raises(ValueError, match="^a time such as 2026-05-01, "):
        read_moment(text)


@pytest.mark.parametrize("stamp_ns", [0, 1, 999, 1_777_638_600_123_456_789, (1 << 63) - 1])
def test_datetime_of_a_timestamp_is_exact_to_the_microsecond(stamp_ns: int) -> None:
    found = utc_datetime(stamp_ns)
    assert found.utcoffset() == dt.timedelta()
    assert (found - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(
        microseconds=1
    ) == stamp_ns // 1000
