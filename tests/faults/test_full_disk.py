"""A full disk raises an error and never a signal; the log stays readable, and no position is given
twice.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commitlog import CommitLog
from commitlog.errors import DiskFullError
from commitlog.repair.verification import verify
from tests.faults import small_disk
from tests.faults.account import Account, read_all
from tests.faults.child import Child, Link, Report
from tests.faults.shim import Shim
from tests.faults.small_disk import FREED, FULL, Disk
from tests.faults.writers import APPENDED, close_log, open_log, value_of
from tests.setups import HEADER

Start = Callable[..., Child]
OVERCOME = "G"
POOLS: dict[str, dict[str, Any] | None] = {"mapped": None, "pooled": {}, "shm": {"backing": "shm"}}
THREADS = 3
GROWING = 8 << 20  # a segment that begins with fewer blocks
LARGE = b"v" * 30_000


def append_until_full(link: Link, log: CommitLog, session: int, first: int = 0) -> int:
    """Append until the disk is full; return the index of the refused record."""
    for index in itertools.count(first):
        try:
            position = log.append(value_of(session, index))
        except DiskFullError as error:
            if error.errno != errno.ENOSPC or error.path is None:
                raise
            return index
        link.say(APPENDED, session, index, position)
    raise AssertionError


def fill_and_free(link: Link, kind: str, point: str, pool: dict[str, Any] | None) -> None:
    disk = Disk(link, kind, point)
    log, made = open_log(str(disk.path / "log"), pool, {"flush": "async"})
    refused = 0
    positions: list[int] = []
    for _ in range(3):
        refused = log_while_full(link, disk, log, refused)
        disk.free()
        end = log.tail_position
        position = log.append(value_of(0, refused))
        assert position >= end
        link.say(APPENDED, 0, refused, position)
        positions.append(position)
        refused += 1
    assert log.stats().failed is None
    close_log(log, made)
    check_whole(disk.path / "log", refused)


def log_while_full(link: Link, disk: Disk, log: CommitLog, first: int) -> int:
    """Fill the disk, check that the log stays intact and readable, and return the index of the
    refused record.
    """
    disk.fill()
    refused = append_until_full(link, log, 0, first)
    end = log.tail_position
    for _ in range(50):
        assert append_until_full(link, log, 0, refused) == refused
    assert log.tail_position == end
    log.flush()
    assert log.flushed_position == end
    assert [mark.index for mark in read_all(log).values()] == list(range(refused))
    return refused


def check_whole(path: Path, count: int) -> None:
    log, made = open_log(str(path), None, {})
    assert [mark.index for mark in read_all(log).values()] == list(range(count))
    close_log(log, made)


def from_many_threads(link: Link, kind: str, point: str, pool: dict[str, Any] | None) -> None:
    """Several threads meet the full disk: each gets the error, and each continues once there is
    room.
    """
    disk = Disk(link, kind, point)
    log, made = open_log(str(disk.path / "log"), pool, {"flush": "async"})
    disk.fill()
    barrier = threading.Barrier(THREADS + 1)
    failures: list[BaseException] = []

    def work(session: int) -> None:
        try:
            refused = append_until_full(link, log, session)
            barrier.wait(20)
            barrier.wait(20)
            for index in range(refused, refused + 20):
                link.say(APPENDED, session, index, log.append(value_of(session, index)))
        except BaseException as error:  # noqa: BLE001 - it is raised again below
            failures.append(error)
            barrier.abort()

    threads = [threading.Thread(target=work, args=(session,)) for session in range(THREADS)]
    for thread in threads:
        thread.start()
    barrier.wait(20)
    link.say(OVERCOME)
    disk.free()
    barrier.wait(20)
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    log.flush()
    found = read_all(log)
    close_log(log, made)
    log, made = open_log(str(disk.path / "log"), None, {})
    assert read_all(log) == found
    for position, mark in found.items():
        link.say("S", mark.session, mark.index, position)
    close_log(log, made)


def grow_on_full_disk(link: Link, kind: str, point: str, pool: dict[str, Any] | None) -> None:
    """Fill the disk before each growth of the first segment and before the second segment is
    created, then read, verify and reopen the log.
    """
    disk = Disk(link, kind, point, 24 << 20)
    path = str(disk.path / "log")
    options = {"segment_size": GROWING} if pool is None else {}
    pool = None if pool is None else pool | {"buffer_size": GROWING, "buffers": 2}
    log, made = open_log(path, pool, options)
    done = [log.append(LARGE)]
    for blocks in (2 << 20, 4 << 20, GROWING):
        disk.fill()
        done += append_large_until_full(log)
        assert blocks - len(LARGE) - 16 <= log.tail_position <= blocks + HEADER
        for append in (append_claim, append_rows, append_batch):
            with pytest.raises(DiskFullError):
                append(log)
        log.flush()
        assert [record.position for record in log.tailer()] == done
        assert verify(path).sound
        if blocks < GROWING:
            close_log(log, made)
            log, made = open_log(path, pool, options)  # the disk is still full
            with pytest.raises(DiskFullError):
                log.append(LARGE)
        disk.free()
        done.append(log.append(LARGE))
    close_log(log, made)
    log, made = open_log(path, None, {"segment_size": GROWING})
    assert [record.position for record in log.tailer()] == done
    close_log(log, made)


def append_large_until_full(log: CommitLog) -> list[int]:
    """Append until the disk is full; return the positions of the records."""
    done: list[int] = []
    with contextlib.suppress(DiskFullError):
        while True:
            done.append(log.append(LARGE))
    return done


def append_claim(log: CommitLog) -> None:
    with log.claim(len(LARGE)):
        pass


def append_rows(log: CommitLog) -> None:
    log.append_array(np.zeros((2, len(LARGE)), np.uint8))


def append_batch(log: CommitLog) -> None:
    log.append_many([LARGE, LARGE])


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("kind", small_disk.kinds())
def test_full_disk_refuses_each_growth(
    kind: str, pool: str, run: Callable[..., list[Report]]
) -> None:
    run(grow_on_full_disk, kind, pool)


@pytest.fixture
def run(tmp_path: Path, start: Start, shim: Shim) -> Callable[..., list[Report]]:
    """Return a function that runs a child on a small disk and returns its reports."""

    def on_small_disk(target: Callable[..., None], kind: str, pool: str) -> list[Report]:
        options = (
            {"environment": shim.environment()}
            if kind == "shim"
            else {"launcher": small_disk.launcher()}
        )
        child = start(target, kind, str(tmp_path / "disk"), POOLS[pool], **options)
        reports = []
        while child.alive():
            for report in child.hear_some():
                reports.append(report)
                if report.kind in (FULL, FREED):
                    shim.fail("fallocate", errno.ENOSPC if report.kind == FULL else 0)
                    child.go_on()
        return reports + child.join()

    return on_small_disk


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("kind", small_disk.kinds())
def test_full_disk_refuses_appends_only(
    kind: str, pool: str, run: Callable[..., list[Report]]
) -> None:
    reports = run(fill_and_free, kind, pool)
    account = Account()
    account.note(report for report in reports if report.kind == APPENDED)
    assert [mark.index for mark in account.promised.values()] == list(range(len(account.promised)))
    assert list(account.promised) == sorted(account.promised)


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("kind", small_disk.kinds())
def test_full_disk_fails_every_thread_until_space_is_free(
    kind: str, pool: str, run: Callable[..., list[Report]]
) -> None:
    reports = run(from_many_threads, kind, pool)
    account = Account()
    account.note(report for report in reports if report.kind == APPENDED)
    seen = {
        report.position: (report.session, report.index) for report in reports if report.kind == "S"
    }
    assert seen == account.promised
