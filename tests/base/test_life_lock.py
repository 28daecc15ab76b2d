from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from commitlog.base.life_lock import LifeLock, is_held


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "locked"
    path.touch()
    return path


@pytest.fixture
def descriptor(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR)
    yield descriptor
    os.close(descriptor)


def hold(path: Path) -> LifeLock:
    return LifeLock(lambda: os.open(path, os.O_RDWR))


def test_a_lock_is_held_from_creation_to_close(path: Path, descriptor: int) -> None:
    assert not is_held(descriptor)
    lock = hold(path)
    assert is_held(descriptor)
    lock.close()
    assert not is_held(descriptor)
    lock.close()


def test_a_closed_lock_is_free_although_its_description_lives_on(
    path: Path, descriptor: int
) -> None:
    """For a moment it does in a program that another thread starts just then; no hook of ours runs
    there.
    """
    lock = hold(path)
    shared = os.dup(lock.descriptor)
    lock.close()
    assert not is_held(descriptor)
    os.close(shared)


def test_a_second_lock_is_refused_and_leaves_no_descriptor(path: Path) -> None:
    lock = hold(path)
    gc.collect()  # what other tests have left goes now, and not in between
    before = os.listdir("/proc/self/fd")
    with pytest.raises(BlockingIOError):
        hold(path)
    assert os.listdir("/proc/self/fd") == before
    lock.close()


def test_a_forked_child_has_no_share_in_the_lock(
    path: Path, descriptor: int, in_child: Callable[[Callable[[], Any]], Any]
) -> None:
    """Neither may it keep the lock alive, nor does closing there take it from the parent."""
    lock = hold(path)
    number = lock.descriptor

    def look() -> tuple[bool, bool]:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(number)
        reused = next(
            taken for _ in range(100) if (taken := os.open(path, os.O_RDWR)) >= number
        )  # lower ones may be free, too
        lock.close()
        os.fstat(reused)
        return reused == number, is_held(reused)

    # The descriptor's number was free again, and closing the inherited lock has not closed what
    # took it.
    assert in_child(look) == (True, True)
    assert is_held(descriptor)
    lock.close()


def test_an_executed_program_does_not_inherit_the_lock(path: Path, descriptor: int) -> None:
    lock = hold(path)
    script = "import sys; print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        close_fds=False,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        lock.close()
        assert not is_held(descriptor)
        child.communicate()
