"""Workers that are killed at any moment lose no job, and finish none twice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import commitlog
from tests.queues.crowd import Crowd, fill

LONG = float(os.environ.get("COMMITLOG_LONG", "1"))


def crowd(path: Path, *, workers: int, kills: int, jobs: int, order: str, limit_s: float) -> None:
    log, numbers = path / "log", range(jobs)
    fill(log, numbers)
    with commitlog.queue(log, "crowd", order=order, backoff=0, max_attempts=100, lease="20s"):
        pass
    workers_of = Crowd(log, workers, seed=jobs)
    workers_of.run(kills, limit_s)
    workers_of.check(numbers, ordered=order == "key")


@pytest.mark.parametrize("order", ["none", "key"])
def test_killed_workers_lose_no_job(tmp_path: Path, order: str) -> None:
    crowd(tmp_path, workers=3, kills=12, jobs=600, order=order, limit_s=100)


@pytest.mark.long
@pytest.mark.parametrize("order", ["none", "key"])
def test_many_kills_lose_no_job(tmp_path: Path, order: str) -> None:
    kills = int(250 * LONG)
    crowd(tmp_path, workers=8, kills=kills, jobs=kills * 200, order=order, limit_s=1500)
