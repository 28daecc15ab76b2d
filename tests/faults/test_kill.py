"""SIGKILL at random moments: every acknowledged record is there, in every mode, after any number of
kills.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from commitlog import CommitLog
from tests.faults import image
from tests.faults.account import Account
from tests.faults.child import Child, Link
from tests.faults.writers import (
    APPENDED,
    OPENED,
    How,
    close_log,
    open_log,
    value_of,
    write,
    write_some,
)
from tests.length import long_count

Start = Callable[..., Child]
ROUNDS = 6
LONG_LOGS = long_count(60)


@dataclass(frozen=True)
class Mode:
    """How a log is written, and whether a kill may lose records."""

    pool: dict[str, Any] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    lossless: bool = True


MODES = {
    "sync-mapped": Mode(options={"flush": "sync"}),
    "sync-pooled": Mode(pool={}, options={"flush": "sync"}),
    "sync-shm": Mode(pool={"backing": "shm"}, options={"flush": "sync"}),
    "async-mapped": Mode(
        options={
            "flush": "async",
            "flush_interval": 0.002,
            "flush_least_pages": 0,
            "checkpoint_interval": 0.002,
        }
    ),
    "none-mapped": Mode(options={"flush": "none"}),
    "shm": Mode(pool={"backing": "shm"}, options={"flush": "async", "commit_interval": 0.01}),
    "shm-none": Mode(pool={"backing": "shm"}, options={"flush": "none", "commit_interval": 0.5}),
    "anonymous": Mode(
        pool={},
        options={"flush": "async", "commit_interval": 0.005, "commit_least_pages": 0},
        lossless=False,
    ),
}
REOPENERS: tuple[dict[str, Any] | None, ...] = (None, {}, {"backing": "shm"})
STYLES = ("append", "many", "claims", "threads")


@contextmanager
def reopened(path: Path, pool: dict[str, Any] | None) -> Iterator[CommitLog]:
    log, made = open_log(str(path), pool, {})
    try:
        yield log
    finally:
        close_log(log, made)


def style_of(mode: Mode, turn: int) -> str:
    """Return the style of a round. A synced append would wait for open claims, so claims are only
    for the other modes.
    """
    style = STYLES[turn % len(STYLES)]
    return "append" if style == "claims" and mode.options["flush"] == "sync" else style


def run_rounds(path: Path, mode: Mode, numbers: random.Random, start: Start) -> None:
    """Kill, recover and check repeatedly on one log; in some rounds the next writer recovers."""
    account = Account()
    for turn in range(ROUNDS):
        child = start(
            write, str(path), turn * 10, style_of(mode, turn), How(mode.pool, mode.options)
        )
        account.note(
            child.hear(numbers.randint(1, 1200 if mode.options["flush"] != "sync" else 150))
        )
        account.note(child.kill())
        child.end()
        committed = image.cell(path, "committed")
        if mode.lossless and numbers.random() < 0.3:
            continue
        names = image.shm_names(path)
        appended = max(account.promised, default=0)
        with reopened(path, numbers.choice(REOPENERS)) as log:
            lost = account.check(log, lossless=mode.lossless)
            assert log.tail_position >= committed
            assert lost == 0 or appended >= committed
        assert not [name for name in names if os.path.exists(f"/dev/shm{name}")]
        assert image.temporaries(path) == []


@pytest.mark.parametrize("mode", MODES)
def test_acknowledged_records_survive_repeated_kills(
    path: Path, mode: str, numbers: random.Random, start: Start
) -> None:
    run_rounds(path, MODES[mode], numbers, start)


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_acknowledged_records_survive_hundreds_of_kills(
    path: Path, mode: str, numbers: random.Random, start: Start
) -> None:
    for number in range(LONG_LOGS):
        run_rounds(path.with_name(f"{number}"), MODES[mode], numbers, start)


@pytest.mark.parametrize("pool", [None, {}, {"backing": "shm"}], ids=["mapped", "pooled", "shm"])
@pytest.mark.parametrize("style", ["claims", "many"])
def test_crash_with_shm_pool_recovers_under_any_next_pool(
    path: Path, pool: dict[str, Any] | None, style: str, numbers: random.Random, start: Start
) -> None:
    """The writer commits only when its commit service wakes up, so most records come from the
    buffers.
    """
    options = {"flush": "none", "commit_interval": 60, "commit_thorough_interval": 60}
    account = Account()
    child = start(write, str(path), 0, style, How({"backing": "shm", "buffers": 4}, options))
    account.note(child.hear(numbers.randint(50, 400)))
    account.note(child.kill())
    names = image.shm_names(path)
    assert names
    with reopened(path, pool) as log:
        account.check(log)
        for index in range(300):
            log.append(value_of(900, index))
        account.check(log)
    assert not [name for name in names if os.path.exists(f"/dev/shm{name}")]


def test_missing_shared_memory_buffer_is_reported_as_loss(
    path: Path, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"flush": "none", "commit_interval": 60, "commit_thorough_interval": 60}
    child = start(write_some, str(path), 0, 20, How({"backing": "shm", "buffers": 1}, options))
    child.hear(21)
    child.kill()
    names = image.shm_names(path)
    for name in names:
        os.unlink(f"/dev/shm{name}")
    with caplog.at_level("WARNING", "commitlog"), reopened(path, None) as log:
        assert log.append(b"the log goes on") == 4096
    assert names[0] in caplog.text


def test_kill_with_anonymous_pool_keeps_committed_records(path: Path, start: Start) -> None:
    """The commit service never wakes up and the child commits by hand, so the end after the kill is
    known exactly.
    """
    child = start(commit_then_append, str(path), 10, 10)
    account = Account()
    account.note(child.hear(11))
    committed = child.hear(1)[0].position
    lost = child.hear(10)
    child.kill()
    assert image.cell(path, "committed") == committed
    with reopened(path, {}) as log:
        assert account.check(log) == 0
        assert log.tail_position == committed
        assert lost[0].position == committed, (
            "the first lost record's place is taken by the next one"
        )
        assert log.append(value_of(9, 0)) == committed


def commit_then_append(link: Link, path: str, committed: int, more: int) -> None:
    """Append, commit, append more, without waking the commit service; report the positions and wait
    for the kill.
    """
    log, _ = open_log(
        path, {}, {"flush": "none", "commit_interval": 60, "commit_thorough_interval": 60}
    )
    link.say(OPENED, 0, 0, log.tail_position)
    for index in range(committed):
        link.say(APPENDED, 0, index, log.append(value_of(0, index)))
    log.commit()
    link.say(OPENED, 0, committed, log.committed_position)
    for index in range(committed, committed + more):
        link.say(APPENDED, 0, index, log.append(value_of(0, index)))
    link.wait()


def spin(microseconds: int) -> None:
    """Busy-wait."""
    end = time.perf_counter_ns() + microseconds * 1000
    while time.perf_counter_ns() < end:
        pass


@pytest.mark.parametrize("mode", MODES)
def test_kill_during_open_or_close_loses_no_record(
    path: Path, mode: str, numbers: random.Random, start: Start
) -> None:
    """A killed close may lose uncommitted records of an anonymous pool; a close that returned loses
    none.
    """
    account = Account()
    for turn in range(ROUNDS):
        child = start(write_some, str(path), turn, 100, How(MODES[mode].pool, MODES[mode].options))
        if turn % 3 == 2:
            spin(numbers.randint(0, 10_000))
        else:
            account.note(child.hear(101))
            child.go_on()
            spin(numbers.randint(0, 3_000))
        account.note(child.kill_if_alive())
        closed = child.status == 0
        if (path / "log.json").exists():
            with reopened(path, REOPENERS[turn % 3]) as log:
                account.check(log, lossless=closed or MODES[mode].lossless)
    assert account.found
