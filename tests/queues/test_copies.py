"""A queue goes on on a promoted copy, and on a restored log."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import commitlog
import commitlog.errors
from commitlog import replication

LIMIT_S = 30.0


def until(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def copied_up_to(path: Path, name: str = "mailer") -> int:
    """Return the end of the copy of a queue's state."""
    try:
        with commitlog.open(path / "queues" / name / "state", "r") as state:
            return state.flushed_position
    except commitlog.errors.LogNotFoundError:
        return -1


def values(path: Path, name: str = "mailer") -> list[bytes]:
    """Return all jobs that can be taken."""
    with commitlog.queue(path, name) as jobs:
        return [job.value for job in jobs.taking(timeout=0.5)]


def test_promoted_copy_goes_on_where_the_queue_was(tmp_path: Path) -> None:
    log, copy = tmp_path / "jobs", tmp_path / "copy"
    with commitlog.queue(log, "mailer", sync=True) as jobs:
        for number in range(100):
            jobs.put(b"%d" % number)
        for job in jobs.take_many(50):
            job.accept()
        (poison,) = jobs.take_many(1)
        poison.reject("no such address")
        jobs.put(b"later", after="1h")
        with replication.serve(log) as server, replication.follow(server.url(), copy) as follower:
            assert follower.wait(jobs._parts.log.flush(), LIMIT_S)
            end = jobs._parts.state.log.flush()
            until(lambda: copied_up_to(copy) >= end)
    replication.promote(copy)
    assert values(copy) == [b"%d" % number for number in range(51, 100)]
    with commitlog.queue(copy, "mailer") as jobs:
        (letter,) = jobs.dead()
        assert letter.value == b"50" and letter.reason == "no such address"
