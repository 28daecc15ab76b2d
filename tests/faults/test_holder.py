"""The holder of a log: the error of a second open names its process, and its death releases the
lock.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog._kernel.memory import Cursors
from commitlog.errors import LogLockedError
from tests.faults.account import Account, read_all
from tests.faults.child import Child, Link
from tests.faults.writers import APPENDED, How, close_log, open_log, value_of, write_some

Start = Callable[..., Child]
POOLS: dict[str, dict[str, Any] | None] = {"mapped": None, "pooled": {}, "shm": {"backing": "shm"}}


@pytest.mark.parametrize("holder", ["pooled", "shm"])
@pytest.mark.parametrize("second", POOLS)
def test_second_open_names_the_pooled_holder(
    path: Path, holder: str, second: str, start: Start
) -> None:
    child = start(write_some, str(path), 0, 5, How(POOLS[holder], {"flush": "none"}))
    child.hear(6)
    with pytest.raises(LogLockedError) as caught:
        open_log(str(path), POOLS[second], {})
    assert f"process {child.pid} " in str(caught.value)
    assert f"process {child.pid} " in (caught.value.holder or "")
    child.go_on()
    child.join()


def test_pooled_open_of_a_mapped_log_names_its_writers(path: Path, start: Start) -> None:
    children = [
        start(write_some, str(path), session, 5, How(None, {"flush": "none"}))
        for session in range(2)
    ]
    for child in children:
        child.hear(6)
    with pytest.raises(LogLockedError) as caught:
        open_log(str(path), {}, {})
    assert all(f"process {child.pid} " in str(caught.value) for child in children)
    for child in children:
        child.go_on()
        child.join()


def test_second_open_in_one_process_names_this_process(path: Path) -> None:
    log, made = open_log(str(path), {}, {})
    with pytest.raises(LogLockedError, match="this process"):
        commitlog.open(path)
    close_log(log, made)


@pytest.mark.parametrize("holder", POOLS)
@pytest.mark.parametrize("second", POOLS)
def test_lock_of_a_killed_holder_is_free_at_once(
    path: Path, holder: str, second: str, start: Start
) -> None:
    """Without waiting: `wait_for_log` is 0."""
    child = start(write_some, str(path), 0, 5, How(POOLS[holder], {"flush": "sync"}))
    account = Account()
    account.note(child.hear(6))
    child.kill()
    log, made = open_log(str(path), POOLS[second], {"wait_for_log": 0})
    account.check(log)
    close_log(log, made)


def test_stopped_holder_keeps_the_lock(path: Path, start: Start) -> None:
    child = start(write_some, str(path), 0, 5, How({}, {"flush": "none"}))
    child.hear(6)
    os.kill(child.pid, signal.SIGSTOP)
    with pytest.raises(LogLockedError):
        commitlog.open(path, wait_for_log=0)
    os.kill(child.pid, signal.SIGCONT)
    child.go_on()
    child.join()


def fork_and_be_killed(link: Link, path: str, pool: dict[str, Any] | None, claims: bool) -> None:
    """Open, leave a claim open, fork a child that outlives this process, and wait for the kill."""
    log, _ = open_log(path, pool, {"flush": "none"})
    link.say(APPENDED, 0, 0, log.append(value_of(0, 0)))
    claim = log.claim(8) if claims else None
    link.say(APPENDED, 0, 1, log.append(value_of(0, 1)))
    if os.fork() == 0:
        link.say("K", os.getpid())  # the log's own fork handlers have run
        signal.pause()
        os._exit(0)
    link.wait()
    assert claim is None


@pytest.mark.parametrize("kind", POOLS)
def test_crash_of_holder_with_live_forked_child_frees_lock(
    path: Path, kind: str, start: Start
) -> None:
    child = start(fork_and_be_killed, str(path), POOLS[kind], False)
    account = Account()
    account.note(child.hear(2))
    grandchild = child.hear(1)[0].session
    try:
        child.kill()
        log, made = open_log(str(path), None, {"wait_for_log": 0})
        account.check(log, lossless=kind != "pooled")
        close_log(log, made)
    finally:
        os.kill(grandchild, signal.SIGKILL)


def test_crash_of_owner_with_live_forked_child_rolls_back_claim(path: Path, start: Start) -> None:
    """Another process keeps the log open, so no recovery runs; readers distinguish a dead owner
    from a slow one.
    """
    with commitlog.open(path, segment_size=1 << 16, claim_timeout=3600, sync_timeout=60) as log:
        child = start(fork_and_be_killed, str(path), None, True)
        reports = child.hear(2)
        grandchild = child.hear(1)[0].session
        try:
            assert log.appended_position < reports[1].position
            child.kill()
            position = log.append(value_of(5, 0), sync=True)  # waits for everything below it
            assert log.flushed_position > position
            assert list(read_all(log)) == [reports[0].position, reports[1].position, position]
            assert log.stats().rolled_back_claims == 1
        finally:
            os.kill(grandchild, signal.SIGKILL)


def test_slots_of_killed_writers_are_reused(path: Path, start: Start) -> None:
    """While one writer lives, more writers die than there are slots."""
    with commitlog.open(path, segment_size=1 << 16) as log:
        for session in range(40):
            child = start(write_some, str(path), session, 1, How(None, {"flush": "none"}))
            child.hear(2)
            child.kill()
            child.end()
        assert len(read_all(log)) == 40
        with (path / "cursors").open("rb") as file:
            assert len(Cursors(file.fileno(), False).slots()) <= 2
