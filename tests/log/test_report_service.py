"""Messages of a log to the `commitlog` logger."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog.log import report_service
from commitlog.log.parts import parts_of
from commitlog.log.report_service import ReportService
from tests.log_files import numbered
from tests.setups import BY_HAND, SEGMENT, Logs

Until = Callable[..., None]
Said = list[tuple[str, str]]


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[int], Said]:
    """Return a function that lists the messages at a level or above, as level and text."""
    caplog.set_level(logging.DEBUG, "commitlog")
    return lambda level: [
        (record.levelname, record.getMessage())
        for record in caplog.records
        if record.levelno >= level
    ]


def without_slow_flushes(said: Said) -> Said:
    """Return the messages without the warnings of slow flushes."""
    return [(level, message) for level, message in said if "took longer than" not in message]


def test_open_and_close_log_at_info_and_rolls_at_debug(
    logs: Logs, said: Callable[[int], Said]
) -> None:
    log = logs.open(**BY_HAND)
    log.append_many([bytes(8000)] * 10)
    end = log.tail_position
    log.close()
    with logs.open(pool=logs.pool(), flush="sync"):
        pass
    assert without_slow_flushes(said(logging.INFO)) == [
        ("INFO", f"{log.path}: opened for writing (mapped, flush='async'), ends at position 4096"),
        ("INFO", f"{log.path}: closed"),
        ("INFO", f"{log.path}: opened for writing (pooled, flush='sync'), ends at position {end}"),
        ("INFO", f"{log.path}: closed"),
    ]
    assert ("DEBUG", f"{log.path}: rolled to the segment at position {SEGMENT}") in said(
        logging.DEBUG
    )


def test_recovery_logs_rolled_back_claims_and_a_summary(
    tmp_path: Path, said: Callable[[int], Said]
) -> None:
    path = tmp_path / "log"
    child = os.fork()
    if child == 0:
        log = commitlog.open(path, segment_size=SEGMENT)
        log.append_many(numbered(5))
        claim = log.claim(64)
        claim.__enter__()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    commitlog.open(path).close()
    told = without_slow_flushes(said(logging.INFO))
    assert told[0][0] == "WARNING"
    assert "the claim at position 4256, 80 bytes, was rolled back" in told[0][1]
    assert told[1] == (
        "INFO",
        f"recovered {path} (kept): it ends at 4336, 1 claims rolled back, 0 buffers taken over",
    )


@pytest.fixture
def no_other_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence the logs' own report services, which run once a second."""
    monkeypatch.setattr(report_service, "_ROUND_S", 3600)


@pytest.mark.usefixtures("no_other_reports")
def test_slow_flushes_are_warned_of_at_once_then_per_minute(
    logs: Logs, said: Callable[[int], Said]
) -> None:
    log = logs.open(**BY_HAND)
    parts_of(log).engine.note_latency("flush", 2_000_000_000)
    service = ReportService(parts_of(log).engine)
    service.look(0.0)
    assert said(logging.WARNING) == []  # latencies from before the service began do not count
    parts_of(log).engine.note_latency("flush", 400_000_000)
    service.look(1.0)
    assert said(logging.WARNING) == []
    for second in range(2, 100):
        parts_of(log).engine.note_latency("flush", 3_000_000_000)
        service.look(float(second))
    first, then = [message for level, message in said(logging.WARNING) if level == "WARNING"]
    assert first.startswith(
        f"{log.path}: 1 flushes took longer than 0.5 s, the longest so far 3.000 s"
    )
    assert then.startswith(f"{log.path}: 60 flushes took longer than 0.5 s")


@pytest.mark.usefixtures("no_other_reports")
def test_rolled_back_claim_is_reported_by_owner_and_resolver(
    logs: Logs, said: Callable[[int], Said], until: Until
) -> None:
    slow, other = logs.open(**BY_HAND), logs.open(claim_timeout="20ms", **BY_HAND)
    reports = [ReportService(parts_of(slow).engine), ReportService(parts_of(other).engine)]
    claim = slow.claim(64)
    claim.__enter__()
    until(lambda: other.appended_position == other.tail_position)
    for report in reports:
        report.look(0.0)
    warnings = [message for level, message in said(logging.WARNING) if "already" not in message]
    assert [message.partition(":")[2] for message in warnings] == [
        " other handles rolled back 1 claims of this process: it was stopped or too slow",
        (
            " 1 claims were rolled back: their owners died, or kept them open for longer than the "
            "claim timeout"
        ),
    ]
    with pytest.raises(commitlog.errors.RolledBackError):
        claim.__exit__(None, None, None)


def test_failure_is_logged_once(logs: Logs, said: Callable[[int], Said], until: Until) -> None:
    log = logs.open(flush_interval="1ms")
    parts_of(log).engine.fail(5)
    until(lambda: len(said(logging.ERROR)) > 0)
    with pytest.raises(commitlog.CommitLogError):
        log.close()
    ((level, message),) = said(logging.ERROR)
    assert (
        level,
        message.startswith(f"{log.path}: the log has failed (Input/output error): "),
    ) == ("ERROR", True)


def test_forked_child_does_not_report_the_parents_latencies(
    logs: Logs, said: Callable[[int], Said]
) -> None:
    log = logs.open(**BY_HAND)
    parts_of(log).engine.note_latency("flush", 2_000_000_000)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            log.append(b"one")
            log.close()
            status = 2 if any(level == "WARNING" for level, _ in said(logging.WARNING)) else 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
