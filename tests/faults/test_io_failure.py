"""A failing disk, simulated with EIO by the shim: the log has failed for every process until it is
opened again.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import resource
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog.base.file_system import file_system_type
from commitlog.errors import (
    CommitLogError,
    DiskFullError,
    IOFailureError,
    LogFailedError,
    SyncTimeoutError,
)
from commitlog.log.open_log import OpenLog
from tests.faults import image
from tests.faults.account import Account, read_all
from tests.faults.child import Child, Link
from tests.faults.image import HEADER_SIZE
from tests.faults.shim import Shim
from tests.faults.writers import APPENDED, SEGMENT_SIZE, close_log, open_log, value_of

Start = Callable[..., Child]
FAILED, REFUSED, CLOSED = "E", "N", "Z"
BEFORE = 60
TMPFS = 0x01021994
QUIET = {
    "flush": "none",
    "commit_interval": 60,
    "commit_thorough_interval": 60,
    "checkpoint_interval": 60,
}
POOLS: dict[str, dict[str, Any] | None] = {"mapped": None, "pooled": {}, "shm": {"backing": "shm"}}


def fail_in_flush(link: Link, path: str, pool: dict[str, Any] | None) -> None:
    """Sync some records, append some, wait until the disk fails, and try every call that
    acknowledges.
    """
    log, made = open_log(path, pool, QUIET)
    for index in range(BEFORE):
        link.say(APPENDED, 0, index, log.append(value_of(0, index), sync=index < BEFORE // 2))
    link.wait()
    expect_failure(link, lambda: log.append(value_of(0, BEFORE), sync=True))
    link.say(FAILED)
    link.wait()  # the disk works again, which must change nothing
    for attempt in range(3):
        expect_failure(link, log.flush)
        expect_failure(link, lambda: log.append(b"refused"))
        expect_failure(link, lambda: log.append(b"refused", sync=True))
        expect_failure(link, lambda: log.append_many([b"refused"] * 3))
        expect_failure(link, lambda: log.claim(10))
        assert log.stats().failed is not None, attempt
    assert log.flushed_position <= image.cell(Path(path), "appended")
    expect_failure(link, log.close)
    assert log.closed
    log.close()
    if made is not None:
        made.close()
    link.say(CLOSED)


def expect_failure(link: Link, call: Callable[[], Any]) -> None:
    with pytest.raises(LogFailedError) as caught:
        call()
    assert caught.value.errno == errno.EIO
    link.say(REFUSED)


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("call", ["msync"])
def test_failed_flush_fails_the_log_until_it_is_reopened(
    path: Path, call: str, pool: str, start: Start, shim: Shim
) -> None:
    child = start(fail_in_flush, str(path), POOLS[pool], environment=shim.environment())
    reports = child.hear(BEFORE)
    account = Account()
    account.note(reports)
    shim.fail(call, errno.EIO)
    child.go_on()
    while child.hear(1)[0].kind != FAILED:
        pass
    assert image.cell(path, "failed") == errno.EIO
    shim.fail(call, 0)
    child.go_on()
    rest = child.join()
    assert sum(report.kind == REFUSED for report in rest) == 16
    assert rest[-1].kind == CLOSED
    reopen_after_failure(path, account, reports[BEFORE // 2].position)


def reopen_after_failure(path: Path, account: Account, synced: int) -> None:
    """Check that every synced record is there and that the log works again."""
    account.promised = {
        position: mark for position, mark in account.promised.items() if position < synced
    }
    log, made = open_log(str(path), None, {})
    assert log.stats().failed is None
    account.check(log)
    for index in range(100):
        log.append(value_of(3, index), sync=True)
    account.check(log)
    close_log(log, made)
    log, made = open_log(str(path), {}, {"flush": "sync"})
    log.append(value_of(4, 0))
    account.check(log)
    close_log(log, made)


def commit_fails(link: Link, path: str) -> None:
    """A commit larger than the copy limit uses pwrite."""
    log, made = open_log(path, {"buffer_size": 1 << 20}, QUIET)
    link.say(APPENDED, 0, 0, log.append(value_of(0, 0), sync=True))
    link.wait()
    for index in range(1, 400):
        if not appended(log, value_of(0, index)):
            break
    expect_failure(link, log.commit)
    expect_failure(link, lambda: log.append(b"refused"))
    expect_failure(link, log.close)
    if made is not None:
        made.close()


def appended(log: commitlog.CommitLog, value: bytes) -> bool:
    """Return whether the append succeeded; the commit service may have met the failure first."""
    try:
        log.append(value)
    except LogFailedError:
        return False
    return True


def test_failed_commit_fails_the_log(path: Path, start: Start, shim: Shim) -> None:
    child = start(commit_fails, str(path), environment=shim.environment())
    child.hear(1)
    shim.fail("pwrite", errno.EIO)
    child.go_on()
    child.join()
    with commitlog.open(path) as log:
        assert log.read(4096).value == value_of(0, 0)
        assert log.stats().failed is None
        log.append(b"more", sync=True)


def go_on_beside(link: Link, path: str, session: int) -> None:
    """Append on request, and report whether it was acknowledged."""
    log, _ = open_log(path, None, QUIET)
    link.say("O", session)
    for index in range(3):
        link.wait()
        try:
            link.say(APPENDED, session, index, log.append(value_of(session, index), sync=True))
        except LogFailedError:
            link.say(REFUSED, session, index)
    link.wait()
    try:
        log.close()
    except LogFailedError:
        link.say(CLOSED, session)


def test_failure_in_one_process_fails_the_log_for_all(path: Path, start: Start, shim: Shim) -> None:
    """The disk fails in one of two processes; the other, whose calls would succeed, acknowledges
    nothing more either.
    """
    failing = start(go_on_beside, str(path), 1, environment=shim.environment())
    failing.hear(1)
    other = start(go_on_beside, str(path), 2)
    other.hear(1)
    account = Account()
    for child in (failing, other):
        child.go_on()
        account.note(child.hear(1))
    shim.fail("msync", errno.EIO)
    failing.go_on()
    assert failing.hear(1)[0].kind == REFUSED
    shim.fail("msync", 0)
    for child in (other, failing, other):
        child.go_on()
        assert child.hear(1)[0].kind == REFUSED
    with commitlog.open(path, "r") as log:
        account.check(log)
    with pytest.raises(LogFailedError), commitlog.open(path) as log:
        log.append(b"a handle that joins the failed log has failed, too", sync=True)
    for child in (failing, other):
        child.go_on()
        assert child.hear(1)[0].kind == CLOSED
        child.join()
    reopen_after_failure(path, account, max(account.promised) + 1)


def append_large(link: Link, path: str) -> None:
    """Append 3 MiB to one segment without a flush, then wait for the kill."""
    log, _ = open_log(path, None, QUIET | {"segment_size": 8 << 20})
    log.append_many([bytes([index]) * 100_000 for index in range(30)], sync=False)
    link.say("O", 0, 0, log.tail_position)
    link.wait()


def dirtied_bytes() -> int:
    """Return the bytes of files that this process has dirtied, from /proc."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes"))


