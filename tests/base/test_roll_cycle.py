"""Roll cycles: the cycle of an instant, and its start and end, in every zone and on every day."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commitlog.base.roll_cycle import HOUR_NS, NAMES, RollCycle, period_name
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
    RollCycle,
    st.sampled_from((*NAMES, "90s", "36h")),
    st.sampled_from(EPOCHS_NS),
    st.sampled_from(ZONES),
)
instants = st.integers(instant_ns("1970-01-01T00:00Z"), instant_ns("2040-01-01T00:00Z"))


def shown(cycle: RollCycle, number: int) -> str:
    """Return the start of a cycle on the zone's clock."""
    return cycle.show(cycle.start_ns(number)).isoformat(timespec="minutes")


def hours(cycle: RollCycle, number: int) -> float:
    return (cycle.end_ns(number) - cycle.start_ns(number)) / HOUR_NS


@given(cycles, instants)
def test_every_instant_lies_in_the_cycle_of_its_number(cycle: RollCycle, time_ns: int) -> None:
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
    cycle = RollCycle(name, 0, zone)
    number = cycle.number_at(time_ns)
    assert cycle.end_ns(number) - cycle.start_ns(number) == cycle.length_ns
    assert number == RollCycle(name).number_at(time_ns)


@pytest.mark.parametrize(
    ("day", "length"), [("2026-03-29", 23.0), ("2026-10-25", 25.0), ("2026-11-21", 24.0)]
)
def test_daily_cycle_is_as_long_as_the_zones_day(day: str, length: float) -> None:
    cycle = RollCycle("DAILY", 0, "Europe/Berlin")
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
    cycle = RollCycle(name, 0, "Europe/Berlin")
    number = cycle.number_at(instant_ns(time))
    assert (shown(cycle, number), hours(cycle, number)) == (start, length)


def test_clock_leap_at_midnight_starts_day_after_leap() -> None:
    cycle = RollCycle("DAILY", 0, "America/Sao_Paulo")
    number = cycle.number_at(instant_ns("2018-11-04T12:00Z"))
    assert (shown(cycle, number), hours(cycle, number)) == ("2018-11-04T01:00-02:00", 23.0)


def test_day_skipped_by_a_zone_has_an_empty_cycle() -> None:
    cycle = RollCycle("DAILY", 0, "Pacific/Apia")
    number = cycle.number_at(instant_ns("2011-12-29T12:00-10:00"))
    assert [hours(cycle, number + ahead) for ahead in range(3)] == [24.0, 0.0, 24.0]
    assert cycle.number_at(cycle.end_ns(number)) == number + 2


def test_weekly_cycle_begins_on_monday() -> None:
    cycle = RollCycle("WEEKLY")
    assert (
        cycle.show(cycle.start_ns(cycle.number_at(instant_ns("2026-11-21T00:00Z")))).weekday() == 0
    )
    assert cycle.number_at(instant_ns("1970-01-01T00:00Z")) == 0


def test_epoch_moves_the_boundaries_of_cycles() -> None:
    cycle = RollCycle("DAILY", 17 * HOUR_NS, "Europe/Berlin")
    number = cycle.number_at(instant_ns("2026-11-21T16:59+01:00"))
    assert shown(cycle, number) == "2026-11-20T17:00+01:00"
    assert cycle.number_at(instant_ns("2026-11-21T17:00+01:00")) == number + 1
    begun = dt.datetime.fromisoformat("2026-01-01T06:00+01:00")
    for name in ("WEEKLY", "DAILY", "SIX_HOURLY", "HOURLY", "36h"):
        moved = RollCycle(
            name, RollCycle(name, 0, "Europe/Berlin").epoch_of(begun), "Europe/Berlin"
        )
        assert moved.show(moved.start_ns(0)) == begun


@pytest.mark.parametrize(
    ("period_ns", "name"),
    [(10**7, "10ms"), (90 * 10**9, "90s"), (900 * 10**9, "15min"), (36 * HOUR_NS, "36h")],
)
def test_period_has_one_canonical_name(period_ns: int, name: str) -> None:
    assert period_name(period_ns) == name
    assert RollCycle(name).length_ns == period_ns


@pytest.mark.parametrize(
    "name", ["", "daily", "YEARLY", "0s", "5ms", "1.5s", "9000h", "01s", "1 s", "10ns"]
)
def test_unknown_roll_cycle_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no roll cycle"):
        RollCycle(name)


@pytest.mark.parametrize(
    "zone", ["", "Europe/Berln", "../../etc/passwd", "/etc/localtime", "Europe", "\0"]
)
def test_unknown_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(ValueError, match="no time zone"):
        RollCycle("DAILY", 0, zone)
