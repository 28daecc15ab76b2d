"""Replay: records at their recorded pace, on a fake clock."""

from __future__ import annotations

from typing import Any

import pytest

from commitlog import CommitLog
from commitlog.base import pace
from commitlog.errors import InvalidOptionError
from commitlog.tail import replay
from tests.setups import Logs

MS = 1_000_000


class Clock:
    """A clock that advances only while the tailer sleeps."""

    def __init__(self) -> None:
        self.now_ns = 5_000 * MS
        self.slept_s: list[float] = []
        self.then: dict[int, Any] = {}

    def monotonic_ns(self) -> int:
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.now_ns += round(seconds * 1000) * MS
        act = self.then.pop(len(self.slept_s), None)
        if act is not None:
            act()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in (pace, replay):
        monkeypatch.setattr(module, "time", made)
    return made


def recorded(logs: Logs, *times_ms: int) -> CommitLog:
    log = logs.open()
    for time_ms in times_ms:
        log.append(b"%d" % time_ms, timestamp_ns=time_ms * MS)
    return log


def given(log: CommitLog, clock: Clock, **options: Any) -> list[tuple[bytes, int]]:
    """Return each value with the milliseconds since the first."""
    began_ns = clock.now_ns
    return [
        (record.value, (clock.now_ns - began_ns) // MS)
        for record in log.tailer().follow(timeout=0, **options)
    ]


def test_pause_between_records_equals_timestamp_difference(logs: Logs, clock: Clock) -> None:
    log = recorded(logs, 100, 100, 120, 1120)
    assert given(log, clock, speed=1) == [(b"100", 0), (b"100", 0), (b"120", 20), (b"1120", 1020)]


@pytest.mark.parametrize(("speed", "expected"), [(10, [0, 100, 300]), (0.5, [0, 2000, 6000])])
def test_pauses_are_divided_by_the_speed(
    logs: Logs, clock: Clock, speed: float, expected: list[int]
) -> None:
    log = recorded(logs, 0, 1000, 3000)
    assert [after for _, after in given(log, clock, speed=speed)] == expected


def test_timestamps_stepping_back_add_no_pause_and_repeat_none(logs: Logs, clock: Clock) -> None:
    log = recorded(logs, 500, 600, 200, 300, 600, 700)
    assert [after for _, after in given(log, clock, speed=1)] == [0, 100, 100, 100, 100, 200]


def test_no_pause_is_longer_than_max_pause(logs: Logs, clock: Clock) -> None:
    log = recorded(logs, 0, 10, 3_600_010, 3_600_020)
    assert [after for _, after in given(log, clock, speed=1, max_pause="200ms")] == [
        0,
        10,
        210,
        220,
    ]
    assert [after for _, after in given(log, clock, speed=1, max_pause=0)] == [0, 0, 0, 0]


def test_slow_consumer_gets_shorter_pauses_until_caught_up(logs: Logs, clock: Clock) -> None:
    log = recorded(logs, 0, 100, 200, 300, 400)
    began_ns = clock.now_ns
    after = []
    for record in log.tailer().follow(timeout=0, speed=1):
        after.append((clock.now_ns - began_ns) // MS)
        if record.value == b"100":
            clock.now_ns += 250 * MS
    assert after == [0, 100, 350, 350, 400]


def test_ctrl_c_in_a_pause_leaves_tailer_before_the_next_record(logs: Logs, clock: Clock) -> None:
    log = recorded(logs, 0, 1000)

    def interrupt() -> None:
        raise KeyboardInterrupt

    clock.then = {3: interrupt}
    tailer = log.tailer()
    following = tailer.follow(timeout=0, speed=1)
    assert next(following).value == b"0"
    with pytest.raises(KeyboardInterrupt):
        next(following)
    assert len(clock.slept_s) == 3
    # The next read waits for the rest of the pause.
    assert next(following).value == b"1000"
    assert clock.now_ns == 6_000 * MS


def test_close_ends_a_replay_pause(logs: Logs, clock: Clock) -> None:
    log = recorded(logs, 0, 3_600_000)
    clock.then = {2: log.close}
    assert [record.value for record in log.tailer().follow(speed=1)] == [b"0"]
    assert len(clock.slept_s) == 2


@pytest.mark.parametrize(
    "speed",
    [0, -1, True, "fast", float("nan"), float("inf"), 1e7, 10**400, 1j],
    ids=lambda speed: str(speed)[:8],
)
def test_invalid_speed_is_refused(logs: Logs, speed: Any) -> None:
    log = recorded(logs, 0)
    with pytest.raises(InvalidOptionError, match="speed must be a number from 1e-06 to 1e"):
        log.tailer().follow(speed=speed)


def test_max_pause_without_speed_or_not_a_duration_is_refused(logs: Logs) -> None:
    log = recorded(logs, 0)
    with pytest.raises(InvalidOptionError, match="also give speed="):
        log.tailer().follow(max_pause=1)
    wrong: Any
    for wrong in (-1, "soon", True):
        with pytest.raises(InvalidOptionError, match="max_pause must be a duration"):
            log.tailer().follow(speed=1, max_pause=wrong)