def recover_and_count(link: Link, path: str) -> None:
    """Open, report what recovery wrote, and close without an append."""
    before = dirtied_bytes()
    log, _ = open_log(
        path, None, QUIET | {"segment_size": 8 << 20, "allocate_ahead": 0, "prefault": False}
    )
    link.say("O", dirtied_bytes() - before, 0, log.tail_position)
    link.wait()
    log.close()


def test_recovery_rewrites_the_bytes_above_the_checkpoint(
    path: Path, start: Start, shim: Shim
) -> None:
    """After a failed writeback Linux marks such pages clean, so recovery dirties and
    flushes them before it exposes the log.
    """
    child = start(append_large, str(path))
    end = child.hear(1)[0].position
    child.kill()
    for file in path.iterdir():
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
    child = start(recover_and_count, str(path), environment=shim.environment())
    report = child.hear(1)[0]
    assert report.position == end
    assert shim.flushed_bytes >= end - HEADER_SIZE
    if file_system_type(str(path)) != TMPFS:  # a tmpfs does not count them
        assert report.session >= end - HEADER_SIZE
    child.go_on()
    child.join()


def test_flush_failure_in_open_makes_next_open_recover_again(
    path: Path, start: Start, shim: Shim
) -> None:
    child = start(fail_in_flush, str(path), None)
    account = Account()
    account.note(child.hear(BEFORE))
    child.kill()
    for call in ("msync", "fsync", "fdatasync", "pwrite"):
        shim.fail(call, errno.EIO)
        child = start(open_refused, str(path), environment=shim.environment())
        child.join()
        shim.fail(call, 0)
        child.end()
    reopen_after_failure(path, account, max(account.promised) + 1)


def open_refused(link: Link, path: str) -> None:
    """Check that open raises a commitlog error with EIO."""
    with pytest.raises(CommitLogError) as caught:
        open_log(path, None, {})
    assert isinstance(caught.value, OSError)
    assert caught.value.errno == errno.EIO
    link.say(REFUSED)


def test_segment_that_cannot_be_synced_is_not_used(path: Path, start: Start, shim: Shim) -> None:
    """The fsync of the next segment fails: the roll is refused, no record is lost, and a later roll
    succeeds.
    """
    child = start(roll_on_failing_disk, str(path), environment=shim.environment())
    account = Account()
    account.note(child.hear(1))
    shim.fail("fsync", errno.EIO)
    child.go_on()
    account.note(iter_until(child, FAILED))
    shim.fail("fsync", 0)
    child.go_on()
    account.note(report for report in child.join() if report.kind == APPENDED)
    log, made = open_log(str(path), None, {})
    account.check(log)
    close_log(log, made)


def iter_until(child: Child, kind: str) -> list[Any]:
    reports = [child.hear(1)[0]]
    while reports[-1].kind != kind:
        reports.append(child.hear(1)[0])
    return reports[:-1]


def append_all(link: Link, log: commitlog.CommitLog, indexes: Iterable[int]) -> None:
    for index in indexes:
        link.say(APPENDED, 0, index, log.append(value_of(0, index)))


