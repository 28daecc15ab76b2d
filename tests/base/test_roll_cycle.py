"""Roll cycles: the cycle of an instant, and its start and end, in every zone and on every day."""

from __future__ import annotations

import datetime as dt
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commitlog.base.cycle_clock import NAMES, CycleClock
from commitlog.base.roll_cycle import RollCycle, clock_of, stored_cycle
from commitlog.base.units import HOUR_NS
from commitlog.errors import InvalidOptionError
from tests.clock import instant_ns

ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",
    "America/Havana",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Africa/Monrovia",
)
FIXED = (
    "MINUTELY",
    "FIVE_MINUTELY",
    "TEN_MINUTELY",
    "TWENTY_MINUTELY",
    "HALF_HOURLY",
    "HOURLY",
    "90s",
    "36h",
    "250ms",
)
EPOCHS_NS = (0, 17 * HOUR_NS, HOUR_NS // 2, -3 * HOUR_NS)
cycles = st.builds(
    CycleClock,
    st.sampled_from((*NAMES, "90s", "36h")),
    st.sampled_from(ZONES),
    st.sampled_from(EPOCHS_NS),
)
instants = st.integers(instant_ns("1970-01-01T00:00Z"), instant_ns("2040-01-01T00:00Z"))


def clock(name: str, **options: Any) -> CycleClock:
    return clock_of(RollCycle(name, **options))


def shown(cycle: CycleClock, number: int) -> str:
    """Return the start of a cycle on the zone's clock."""
    return cycle.show(cycle.start_ns(number)).isoformat(timespec="minutes")


def hours(cycle: CycleClock, number: int) -> float:
    return (cycle.end_ns(number) - cycle.start_ns(number)) / HOUR_NS


@given(cycles, instants)
def test_every_instant_lies_in_the_cycle_of_its_number(cycle: CycleClock, time_ns: int) -> None:
    number = cycle.number_at(time_ns)
    assert cycle.start_ns(number) <= time_ns < cycle.end_ns(number)
    assert (
        cycle.number_at(cycle.start_ns(number))
        == cycle.number_at(cycle.end_ns(number) - 1)
        == number
    )
    assert cycle.number_at(cycle.end_ns(number)) > number
    assert cycle.start_ns(number - 1) <= cycle.start_ns(number)


@given(st.sampled_from(FIXED), st.sampled_from(ZONES), instants)
def test_cycles_up_to_an_hour_have_a_fixed_length(name: str, zone: str, time_ns: int) -> None:
    cycle = clock(name, time_zone=zone)
    number = cycle.number_at(time_ns)
    assert cycle.end_ns(number) - cycle.start_ns(number) == cycle.length_ns
    assert number == clock(name).number_at(time_ns)


@pytest.mark.parametrize(
    ("day", "length"), [("2026-03-29", 23.0), ("2026-10-25", 25.0), ("2026-11-21", 24.0)]
)
def test_daily_cycle_is_as_long_as_the_zones_day(day: str, length: float) -> None:
    cycle = clock("DAILY", time_zone="Europe/Berlin")
    number = cycle.number_at(instant_ns(f"{day}T12:00Z"))
    assert shown(cycle, number).startswith(f"{day}T00:00")
    assert hours(cycle, number) == length
    assert number == (dt.date.fromisoformat(day) - dt.date(1970, 1, 1)).days


@pytest.mark.parametrize(
    ("name", "time", "start", "length"),
    [
        ("TWO_HOURLY", "2026-03-29T01:30Z", "2026-03-29T03:00+02:00", 1.0),
        ("TWO_HOURLY", "2026-10-25T01:30Z", "2026-10-25T02:00+02:00", 3.0),
        ("FOUR_HOURLY", "2026-10-25T01:30Z", "2026-10-25T00:00+02:00", 5.0),
        ("SIX_HOURLY", "2026-03-29T01:30Z", "2026-03-29T00:00+01:00", 5.0),
        ("WEEKLY", "2026-03-29T01:30Z", "2026-03-23T00:00+01:00", 167.0),
    ],
)
def test_clock_change_keeps_longer_cycles_on_wall_clock(
    name: str, time: str, start: str, length: float
) -> None:
    cycle = clock(name, time_zone="Europe/Berlin")
    number = cycle.number_at(instant_ns(time))
    assert (shown(cycle, number), hours(cycle, number)) == (start, length)


def test_clock_leap_at_midnight_starts_day_after_leap() -> None:
    cycle = clock("DAILY", time_zone="America/Sao_Paulo")
    number = cycle.number_at(instant_ns("2018-11-04T12:00Z"))
    assert (shown(cycle, number), hours(cycle, number)) == ("2018-11-04T01:00-02:00", 23.0)


def test_day_skipped_by_a_zone_has_an_empty_cycle() -> None:
    cycle = clock("DAILY", time_zone="Pacific/Apia")
    number = cycle.number_at(instant_ns("2011-12-29T12:00-10:00"))
    assert [hours(cycle, number + ahead) for ahead in range(3)] == [24.0, 0.0, 24.0]
    assert cycle.number_at(cycle.end_ns(number)) == number + 2


def test_weekly_cycle_begins_on_monday() -> None:
    cycle = clock("WEEKLY")
    assert (
        cycle.show(cycle.start_ns(cycle.number_at(instant_ns("2026-11-21T00:00Z")))).weekday() == 0
    )
    assert cycle.number_at(instant_ns("1970-01-01T00:00Z")) == 0


def test_epoch_moves_the_boundaries_of_cycles() -> None:
    cycle = clock("DAILY", time_zone="Europe/Berlin", epoch="17h")
    number = cycle.number_at(instant_ns("2026-11-21T16:59+01:00"))
    assert shown(cycle, number) == "2026-11-20T17:00+01:00"
    assert cycle.number_at(instant_ns("2026-11-21T17:00+01:00")) == number + 1
    begun = dt.datetime.fromisoformat("2026-01-01T06:00+01:00")
    for name in ("WEEKLY", "DAILY", "SIX_HOURLY", "HOURLY", "36h"):
        moved = clock(name, time_zone="Europe/Berlin", epoch=begun)
        assert moved.show(moved.start_ns(0)) == begun


@pytest.mark.parametrize(
    ("period_ns", "name"),
    [(10**7, "10ms"), (90 * 10**9, "90s"), (900 * 10**9, "15min"), (36 * HOUR_NS, "36h")],
)
def test_period_has_one_canonical_name(period_ns: int, name: str) -> None:
    assert RollCycle(period_ns / 1e9).name == name
    assert clock(name).length_ns == period_ns


@pytest.mark.parametrize(
    ("cycle", "name"), [("daily", "DAILY"), (90, "90s"), ("1.5s", "1500ms"), ("60 min", "1h")]
)
def test_cycle_has_one_name_in_each_spelling(cycle: str | float, name: str) -> None:
    assert RollCycle(cycle).name == name
    assert RollCycle(cycle) == RollCycle(name)


@pytest.mark.parametrize("cycle", ["", "YEARLY", "0s", "5ms", "9000h", "10ns", True, None])
def test_unknown_roll_cycle_is_refused(cycle: Any) -> None:
    with pytest.raises(InvalidOptionError, match="^cycle must be one of MINUTELY, "):
        RollCycle(cycle)


@pytest.mark.parametrize("name", ["HOURLY", "DAILY", "WEEKLY"])
@pytest.mark.parametrize("epoch", [(1, 1, 1), (9999, 12, 31)], ids=["first", "last"])
def test_epoch_out_of_bounds_raises(name: str, epoch: tuple[int, int, int]) -> None:
    with pytest.raises(InvalidOptionError, match="^epoch must be within a thousand years"):
        RollCycle(name, time_zone="Asia/Kathmandu", epoch=dt.datetime(*epoch, tzinfo=dt.UTC))


def test_invalid_epoch_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="^epoch must be a duration"):
        RollCycle("DAILY", epoch="noon")
    with pytest.raises(InvalidOptionError, match="^epoch must have a time zone"):
        RollCycle("DAILY", epoch=dt.datetime(2026, 5, 1))  # noqa: DTZ001


def test_cycle_can_be_pickled_and_hashed() -> None:
    cycle = RollCycle("DAILY", time_zone="Europe/Berlin", epoch="6h")
    assert pickle.loads(pickle.dumps(cycle)) == cycle
    assert hash(cycle) == hash(stored_cycle("DAILY", "Europe/Berlin", 6 * HOUR_NS))


@pytest.mark.parametrize(
    "zone", ["", "Europe/Berln", "../../etc/passwd", "/etc/localtime", "Europe", "\0"]
)
def test_unknown_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(InvalidOptionError, match="^time_zone must be the name of a time zone"):
        RollCycle("DAILY", time_zone=zone)
