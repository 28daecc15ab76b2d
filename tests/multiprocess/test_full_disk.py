"""Several processes on a temporarily full disk: appends are refused, the tail does not move,
readers read, and appends resume.
"""

from __future__ import annotations

import errno
import gc
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog.errors import CommitLogError, DiskFullError
from tests.faults import image, small_disk
from tests.faults.account import Account
from tests.faults.child import Child, Link, Report
from tests.faults.shim import Shim
from tests.faults.small_disk import FREED, FULL, Disk
from tests.faults.writers import APPENDED, SEGMENT_SIZE, open_log, value_of

Start = Callable[..., Child]
REFUSED, RESUMED, DONE = "N", "M", "D"
WRITERS = 4
ROUNDS = 3


def append_through_full(link: Link, path: str, session: int) -> None:
    """In rounds: append until refused, be refused a hundred times more, wait for room, append a few
    records.
    """
    log, _ = open_log(path, None, {"flush": "none", "allocate_ahead": 0})
    index = 0
    for _ in range(ROUNDS):
        refused = 0
        while refused < 100:
            try:
                link.say(APPENDED, session, index, log.append(value_of(session, index)))
                index += 1
            except DiskFullError as error:
                assert error.errno == errno.ENOSPC  # noqa: PT017 - any other error is this child's failure as it is
                refused += 1
        link.say(REFUSED, session, index, log.tail_position)
        link.wait()
        for _ in range(20):
            link.say(APPENDED, session, index, log.append(value_of(session, index)))
            index += 1
        link.say(RESUMED, session, index, log.tail_position)
        link.wait()
    log.close()


def conduct(link: Link, kind: str, point: str) -> None:
    """In the mount namespace: fill and free the disk under the writers, and watch the tail and a
    reader.
    """
    disk = Disk(link, kind, point)
    path = disk.path / "log"
    log, _ = open_log(str(path), None, {"flush": "none", "allocate_ahead": 0})
    disk.fill()
    writers = [Child(append_through_full, str(path), session) for session in range(WRITERS)]
    account = Account()
    for turn in range(ROUNDS):
        if turn:
            disk.fill()
        hear_all(writers, REFUSED, account)
        check_full(path, account)
        disk.free()
        hear_all(writers, RESUMED, account)
    for writer in writers:
        writer.go_on()
        writer.join()
        writer.end()
    log.close()
    with commitlog.open(path) as log:
        account.check(log)
    link.say(DONE, 0, len(account.promised))


def hear_all(writers: list[Child], last: str, account: Account) -> None:
    """Release the waiting writers, and record their appends until each reports `last`."""
    for writer in writers:
        if account.promised or last == RESUMED:
            writer.go_on()
    for writer in writers:
        while (report := writer.hear(1)[0]).kind != last:
            account.note([report])


def check_full(path: Path, account: Account) -> None:
    """After a hundred refusals each: each writer passed the end at most once, and every
    acknowledged record can be read.
    """
    tail = image.cell(path, "tail") & 0xFFFFFFFF
    assert SEGMENT_SIZE <= tail <= SEGMENT_SIZE + (WRITERS + 1) * 1024
    for mode in ("r", "a"):
        with commitlog.open(path, mode) as log:
            assert account.promised.keys() <= {record.position for record in log.tailer()}
    for _ in range(3):
        with commitlog.open(path, flush="none") as log, pytest.raises(DiskFullError):
            log.append(b"newcomers are refused, too")
    assert image.cell(path, "tail") & 0xFFFFFFFF == tail
    assert image.temporaries(path) == []


def play(child: Child, shim: Shim) -> list[Report]:
    """Collect a child's reports to its successful end, and simulate the disk where the shim
    must.
    """
    reports = []
    while child.alive():
        for report in child.hear_some():
            reports.append(report)
            if report.kind in (FULL, FREED):
                shim.fail("fallocate", errno.ENOSPC if report.kind == FULL else 0)
                child.go_on()
    return reports + child.join()


def surroundings(kind: str, shim: Shim) -> dict[str, object]:
    return (
        {"environment": shim.environment()}
        if kind == "shim"
        else {"launcher": small_disk.launcher()}
    )


@pytest.mark.parametrize("kind", small_disk.kinds())
def test_full_disk_refuses_writers_until_space_returns(
    kind: str, tmp_path: Path, start: Start, shim: Shim
) -> None:
    child = start(conduct, kind, str(tmp_path / "disk"), **surroundings(kind, shim))
    assert play(child, shim)[-1].kind == DONE


def fill_before_each_open(link: Link, kind: str, point: str) -> None:
    """Open a log on a disk with room for some of its files only: an error each time, never a
    signal.
    """
    disk = Disk(link, kind, point)
    outcomes = set()
    for free in range(0, 60, 6):
        path = disk.path / f"log-{free}"
        # a handle not yet collected would keep the blocks of removed files allocated
        gc.collect()
        ballast = small_disk.fill(disk.path)
        os.truncate(ballast, max(0, ballast.stat().st_size - free * 4096))
        try:
            with commitlog.open(
                path, segment_size="64KiB", tuning=commitlog.Tuning(allocate_ahead=0)
            ) as log:
                for index in range(200):
                    log.append(value_of(0, index))
                outcomes.add("fits")
        except CommitLogError as error:
            outcomes.add(type(error).__name__)
        ballast.unlink()
        gc.collect()
        if path.exists():
            with commitlog.open(
                path, segment_size="64KiB", tuning=commitlog.Tuning(allocate_ahead=0)
            ) as log:
                found = list(log.tailer().values())
                assert found == [value_of(0, index) for index in range(len(found))]
                log.append(b"room")
            for file in path.iterdir():
                file.unlink()
    link.say(DONE, 0, outcomes == {"DiskFullError", "fits"})


@pytest.mark.parametrize("kind", [kind for kind in small_disk.kinds() if kind != "shim"])
def test_open_on_a_full_disk_raises_and_never_signals(
    kind: str, tmp_path: Path, start: Start, shim: Shim
) -> None:
    child = start(fill_before_each_open, kind, str(tmp_path / "disk"), **surroundings(kind, shim))
    reports = play(child, shim)
    assert reports[-1].kind == DONE
    assert reports[-1].index == 1
