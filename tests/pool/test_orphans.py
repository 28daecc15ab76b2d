"""Buffers of a killed pool that no log refers to."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest

from commitlog.base.later_log import LaterLog
from commitlog.pool import TransientStorePool
from commitlog.pool.shm_survey import discard, sweep_orphans
from commitlog.pool.transient_store_pool import buffers_of

DYING_POOL = """
import os, signal, sys
from commitlog.base.later_log import LaterLog
from commitlog.pool import TransientStorePool
pool = TransientStorePool(buffers=2, buffer_size="64KiB", backing="shm", lock_memory="off")
pool._set.borrow("a log").bind(bytes.fromhex(sys.argv[1]), 0, 7)
print(*pool._set.shm_names, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def age(name: str) -> None:
    """Make a buffer older than the grace period."""
    os.utime(f"/dev/shm{name}", (0, 0))


@pytest.fixture
def left_behind() -> Iterator[list[str]]:
    """Names of two buffers of a killed pool: one bound to a log's segment, one free."""
    done = subprocess.run(
        [sys.executable, "-c", DYING_POOL, uuid.uuid4().hex],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    names = done.stdout.split()
    assert len(names) == 2
    yield names
    for name in names:
        discard(name)


def exists(name: str) -> bool:
    return os.path.exists(f"/dev/shm{name}")


def test_sweep_removes_free_orphans_and_keeps_those_with_records(
    left_behind: list[str],
) -> None:
    for name in left_behind:
        age(name)
    sweep_orphans(LaterLog(logging.getLogger()))
    assert sorted(exists(name) for name in left_behind) == [False, True]


def test_sweep_keeps_a_recent_orphan(left_behind: list[str]) -> None:
    sweep_orphans(LaterLog(logging.getLogger()))
    assert all(exists(name) for name in left_behind)


def test_sweep_keeps_free_buffers_of_a_live_pool() -> None:
    with TransientStorePool(
        buffers=2, buffer_size="64KiB", backing="shm", lock_memory="off"
    ) as pool:
        for name in buffers_of(pool).shm_names:
            age(name)
        sweep_orphans(LaterLog(logging.getLogger()))
        assert all(exists(name) for name in buffers_of(pool).shm_names)


def test_new_shared_pool_sweeps_orphans(left_behind: list[str]) -> None:
    for name in left_behind:
        age(name)
    with TransientStorePool(buffers=1, buffer_size="64KiB", backing="shm", lock_memory="off"):
        assert sorted(exists(name) for name in left_behind) == [False, True]