def roll_on_failing_disk(link: Link, path: str) -> None:
    log, made = open_log(path, None, {"flush": "async", "allocate_ahead": 0})
    link.say(APPENDED, 0, 0, log.append(value_of(0, 0)))
    link.wait()
    indexes = itertools.count(1)
    with pytest.raises(IOFailureError) as caught:
        append_all(link, log, indexes)
    assert caught.value.errno == errno.EIO
    refused = next(indexes) - 1
    assert refused * 700 > SEGMENT_SIZE // 2
    link.say(FAILED)
    link.wait()
    append_all(link, log, range(refused, refused + 200))
    close_log(log, made)


def run_out_of_descriptors() -> list[int]:
    """Take every file descriptor that this process may have."""
    taken = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    with contextlib.suppress(OSError):
        while True:
            taken.append(os.open("/dev/null", os.O_RDONLY))
    return taken


def go_on_without_descriptors(
    link: Link, path: str, flush: str, pool: dict[str, Any] | None
) -> None:
    """Roll and close without a free descriptor: the roll fails with a transient error, the close
    succeeds.
    """
    log, made = open_log(path, pool, {"flush": flush, "allocate_ahead": 0, "prefault": False})
    link.say(APPENDED, 0, 0, log.append(value_of(0, 0), sync=True))
    taken = run_out_of_descriptors()
    indexes = itertools.count(1)
    with pytest.raises(IOFailureError) as caught:
        append_all(link, log, indexes)
    assert caught.value.errno == errno.EMFILE
    refused = next(indexes) - 1
    for call in (log.prune, log.tailers, lambda: log.tailer(name="reader")):
        with contextlib.suppress(CommitLogError):
            call()
    os.close(taken.pop())
    os.close(taken.pop())
    append_all(link, log, range(refused, refused + 3))
    run_out_of_descriptors()
    close_log(log, made)
    assert log.closed


@pytest.mark.parametrize(("flush", "pool"), [("async", None), ("none", None), ("none", {})])
def test_close_without_descriptors_closes_everything(
    path: Path, flush: str, pool: dict[str, Any] | None, start: Start
) -> None:
    child = start(go_on_without_descriptors, str(path), flush, pool)
    account = Account()
    account.note(child.join())
    with commitlog.open(path) as log:
        account.check(log)


def wait_for_slow_disk(link: Link, path: str, timeout_s: float) -> None:
    """Sync one record after several segments that are not flushed."""
    log, _ = open_log(path, None, QUIET | {"sync_timeout": timeout_s})
    log.append_many([bytes(1000)] * 300, sync=False)
    link.say("O")
    link.wait()
    with pytest.raises(SyncTimeoutError):
        log.append(b"late", sync=True)
    link.say("T")
    link.wait()
    log.flush(60)
    log.close()


def test_leader_stops_at_its_sync_timeout(path: Path, start: Start, shim: Shim) -> None:
    """The current system call cannot be interrupted; the leader starts no other one afterwards."""
    child = start(wait_for_slow_disk, str(path), 0.05, environment=shim.environment())
    child.hear(1)
    before = shim.count("msync")
    shim.delay("msync", 100_000)
    child.go_on()
    child.hear(1)
    shim.delay("msync", 0)
    assert shim.count("msync") - before <= 1
    child.go_on()
    child.join()


def test_unexpected_error_of_a_roll_is_raised(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a roll behind an append fails with an OSError, the next append raises it; any other
    exception is a bug and is raised at once.
    """
    log, _ = open_log(str(path), None, QUIET | {"allocate_ahead": 0})
    frame = (SEGMENT_SIZE - HEADER_SIZE) // 8

    def broken(self: OpenLog, number: int) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(OpenLog, "roll_from", broken)
    for _ in range(7):
        log.append(bytes(frame - 16))
    with pytest.raises(ZeroDivisionError):
        log.append(bytes(frame - 16))  # reaches the segment's end
    monkeypatch.undo()
    log.close()


def test_unwritable_lock_file_refuses_roll_and_loses_no_buffer(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a buffer's name in the lock file, a kill would lose its records; the roll fails with
    a transient error.
    """
    log, made = open_log(str(path), {"backing": "shm"}, QUIET)
    assert made is not None

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for index in range(50):
        log.append(value_of(0, index))
    log.flush()
    monkeypatch.setattr(os, "pwrite", full)
    indexes = itertools.count(50)
    with pytest.raises(DiskFullError):
        append_while(log, indexes)
    refused = next(indexes) - 1
    for _ in range(10):
        with pytest.raises(DiskFullError):
            log.append(value_of(0, refused))
    monkeypatch.undo()
    for index in range(refused, 900):
        log.append(value_of(0, index))
    log.commit()
    assert [mark.index for mark in read_all(log).values()] == list(range(900))
    log.close()
    assert made.available == made.buffers
    made.close()


def append_while(log: commitlog.CommitLog, indexes: Iterable[int]) -> None:
    for index in indexes:
        log.append(value_of(0, index))
