"""Moments: which texts are times, and which instant they name."""

from __future__ import annotations

import datetime as dt
import time
import zoneinfo

import pytest

from commitlog.base.moment import read_moment

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
def test_a_time_is_read_to_the_nanosecond(text: str, nanoseconds: int) -> None:
    assert read_moment(text) == nanoseconds


def test_a_time_without_zone_is_that_of_the_given_zone() -> None:
    assert read_moment("2026-05-01T14:00", BERLIN) == NOON_NS
    assert read_moment("2026-05-01T12:00Z", BERLIN) == NOON_NS


@pytest.mark.parametrize(
    ("text", "back_s"),
    [("now", 0), ("-10m", 600), ("-10min", 600), ("-1.5h", 5400), ("-7d", 7 * 86400)],
)
def test_a_negative_duration_counts_back_from_now(text: str, back_s: int) -> None:
    before_ns = time.time_ns()
    found_ns = read_moment(text)
    assert before_ns <= found_ns + back_s * SECOND_NS <= time.time_ns()


@pytest.mark.parametrize(("text", "days"), [("today", 0), ("yesterday", 1)])
def test_a_day_begins_at_midnight_of_its_zone(text: str, days: int) -> None:
    earliest = dt.datetime.now(BERLIN).date()
    found = dt.datetime.fromtimestamp(read_moment(text, BERLIN) / SECOND_NS, BERLIN)
    assert found.time() == dt.time()
    assert found.date() + dt.timedelta(days=days) in (earliest, dt.datetime.now(BERLIN).date())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tomorrow",
        "-10",
        "-m",
        "10m",
        "10m ago",
        "2026-02-30",
        "1677-01-01",
        "9999-01-01",
        "-99999w",
    ],
)
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="^a time such as 2026-05-01, "):
        read_moment(text)
