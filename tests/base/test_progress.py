"""A meter reports the start, the end and some steps in between, and passes on what is raised."""

from __future__ import annotations

import pytest

from commitlog.base import progress
from commitlog.base.host import host
from commitlog.base.progress import Meter
from commitlog.errors import InvalidOptionError


def test_meter_reports_at_most_ten_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr(host, "monotonic", lambda: now_s)
    seen: list[tuple[int, int]] = []
    meter = Meter(lambda done, total: seen.append((done, total)), 100)
    for _ in range(50):
        meter.add(1)
    assert seen == [(0, 100)]
    now_s += progress._EVERY_S
    meter.add(1)
    meter.grow(20)
    meter.add(69)
    meter.end()
    assert seen == [(0, 100), (51, 100), (120, 120)]


def test_meter_never_reports_more_than_the_total() -> None:
    seen: list[tuple[int, int]] = []
    meter = Meter(lambda done, total: seen.append((done, total)), 0)
    meter.add(10)
    meter.end()
    assert seen == [(0, 0), (0, 0)]


def test_what_the_function_raises_ends_the_work() -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Meter(stop, 1)


def test_meter_without_a_function_reports_nothing() -> None:
    meter = Meter(None, 10)
    meter.add(10)
    meter.end()
    with pytest.raises(InvalidOptionError, match="progress must be a function"):
        Meter("loud", 10)  # type: ignore[arg-type]
