"""A kill at each step of the creation of a log, a segment or a roll: the log opens with every
acknowledged record, and continues.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commitlog import CommitLog
from tests.faults import image
from tests.faults.account import Account
from tests.faults.child import Child, Link
from tests.faults.writers import APPENDED, OPENED, SEGMENT_SIZE, close_log, open_log, value_of
from tests.length import every
from tests.steps import die, die_at, hooked_rolls, replace_hook

Start = Callable[..., Child]
Pool = dict[str, Any] | None
POOLS: dict[str, Pool] = {"mapped": None, "pooled": {}, "shm": {"backing": "shm"}}
MOST_STEPS = 60
SYNC_EVERY = 50


def roll_and_die(
    link: Link, path: str, step: int, from_the_start: bool, how: dict[str, Any]
) -> None:
    """Die at the given step: of the log's creation and first record, or of two rolls."""
    passed = die_at(step)
    if from_the_start:
        replace_hook(passed)
    log, made = open_log(path, how["pool"], {"flush": "sync", "allocate_ahead": how["ahead"]})
    replace_hook(passed)
    with hooked_rolls(passed):
        fill(link, log, 0, 0 if from_the_start else 2)
    replace_hook(None)
    close_log(log, made)


def fill(link: Link, log: CommitLog, session: int, segments: int) -> None:
    """Append until the tail has advanced by `segments` segments; sync only every SYNC_EVERY-th
    record, so that some are unflushed at the kill.
    """
    end = log.tail_position + segments * SEGMENT_SIZE
    for index in itertools.count():
        link.say(
            APPENDED,
            session,
            index,
            log.append(value_of(session, index), sync=index % SYNC_EVERY == 0),
        )
        if log.tail_position > end:
            return


def reopen_and_go_on(path: Path, account: Account, pool: Pool) -> None:
    """Reopen, check, roll twice, check again. Synced records must also survive the death of their
    pool.
    """
    synced = {
        position for position, mark in account.promised.items() if mark.index % SYNC_EVERY == 0
    }
    log, made = open_log(str(path), pool, {})
    account.check(log, lossless=pool is None or "backing" in pool)
    assert synced <= account.found.keys()
    end = log.tail_position + 2 * SEGMENT_SIZE
    for index in itertools.count():
        if log.append(value_of(7, index)) > end:
            break
    close_log(log, made)
    assert image.temporaries(path) == []
    log, made = open_log(str(path), pool, {})
    account.check(log, lossless=pool is None or "backing" in pool)
    close_log(log, made)


@pytest.mark.parametrize("from_the_start", [True, False], ids=["creation", "roll"])
@pytest.mark.parametrize("ahead", [0, 1])
@pytest.mark.parametrize("kind", POOLS)
@every(3)
def test_kill_at_each_step_of_creation_and_roll_loses_nothing(
    tmp_path: Path, kind: str, ahead: int, from_the_start: bool, *, every: int, start: Start
) -> None:
    for step in range(1 + list(POOLS).index(kind) % every, MOST_STEPS, every):
        path = tmp_path / f"{step}"
        child = start(
            roll_and_die, str(path), step, from_the_start, {"pool": POOLS[kind], "ahead": ahead}
        )
        died = child.wait() != 0
        account = Account()
        account.note(child.hear_rest())
        child.end()
        reopen_and_go_on(path, account, POOLS[kind])
        if not died:
            # Rolls into segments that are ready have no steps: see tests/multiprocess.
            assert step > (4 if ahead else 8)
            return
    pytest.fail(f"two rolls take more than {MOST_STEPS} steps")


def roll_beside(link: Link, path: str, session: int, step: int) -> None:
    """Wait for the start, then fill four segments beside another process, and die at a step; step 0
    survives.
    """
    log, made = open_log(path, None, {"allocate_ahead": 0})
    link.say(OPENED, session)
    link.wait()
    replace_hook(die_at(step))
    with hooked_rolls(die_at(step)):
        fill(link, log, session, 4)
    close_log(log, made)


@every(2)
def test_kill_at_each_step_of_a_roll_does_not_block_others(
    tmp_path: Path, every: int, start: Start
) -> None:
    """Two processes roll the same segments; one dies during a roll, the other continues and sees
    the records of both.
    """
    for step in range(1, 9, every):
        path = tmp_path / f"{step}"
        children = [start(roll_beside, str(path), 1, step), start(roll_beside, str(path), 2, 0)]
        account = Account()
        for child in children:
            account.note(child.hear(1))
        for child in children:
            child.go_on()
        children[0].wait()
        account.note(children[1].join())
        account.note(children[0].hear_rest())
        reopen_and_go_on(path, account, None)


def test_concurrent_rolls_of_several_processes_lose_nothing(path: Path, start: Start) -> None:
    children = [start(roll_beside, str(path), session, 0) for session in (1, 2, 3)]
    account = Account()
    for child in children:
        account.note(child.hear(1))
    for child in children:
        child.go_on()
    for child in children:
        account.note(child.join())
    reopen_and_go_on(path, account, None)


def die_in_create(link: Link, path: str) -> None:
    """Leave the files of a creation that is killed before its rename."""
    replace_hook(die_at(2))
    open_log(path, None, {})
    die()


def test_temporary_files_of_a_kill_are_swept_by_the_next_open(path: Path, start: Start) -> None:
    for _ in range(3):
        start(die_in_create, str(path)).wait()
    left = set(image.temporaries(path))
    assert left
    log, made = open_log(str(path), None, {})
    assert not left & set(os.listdir(path))
    close_log(log, made)
