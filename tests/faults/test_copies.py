"""A directory copied while its log is written is an independent log, and is never taken for the
original.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog.errors import LogLockedError
from tests.copies import copy_log
from tests.faults import image
from tests.faults.account import Account, check_prefixes, read_all
from tests.faults.child import Child, Link
from tests.faults.writers import APPENDED, How, close_log, open_log, value_of, write_some

Start = Callable[..., Child]
POOLS: dict[str, dict[str, Any] | None] = {"mapped": None, "pooled": {}, "shm": {"backing": "shm"}}
COPIES = 5
LAZY = {"flush": "none", "commit_interval": 60, "commit_thorough_interval": 60}


def write_until_told(link: Link, path: str, pool: dict[str, Any] | None) -> None:
    """Append; after every hundred records, wait until the parent lets the child continue or tells
    it to end.
    """
    log, made = open_log(path, pool, {"flush": "async"})
    for index in itertools.count():
        link.say(APPENDED, 0, index, log.append(value_of(0, index)))
        if index % 100 == 99:
            log.commit()
            link.say("O", 0, index, log.committed_position)
            link.wait()
            if (Path(path).parent / "enough").exists():
                break
    close_log(log, made)


@pytest.mark.parametrize("pool", POOLS)
def test_copy_of_a_live_log_recovers_independently(
    tmp_path: Path, path: Path, pool: str, start: Start
) -> None:
    """Each copy holds a prefix; appends to a copy do not change the original, and appends to the
    original do not change a copy.
    """
    child = start(write_until_told, str(path), POOLS[pool])
    account = Account()
    for turn in range(COPIES):
        account.note(child.hear(101))
        if turn == COPIES - 1:
            (tmp_path / "enough").touch()
        child.go_on()
        copy = tmp_path / f"copy-{turn}"
        image.copy_live(path, copy)
        log, made = open_log(str(copy), (None, {})[turn % 2], {})
        found = read_all(log)
        check_prefixes(found, set())
        assert len(found) >= turn * 100
        positions = [log.append(value_of(8, index)) for index in range(300)]
        assert log.read(positions[0]).value == value_of(8, 0)
        close_log(log, made)
        log, made = open_log(str(copy), None, {})
        assert [mark.session for mark in read_all(log).values()].count(8) == 300
        close_log(log, made)
    account.note(child.join())
    log, made = open_log(str(path), None, {})
    account.check(log)
    assert len(account.found) == len(account.promised)
    close_log(log, made)


@pytest.mark.parametrize("pool", POOLS)
def test_copied_cursors_file_is_ignored(
    tmp_path: Path, path: Path, pool: str, start: Start
) -> None:
    """The copied cells say READY and name this boot, but a reader ignores them, and no lock blocks
    it.
    """
    child = start(write_some, str(path), 0, 50, How(POOLS[pool], {"flush": "none"}))
    account = Account()
    reports = child.hear(51)
    account.note(reports)
    copy = tmp_path / "copy"
    image.copy_live(path, copy)
    end = reports[-1].position
    for name, lie in (
        ("tail", end + 4096),
        ("appended", end + 4096),
        ("committed", end + 4096),
        ("flushed", end + 4096),
    ):
        image.set_cell(copy, name, lie)
    with commitlog.open(copy, "r") as reader:
        assert reader.tail_position <= end
        check_prefixes(read_all(reader), set())
    with commitlog.open(copy) as log:
        found = read_all(log)
        assert found.items() <= account.promised.items()
        assert log.append(value_of(8, 0)) <= end
    if pool != "mapped":
        with pytest.raises(LogLockedError):
            commitlog.open(path)
    child.go_on()
    child.join()
    with commitlog.open(path) as log:
        account.check(log)
        assert 8 not in {mark.session for mark in account.found.values()}


def test_copy_leaves_the_shared_memory_of_the_original(
    tmp_path: Path, path: Path, start: Start
) -> None:
    """The copied `lock` file names buffers, which belong to the original, whether alive or dead."""
    child = start(write_some, str(path), 0, 20, How({"backing": "shm"}, LAZY))
    account = Account()
    account.note(child.hear(21))
    names = image.shm_names(path)
    for state in ("alive", "dead"):
        copy = tmp_path / f"copy-{state}"
        image.copy_live(path, copy)
        with commitlog.open(copy) as log:
            log.append(b"the copy goes on")
        assert all(os.path.exists(f"/dev/shm{name}") for name in names)
        if state == "alive":
            child.kill()
    with commitlog.open(path) as log:
        account.check(log)
    assert not any(os.path.exists(f"/dev/shm{name}") for name in names)


def test_closed_log_that_was_moved_or_copied_opens_unchanged(tmp_path: Path, path: Path) -> None:
    log, made = open_log(str(path), {}, {})
    positions = [log.append(value_of(0, index)) for index in range(500)]
    close_log(log, made)
    path.rename(tmp_path / "moved")
    copy_log(tmp_path / "moved", path)
    for place in (tmp_path / "moved", path):
        log, made = open_log(str(place), None, {})
        assert list(read_all(log)) == positions
        assert log.append(value_of(1, 0)) > positions[-1]
        close_log(log, made)
