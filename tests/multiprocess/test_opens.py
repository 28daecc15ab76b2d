"""Processes that open a log beside others: many at once, beside writing, stopped or recovering
ones, after a dead recoverer, and with a full slot table.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import signal
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog._kernel.memory import SLOTS, STATE_READY, STATE_RECOVERING
from commitlog.base.life_lock import LifeLock
from commitlog.errors import LogLockedError, OpenTimeoutError
from commitlog.log.parts import parts_of
from tests.faults import image
from tests.faults.account import Account
from tests.faults.child import Child, Link
from tests.faults.writers import APPENDED, OPENED, How, open_log, value_of, write_some
from tests.setups import tuned
from tests.steps import die_at, replace_hook

Start = Callable[..., Child]
Until = Callable[..., None]
STEP = "S"
OPTIONS = {"allocate_ahead": 0, "prefault": False, "flush": "none", "wait_for_log": 60}
SLOT_LOCK_AT = 1 << 32


def append_together(link: Link, path: str, session: int, count: int) -> None:
    """Open, append and close repeatedly, at the same time as others."""
    link.say(OPENED, session)
    link.wait()
    index = 0
    for _ in range(count):
        with commitlog.open(path, segment_size="64KiB", **tuned(OPTIONS)) as log:
            for _ in range(5):
                link.say(APPENDED, session, index, log.append(value_of(session, index)))
                index += 1


@pytest.mark.parametrize("there", [False, True], ids=["new", "of another boot"])
def test_concurrent_opens_create_or_recover_the_log_once(
    path: Path, there: bool, start: Start
) -> None:
    """The log is created or recovered once, and each process gets in, repeatedly."""
    account = Account()
    if there:
        writer = start(write_some, str(path), 99, 50, How(None, {}))
        account.note(report for report in writer.hear(51) if report.kind == APPENDED)
        writer.kill()
        image.forget_boot(path)
    children = [start(append_together, str(path), session, 4) for session in range(12)]
    for child in children:
        child.hear(1)
    for child in children:
        child.go_on()
    for child in children:
        account.note(child.join())
    assert len(account.promised) == 12 * 20 + (50 if there else 0)
    with commitlog.open(path) as log:
        account.check(log)


def write_gently(link: Link, path: str, session: int) -> None:
    """Append slowly until killed, so that the log stays short."""
    log, _ = open_log(path, None, {"claim_timeout": 0.05})
    for index in itertools.count():
        link.say(APPENDED, session, index, log.append(value_of(session, index)))
        time.sleep(0.0001)


@pytest.mark.parametrize("state", ["writing", "stopped"])
def test_open_beside_writing_or_stopped_writers_succeeds(
    path: Path, state: str, start: Start
) -> None:
    others = [start(write_gently, str(path), session) for session in (1, 2)]
    account = Account()
    for other in others:
        account.note(report for report in other.hear(200) if report.kind == APPENDED)
        if state == "stopped":
            account.note(report for report in other.pause() if report.kind == APPENDED)
    newcomer = start(
        write_some, str(path), 3, 30, How(None, {"claim_timeout": 0.05, "flush": "sync"})
    )
    account.note(report for report in newcomer.hear(31) if report.kind == APPENDED)
    newcomer.go_on()
    newcomer.join()
    with commitlog.open(path, "r") as reader:
        found = {record.position for record in reader.tailer()}
        assert account.promised.keys() <= found
    for other in others:
        if state == "stopped":
            other.resume()
        account.note(report for report in other.hear(50) if report.kind == APPENDED)
        account.note(report for report in other.kill() if report.kind == APPENDED)
    with commitlog.open(path) as log:
        account.check(log)


# --- recovery under way ---------------------------------------------------------------------------


def recover_stepwise(link: Link, path: str, step: int) -> None:
    """Open a log that must be recovered, and wait at a step of the recovery."""
    steps = 0

    def passed(_name: str) -> None:
        nonlocal steps
        steps += 1
        if steps == step:
            link.say(STEP)
            link.wait()

    replace_hook(passed)
    log, _ = open_log(path, None, {})
    replace_hook(None)
    link.say(OPENED, 0, 0, log.tail_position)
    link.wait()
    log.close()


@pytest.fixture
def left(path: Path, start: Start) -> Account:
    """A log whose writer was killed before a restart of the machine."""
    account = Account()
    writer = start(write_some, str(path), 0, 300, How(None, {"flush": "none"}))
    account.note(report for report in writer.hear(301) if report.kind == APPENDED)
    writer.kill()
    image.forget_boot(path)
    return account


def test_open_during_recovery_waits_while_readers_read(
    path: Path, left: Account, start: Start, until: Until
) -> None:
    recoverer = start(recover_stepwise, str(path), 2)
    assert recoverer.hear(1)[0].kind == STEP
    assert image.cell(path, "state") == STATE_RECOVERING
    reader = commitlog.open(path, "r")
    assert [mark.value for mark in reader.tailer()] == [value_of(0, index) for index in range(300)]
    with pytest.raises(OpenTimeoutError, match="opening or recovering"):
        commitlog.open(path, wait_for_log=0.02)
    newcomer = start(write_some, str(path), 1, 10, How(None, {"wait_for_log": 20}))
    account = left
    last = max(account.promised)
    recoverer.go_on()
    recoverer.hear(1)
    account.note(report for report in newcomer.hear(11) if report.kind == APPENDED)
    assert min(position for position, mark in account.promised.items() if mark.session == 1) > last
    until(lambda: reader.tail_position > max(account.promised))
    assert parts_of(reader).engine.cursors["state"] == STATE_READY
    account.check(reader)
    newcomer.go_on()
    newcomer.join()
    recoverer.go_on()
    recoverer.join()
    reader.close()


def test_open_behind_a_stopped_recovery_names_the_cause(
    path: Path, left: Account, start: Start
) -> None:
    recoverer = start(recover_stepwise, str(path), 1)
    recoverer.hear(1)
    recoverer.pause()
    for _ in range(3):
        with pytest.raises(OpenTimeoutError, match="check for a stopped process"):
            commitlog.open(path, wait_for_log=0.02)
    recoverer.resume()
    recoverer.go_on()
    recoverer.hear(1)
    with commitlog.open(path) as log:
        left.check(log)
    recoverer.go_on()
    recoverer.join()


def die_recovering(link: Link, path: str, step: int) -> None:
    replace_hook(die_at(step))
    log, _ = open_log(path, None, {})
    link.say(OPENED)
    log.close()


def test_opener_killed_in_recovery_leaves_it_to_the_next(
    path: Path, left: Account, start: Start
) -> None:
    """At each step of the recovery; other processes wait for the lock meanwhile."""
    for step in range(1, 30):
        waiting = start(recover_stepwise, str(path), 1)
        waiting.hear(1)
        dying = start(die_recovering, str(path), step)
        waiting.kill()
        died = dying.wait() != 0
        with commitlog.open(path, "r") as reader:
            left.check(reader)
        if not died:
            break
        image.forget_boot(path)
    else:
        pytest.fail("recovery has more steps than that")
    with commitlog.open(path) as log:
        left.check(log)


# --- slots ----------------------------------------------------------------------------------------


def hold_slots(link: Link, path: str, count: int) -> None:
    """Hold `count` slots as live writers of older releases do: exclusively, in `cursors` only."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    locks = []
    slot = 0
    while len(locks) < count and slot < SLOTS:
        lock = LifeLock(lambda: os.open("cursors", os.O_RDWR | os.O_CLOEXEC, dir_fd=fd), kind=None)
        try:
            fcntl.fcntl(
                lock.descriptor,
                fcntl.F_OFD_SETLK,
                struct.pack("@hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, SLOT_LOCK_AT + slot, 1, 0),
            )
            locks.append(lock)
        except BlockingIOError:
            lock.close()
        slot += 1
    link.say(OPENED, 0, len(locks))
    link.wait()


def test_full_slot_table_refuses_opens_until_a_writer_leaves(path: Path, start: Start) -> None:
    log, _ = open_log(str(path), None, {})
    log.append(b"before")
    first = start(hold_slots, str(path), 200)
    assert first.hear(1)[0].index == 200
    second = start(hold_slots, str(path), SLOTS)
    assert second.hear(1)[0].index == SLOTS - 200 - 1
    for _ in range(2):
        with pytest.raises(LogLockedError, match="close some of its writers") as caught:
            commitlog.open(path)
        assert caught.value.path == str(path)
    log.append(b"others go on")
    with commitlog.open(path, "r") as reader:
        assert list(reader.tailer().values()) == [b"before", b"others go on"]
    first.go_on()
    first.join()
    with commitlog.open(path) as another:
        another.append(b"after an exit")
    second.kill()
    handles = [commitlog.open(path, **tuned(OPTIONS)) for _ in range(3)]
    assert len({parts_of(handle).engine.slot for handle in (log, *handles)}) == 4
    for handle in handles:
        handle.append(b"after a kill")
        handle.close()
    log.close()


def test_forked_child_takes_an_own_slot_or_is_refused_at_once(
    path: Path, start: Start, in_child: Callable[..., object]
) -> None:
    log, _ = open_log(str(path), None, {"flush": "sync"})
    log.append(b"parent")

    def append() -> int | None:
        log.append(b"child")
        return parts_of(log).engine.slot

    assert in_child(append) not in (None, parts_of(log).engine.slot)
    full = start(hold_slots, str(path), SLOTS)
    assert full.hear(1)[0].index == SLOTS - 1

    def append_late() -> bool:
        for _ in range(2):
            with pytest.raises(LogLockedError):
                log.append(b"no slot")
        os.kill(full.pid, signal.SIGKILL)
        while True:
            with contextlib.suppress(LogLockedError):
                log.append(b"late child")
                return True

    assert in_child(append_late)
    log.append(b"parent again")
    assert list(log.tailer().values()) == [b"parent", b"child", b"late child", b"parent again"]
    log.close()
