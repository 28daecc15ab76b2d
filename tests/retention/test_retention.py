"""Retention: the accepted rules, and the one-line errors of the others."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from typing import Any

import pytest

from commitlog import Options, Retention
from commitlog.errors import InvalidOptionError

DAY_S = 86400


def at(text: str, zone: str = "UTC") -> int:
    return (
        int(dt.datetime.fromisoformat(text).replace(tzinfo=zoneinfo.ZoneInfo(zone)).timestamp())
        * 10**9
    )


@pytest.mark.parametrize(
    ("age", "seconds"),
    [
        ("7d", 7 * DAY_S),
        ("2 w", 14 * DAY_S),
        ("36h", 1.5 * DAY_S),
        ("90s", 90),
        ("0s", 0),
        (dt.timedelta(days=3650), 3650 * DAY_S),
        ("1.5D", 1.5 * DAY_S),
    ],
)
def test_max_age_accepts_text_with_a_unit_or_a_timedelta(age: Any, seconds: float) -> None:
    assert Retention(max_age=age).max_age == dt.timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"between": "02:00-03:00"},
        {"max_age": "7 fortnights"},
        {"max_age": 7},
        {"max_age": "7"},
        {"max_age": 0},
        {"max_age": -1},
        {"max_age": float("nan")},
        {"max_age": True},
        {"max_age": "200000d"},
        {"max_age": dt.timedelta(days=-1)},
        {"max_age": b"7d"},
        {"max_bytes": "ten"},
        {"max_bytes": 1.5},
        {"min_free_bytes": -1},
        {"min_free_percent": 101},
        {"min_free_percent": "10%"},
        {"min_free_percent": float("nan")},
        {"min_free_percent": 10**400},
        {"max_age": 10**400},
        {"max_bytes": 1, "between": "2-3"},
        {"max_bytes": 1, "between": "02:00-02:00"},
        {"max_bytes": 1, "between": "25:00-26:00"},
        {"max_bytes": 1, "between": 2},
        {"max_bytes": 1, "time_zone": "Europe/Atlantis"},
        {"max_bytes": 1, "time_zone": "../etc/passwd"},
        {"max_bytes": 1, "time_zone": None},
        {"max_bytes": 1, "interval": 0},
        {"max_bytes": 1, "interval": "soon"},
    ],
    ids=repr,
)
def test_invalid_retention_is_refused_by_name(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        Retention(**given)
    named = list(given)[-1] if given else "max_age"
    assert (named if named != "between" or len(given) > 1 else "max_age") in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    "value", [7, "7d", {"max_age": "7d"}, object()], ids=["int", "str", "dict", "object"]
)
def test_open_refuses_other_objects_as_retention(value: Any) -> None:
    with pytest.raises(InvalidOptionError, match="retention must be a commitlog.Retention"):
        Options(retention=value)


def test_between_is_a_time_of_day_in_its_zone() -> None:
    night = Retention(max_bytes=0, between="22:00-04:30", time_zone="Europe/Berlin")
    for text, inside in [
        ("21:59:59", False),
        ("22:00:00", True),
        ("00:00:00", True),
        ("04:29:59", True),
        ("04:30:00", False),
    ]:
        assert night.acts_at(at(f"2026-01-15T{text}", "Europe/Berlin")) is inside, text
        assert night.acts_at(at(f"2026-07-15T{text}", "Europe/Berlin")) is inside, text
    morning = Retention(max_bytes=0, between="02:00-05:30")
    assert morning.acts_at(at("2026-01-15T03:00:00"))
    assert not morning.acts_at(at("2026-01-15T01:59:59"))
    assert not morning.acts_at(at("2026-01-15T05:30:00"))


def test_retention_without_between_acts_at_any_time() -> None:
    assert Retention(max_bytes=0).acts_at(at("2026-01-15T12:00:00"))


def test_room_wanted_is_the_larger_of_both_limits() -> None:
    assert Retention(min_free_bytes="1KiB", min_free_percent=10).room_wanted(100_000) == 10_000
    assert Retention(min_free_bytes="1KiB", min_free_percent=0.5).room_wanted(100_000) == 1024
