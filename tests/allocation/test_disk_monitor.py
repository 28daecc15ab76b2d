"""A disk that fills up: a warning first, then appends are refused, until there is room again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from commitlog import CommitLog, Options
from commitlog.allocation import disk_monitor
from commitlog.allocation.disk_monitor import DiskMonitor
from commitlog.errors import DiskFullError, InvalidOptionError
from commitlog.log.parts import parts_of
from tests.setups import BY_HAND, SEGMENT, Logs, values


class Disk:
    """A file system whose free space the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free = 1 << 40
        monkeypatch.setattr(
            "commitlog.allocation.disk_monitor.free_bytes", lambda directory: self.free
        )
        monkeypatch.setattr("commitlog.log.figures.free_bytes", lambda directory: self.free)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def append_until_refused(log: CommitLog) -> list[bytes]:
    done = []
    for number in range(10_000):
        value = b"%05d" % number + b"." * 1000
        try:
            log.append(value)
        except DiskFullError:
            return done
        done.append(value)
    raise AssertionError("nothing was refused")


@pytest.mark.parametrize("pooled", [False, True], ids=["mapped", "pooled"])
def test_appends_stop_at_min_free_bytes_and_resume_with_room(
    logs: Logs, disk: Disk, pooled: bool
) -> None:
    more: dict[str, Any] = {"pool": logs.pool()} if pooled else {}
    log = logs.open(**BY_HAND, allocate_ahead=0, min_free_bytes="1MiB", **more)
    disk.free = (1 << 20) + SEGMENT - 1
    done = append_until_refused(log)
    assert len(done) > 50  # appends filled the current segment to its end
    assert log.stats().disk == "full"
    assert log.stats().free_disk_bytes == disk.free
    end = log.tail_position
    for _ in range(20):
        with pytest.raises(DiskFullError, match="min_free_bytes=1048576") as caught:
            log.append(done[0])
    assert caught.value.path == log.path
    assert log.tail_position == end
    log.flush()  # appended records can still be flushed
    assert values(log) == done
    disk.free += 1
    log.append(b"on")
    assert log.stats().disk == "low"
    log.flush()
    assert values(log) == [*done, b"on"]


def test_low_disk_space_warns_once_before_appends_stop(
    logs: Logs, disk: Disk, until: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "commitlog"):
        log = logs.open(warn_free_bytes="10MiB", min_free_bytes="1MiB")
        log.append(b"one")
        assert log.stats().disk == "fine"
        disk.free = 5 << 20
        until(lambda: log.stats().disk == "low")
        log.append(b"two")
        disk.free = 0
        append_until_refused(log)
        assert log.stats().disk == "full"
        disk.free = 1 << 30
        log.append(b"three")
        until(lambda: log.stats().disk == "fine")
    said = [
        record.levelname
        for record in caplog.records
        if "free" in record.message or "room" in record.message
    ]
    assert said == ["WARNING", "ERROR", "INFO"]


def test_default_warning_is_four_segments_above_the_limit(
    logs: Logs, disk: Disk, until: Callable[..., None]
) -> None:
    disk.free = (1 << 20) + 4 * SEGMENT
    log = logs.open(min_free_bytes="1MiB")
    log.append(b"one")
    assert log.stats().disk == "fine"
    disk.free -= 1
    until(lambda: log.stats().disk == "low")


def test_log_without_limit_appends_until_the_disk_is_full(logs: Logs, disk: Disk) -> None:
    disk.free = 0
    log = logs.open(**BY_HAND)
    for _ in range(3):
        log.append(b"one")
        log.roll()
    log.append(b"one")
    assert log.stats().disk != "full"


def test_stale_free_space_reading_does_not_clear_the_stop(
    logs: Logs, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The monitor reads the free space, and an append is refused before the monitor acts on the
    reading.
    """
    monitor = DiskMonitor(parts_of(logs.open(**BY_HAND)).directory, Options(min_free_bytes="1MiB"))
    refused: list[bool] = []

    def be_refused() -> None:
        with pytest.raises(DiskFullError):
            monitor.admit(SEGMENT)
        refused.append(True)

    appender = threading.Thread(target=be_refused)

    def read_and_be_overtaken(_directory: object) -> int:
        monkeypatch.setattr(disk_monitor, "free_bytes", lambda directory: 0)
        appender.start()
        appender.join(0.2)  # ends now, or waits for the monitor's lock
        return 1 << 40

    monkeypatch.setattr(disk_monitor, "free_bytes", read_and_be_overtaken)
    monitor.look()
    appender.join()
    assert refused == [True]
    assert monitor.state == "full"


def test_reader_stats_report_the_free_space(logs: Logs) -> None:
    logs.open().append(b"one")
    stats = logs.open(mode="r").stats()
    assert (stats.free_disk_bytes > 0, stats.disk) == (True, "fine")


@pytest.mark.parametrize("name", ["warn_free_bytes", "min_free_bytes"])
def test_invalid_free_bytes_option_is_refused_by_name(logs: Logs, name: str) -> None:
    for value in (-1, "much", 1.5, True):
        with pytest.raises(InvalidOptionError, match=f"{name} must be a size"):
            logs.open(**{name: value})
