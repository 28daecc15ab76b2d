"""The flush service: what becomes durable without a call, what an append waits for, and failures.
The commit service: when it commits, and when it waits.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import commitlog
from commitlog.errors import LogFailedError
from commitlog.flush.flush_service import CommitService, FlushService, pace
from commitlog.log.parts import parts_of
from tests.setups import BY_HAND, HEADER, Logs, Setup


@pytest.mark.parametrize("flush", ["async", "sync", "none"])
def test_flush_none_starts_no_flush_service(logs: Logs, flush: Any) -> None:
    services = parts_of(logs.open(flush=flush)).writer.services
    assert any(isinstance(service, FlushService) for service in services) == (flush != "none")


@pytest.mark.parametrize("backing", ["mapped", "anonymous", "shm"])
def test_async_log_is_flushed_in_the_background(
    logs: Logs, until: Callable[..., None], backing: Any
) -> None:
    log = logs.open_as(
        Setup("async", backing),
        flush_interval=0.002,
        flush_least_pages=1,
        commit_interval=0.002,
        commit_least_pages=0,
    )
    log.append_many([bytes(1000)] * 10)
    until(lambda: log.flushed_position > HEADER)


def test_few_bytes_are_flushed_at_the_thorough_interval(
    logs: Logs, until: Callable[..., None]
) -> None:
    log = logs.open(**{**BY_HAND, "flush_interval": 0.002, "flush_thorough_interval": 0.03})
    log.append(b"little")
    until(lambda: log.stats().flushes > 0)
    assert log.flushed_position == log.tail_position
    assert log.stats().flushes == 1


@pytest.mark.parametrize("backing", ["mapped", "anonymous", "shm"])
def test_reader_waiting_for_flushed_makes_the_service_flush(logs: Logs, backing: Any) -> None:
    paces = {**BY_HAND, "flush_interval": 0.002, "commit_interval": 0.002, "commit_least_pages": 0}
    log = logs.open_as(Setup("async", backing), **paces)
    with commitlog.open(log.path, "r") as other:
        tailer = other.tailer(visibility="flushed")
        log.append(b"little")
        assert tailer.read(timeout=30).value == b"little"
        assert log.stats().flushes == 1
        log.append(b"unwaited")
    assert log.flushed_position < log.tail_position


@pytest.mark.parametrize("backing", ["mapped", "anonymous", "shm"])
def test_flush_none_flushes_only_on_call(logs: Logs, backing: Any) -> None:
    log = logs.open_as(
        Setup("none", backing),
        flush_interval=0.001,
        flush_least_pages=0,
        commit_interval=0.001,
        commit_least_pages=0,
    )
    tail = log.append_array(np.zeros((4000, 16), dtype=np.uint8))[-1]
    assert log.flushed_position == HEADER
    assert log.stats().flushes == 0
    assert log.flush() > tail


@pytest.mark.parametrize("backing", ["mapped", "anonymous", "shm"])
def test_waiting_appenders_share_flushes(logs: Logs, backing: Any) -> None:
    log = logs.open_as(Setup("sync", backing), **BY_HAND)
    start = threading.Barrier(8)

    def append() -> None:
        start.wait()
        for _ in range(25):
            position = log.append(bytes(100))
            assert log.flushed_position > position

    with ThreadPoolExecutor(8) as pool:
        for appending in [pool.submit(append) for _ in range(8)]:
            appending.result()
    stats = log.stats()
    assert stats.syncs == 200
    assert stats.flushes <= 200
    assert stats.flushed_bytes == log.tail_position - HEADER


def test_sync_batch_waits_once(logs: Logs) -> None:
    log = logs.open(flush="sync", **BY_HAND)
    log.append_many([b"x"] * 500)
    log.append_array(np.zeros((500, 8), dtype=np.uint8))
    assert log.stats().syncs == 2
    assert log.flushed_position == log.tail_position


def test_sync_argument_overrides_the_flush_mode(logs: Logs) -> None:
    log = logs.open(flush="sync", **BY_HAND)
    log.append(b"unwaited", sync=False)
    assert log.flushed_position == HEADER
    with log.claim(3, sync=False) as claim:
        claim.buffer[:] = b"too"
    assert log.flushed_position == HEADER
    log.append(b"waited")
    assert log.flushed_position == log.tail_position


def test_failure_is_final_for_all_handles(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup, **BY_HAND)
    log.append(b"acknowledged")
    log.flush()
    reader = logs.open(mode="r")
    log.append(b"in doubt", sync=False)
    parts_of(log).engine.fail(errno.EIO)
    attempts: list[Callable[[], object]] = [
        lambda: log.append(b"x"),
        lambda: log.append_many([b"x"]),
        lambda: log.claim(5),
        lambda: log.append_array(np.zeros((1, 8))),
        log.flush,
        log.commit,
        log.roll,
        log.close,
    ]
    for attempt in attempts:
        with pytest.raises(LogFailedError, match="Input/output error") as caught:
            attempt()
        assert caught.value.errno == errno.EIO
    assert log.closed
    assert log.stats().failed == "Input/output error"
    assert list(reader.tailer(visibility="flushed").values()) == [b"acknowledged"]
    reader.close()
    if setup.pooled:
        assert logs.pool(setup.backing).available == logs.pool(setup.backing).buffers
    again = logs.open_as(setup)
    assert list(again.tailer(visibility="flushed").values())[:1] == [b"acknowledged"]
    again.append(b"mended")
    assert again.stats().failed is None


# --- the commit service -----------------------------------------------------------------------

NEVER: dict[str, Any] = {**BY_HAND, "flush": "none"}


def test_pace_converts_options_to_nanoseconds_and_bytes() -> None:
    assert pace(0.5, 10, 4) == (500_000_000, 10_000_000_000, 16384)


@pytest.mark.parametrize("backing", ["anonymous", "shm"])
def test_enough_bytes_are_committed_at_the_interval(
    logs: Logs, until: Callable[..., None], backing: str
) -> None:
    log = logs.open(
        pool=logs.pool(backing), **{**NEVER, "commit_interval": 0.002, "commit_least_pages": 1}
    )
    log.append(bytes(100))
    rounds = log.stats().commits
    log.append(bytes(4096))
    until(lambda: log.committed_position == log.tail_position)
    until(lambda: log.stats().commits > rounds)  # counted after the commit
    assert log.stats().committed_bytes == log.tail_position - HEADER


def test_few_bytes_are_committed_at_the_thorough_interval(
    logs: Logs, until: Callable[..., None]
) -> None:
    log = logs.open(
        pool=logs.pool(),
        **{
            **NEVER,
            "commit_interval": 0.002,
            "commit_thorough_interval": 0.05,
            "commit_least_pages": 100,
        },
    )
    log.append(b"little")
    until(lambda: log.committed_position == log.tail_position)


def test_many_appends_wake_the_commit_service(logs: Logs, until: Callable[..., None]) -> None:
    log = logs.open(pool=logs.pool(buffers=5), **{**NEVER, "commit_least_pages": 4})
    log.append_array(np.zeros((2500, 16), dtype=np.uint8))  # more than a quarter of a segment
    until(lambda: log.committed_position > HEADER)


def test_long_interval_leaves_commits_to_the_caller(logs: Logs) -> None:
    log = logs.open(pool=logs.pool(), **NEVER)
    log.append_array(np.zeros((1000, 16), dtype=np.uint8))
    assert log.committed_position == HEADER
    assert log.stats().uncommitted_bytes == 32000
    assert log.commit(HEADER + 32)
    assert log.committed_position > HEADER
    assert log.stats().unflushed_bytes == 32000


def test_only_pooled_logs_have_a_commit_service(logs: Logs) -> None:
    def has(log: Any) -> bool:
        return any(isinstance(service, CommitService) for service in parts_of(log).writer.services)

    assert not has(logs.open("mapped"))
    assert has(logs.open("pooled", pool=logs.pool()))
