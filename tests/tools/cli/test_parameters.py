"""One grammar of sizes, durations, ages and times for every command."""

from __future__ import annotations

import datetime as dt
import time

import click
import pytest

from commitlog.base.moment import read_moment
from commitlog.tools.cli import parameters

DAY_S = 86400


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1G", 1 << 30),
        ("64K", 65536),
        ("64kib", 65536),
        ("1.5M", 3 << 19),
        ("1MB", 10**6),
        ("7", 7),
    ],
)
def test_size_has_an_optional_unit(text: str, size: int) -> None:
    assert parameters.size(text) == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10m", 600), ("1.5h", 5400), ("7d", 7 * DAY_S), ("500ms", 0.5), ("15", 15)],
)
def test_duration_without_unit_is_in_seconds(text: str, seconds: float) -> None:
    assert parameters.duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"), [("10m", 600), ("-10m", 600), ("1.5h", 5400), ("7d", 7 * DAY_S)]
)
def test_age_and_time_accept_the_same_durations(text: str, seconds: float) -> None:
    before_ns = time.time_ns()
    moment_ns = read_moment(parameters.moment(text))
    assert before_ns <= moment_ns + seconds * 1e9 <= time.time_ns()
    assert parameters.age(text) == dt.timedelta(seconds=seconds)


def test_age_may_be_a_time_in_the_past() -> None:
    written = dt.datetime(2026, 5, 1, 12, 30, tzinfo=dt.UTC)
    before = dt.datetime.now(dt.UTC)
    found = parameters.age("2026-05-01T12:30:00.000000005Z")
    assert (
        before - written
        <= found + dt.timedelta(microseconds=1)
        <= dt.datetime.now(dt.UTC) - written + dt.timedelta(microseconds=2)
    )
    assert parameters.age("yesterday") > parameters.age("today")


def test_time_keeps_its_nanoseconds() -> None:
    assert read_moment(parameters.moment("2026-05-01T12:30:00.000000005")) % 10**9 == 5


@pytest.mark.parametrize("text", ["7", "7x", "1G", "2200-01-01", "-1", "soon", ""])
def test_invalid_age_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(
        click.BadParameter,
        match=r"expected an age such as 90s, 36h, 7d, yesterday or 2026-05-01, not",
    ):
        parameters.age(text)


@pytest.mark.parametrize("text", ["7x", "64KX", "-1K", "1.5", "much"])
def test_unknown_unit_of_a_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(
        click.BadParameter, match="expected a size such as 65536, 64K or 64MiB, not"
    ):
        parameters.size(text)
