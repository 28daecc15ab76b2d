"""The commit service: when it commits, and when it waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from commitlog.flush.commit_service import CommitService, pace
from commitlog.log.parts import parts_of
from tests.setups import BY_HAND, HEADER, Logs

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
