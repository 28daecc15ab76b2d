"""Recovery is killed at each of its steps: the next one ends where an undisturbed one would."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commitlog import CommitLog
from tests.faults import image
from tests.faults.account import Account, read_all
from tests.faults.child import Child, Link, Report
from tests.faults.writers import (
    APPENDED,
    CLAIMED,
    OPENED,
    SEGMENT_SIZE,
    close_log,
    open_log,
    value_of,
)
from tests.length import every
from tests.steps import die, die_at, replace_hook

Start = Callable[..., Child]
Pool = dict[str, Any] | None
MOST_STEPS = 80
LAZY = {
    "flush": "none",
    "commit_interval": 60,
    "commit_thorough_interval": 60,
    "checkpoint_interval": 60,
}
SHM: Pool = {"backing": "shm", "buffers": 6}


def crash(link: Link, path: str, count: int, claim_every: int, pool: Pool) -> None:
    """Append, leave some claims open, and die; the same in every run."""
    log, _ = open_log(path, pool, LAZY)
    claims = []
    for index in range(count):
        if claim_every and index % claim_every == 0:
            claims.append(log.claim(100))
            link.say(CLAIMED, 0, index, claims[-1].position)
        else:
            link.say(APPENDED, 0, index, log.append(value_of(0, index)))
    die()


def recover_up_to(link: Link, path: str, step: int, pool: Pool) -> None:
    """Open and die at a step of the open; report if the open has fewer steps."""
    replace_hook(die_at(step))
    log, _ = open_log(path, pool, LAZY)
    replace_hook(None)
    link.say(OPENED, 0, 0, log.tail_position)
    die()


def killed_at(start: Start, path: Path, step: int, pool: Pool) -> bool:
    """Return whether a recovery died at that step."""
    child = start(recover_up_to, str(path), step, pool)
    child.wait()
    survived = child.hear_rest() != []
    child.end()
    return not survived


def crashed(
    start: Start, path: Path, count: int, claim_every: int, pool: Pool
) -> tuple[Account, list[Report]]:
    child = start(crash, str(path), count, claim_every, pool)
    child.wait()
    reports = child.hear_rest()
    child.end()
    account = Account()
    account.note(reports)
    return account, reports


def go_on(log: CommitLog, account: Account) -> None:
    """Append two more segments: leftovers of recovery must not get in the way."""
    end = log.tail_position + 2 * SEGMENT_SIZE
    for index in itertools.count():
        if log.append(value_of(1, index)) > end:
            break
    account.check(log)


@pytest.mark.parametrize(
    ("writer", "recoverer"),
    [(None, None), (SHM, SHM), (SHM, None), (None, SHM)],
    ids=["mapped by mapped", "shm by shm", "shm by mapped", "mapped by shm"],
)
@every(4)
def test_kill_at_each_step_of_recovery_loses_no_record(
    tmp_path: Path, writer: Pool, recoverer: Pool, every: int, start: Start
) -> None:
    first = 2 * (writer is None) + (recoverer is None)  # the pairs take turns
    for step in range(1 + first % every, MOST_STEPS, every):
        path = tmp_path / f"{step}"
        account, _ = crashed(start, path, 500, 99, writer)
        names = image.shm_names(path)
        died = killed_at(start, path, step, recoverer)
        log, pool = open_log(str(path), recoverer, LAZY)
        account.check(log)
        assert len(account.found) == len(account.promised) == 500 - 6
        go_on(log, account)
        close_log(log, pool)
        assert image.temporaries(path) == []
        assert not [name for name in names if Path(f"/dev/shm{name}").exists()]
        if not died:
            assert step > 5
            return
    pytest.fail(f"recovery takes more than {MOST_STEPS} steps")


def test_crash_in_recovery_of_anonymous_pool_keeps_committed(tmp_path: Path, start: Start) -> None:
    for step in range(1, MOST_STEPS):
        path = tmp_path / f"{step}"
        account, _ = crashed(start, path, 300, 0, {"buffers": 4})
        committed = image.cell(path, "committed")
        died = killed_at(start, path, step, None)
        log, pool = open_log(str(path), None, LAZY)
        account.check(log, lossless=False)
        assert committed <= log.tail_position
        go_on(log, account)
        close_log(log, pool)
        if not died:
            return
    pytest.fail(f"recovery takes more than {MOST_STEPS} steps")


def cut_in_the_middle(path: Path, account: Account, reports: list[Report]) -> int:
    """Simulate a restart of the machine that lost a page in the second of four segments; return the
    expected end.
    """
    image.forget_boot(path)
    appended = [report.position for report in reports if report.kind == APPENDED]
    lost = next(position for position in appended if position > SEGMENT_SIZE + SEGMENT_SIZE // 2)
    image.poke(image.segment_path(path, lost), lost % SEGMENT_SIZE, bytes(4096))
    for position in [position for position in account.promised if position >= lost]:
        del account.promised[position]
    return lost


@every(2)
def test_kill_at_each_step_of_a_cut_ends_at_the_same_place(
    tmp_path: Path, every: int, start: Start
) -> None:
    """The bytes after the cut are saved, zeroed and removed, no matter how often recovery is
    killed, and never return.
    """
    for step in range(1, MOST_STEPS, every):
        path = tmp_path / f"{step}"
        account, reports = crashed(start, path, 600, 0, None)
        end = cut_in_the_middle(path, account, reports)
        died = killed_at(start, path, step, None)
        log, pool = open_log(str(path), None, LAZY)
        account.check(log)
        assert log.tail_position == end
        assert image.behind(path, end) == b""
        saved = b"".join(file.read_bytes() for file in path.glob("*.cut*"))
        for report in reports:
            if report.position >= end + 4096:
                assert value_of(0, report.index) in saved
        go_on(log, account)
        close_log(log, pool)
        if not died:
            assert step > 5
            return
    pytest.fail(f"recovery takes more than {MOST_STEPS} steps")


def test_repeated_crashes_in_recovery_lose_no_record(path: Path, start: Start) -> None:
    """Each recovery gets one step further than the last."""
    account, _ = crashed(start, path, 500, 45, SHM)
    for step in range(1, MOST_STEPS):
        if not killed_at(start, path, step, (None, SHM, {})[step % 3]):
            break
    log, pool = open_log(str(path), None, LAZY)
    account.check(log)
    before = read_all(log)
    close_log(log, pool)
    log, pool = open_log(str(path), None, LAZY)
    assert read_all(log) == before
    close_log(log, pool)


def open_beside(link: Link, path: str, session: int, step: int) -> None:
    """Open beside other processes; die at the step, or append if the open has fewer steps."""
    replace_hook(die_at(step))
    log, made = open_log(path, None, {"flush": "sync"})
    replace_hook(None)
    for index in range(5):
        link.say(APPENDED, session, index, log.append(value_of(session, index)))
    close_log(log, made)


@pytest.mark.parametrize("writer", [None, SHM], ids=["mapped", "shm"])
@every(4)
def test_openers_that_race_for_a_crashed_log_recover_it_once(
    tmp_path: Path, writer: Pool, every: int, start: Start
) -> None:
    """Four processes open at once and one or two of them die: the others take over, and none uses a
    half-recovered log.
    """
    for step in range(1 + 2 * (writer is None) % every, 13, every):
        path = tmp_path / f"{step}"
        account, _ = crashed(start, path, 300, 45, writer)
        openers = [
            start(open_beside, str(path), session, step * (session < 3)) for session in range(1, 5)
        ]
        for opener in openers:
            opener.wait()
            account.note(opener.hear_rest())
        assert [opener.status for opener in openers[2:]] == [0, 0]
        log, made = open_log(str(path), None, {})
        account.check(log)
        close_log(log, made)
