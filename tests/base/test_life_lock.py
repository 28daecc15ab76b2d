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


def test_lock_is_held_from_creation_to_close(path: Path, descriptor: int) -> None:
    assert not is_held(descriptor)
    lock = hold(path)
    assert is_held(descriptor)
    lock.close()
    assert not is_held(descriptor)
    lock.close()


def test_closed_lock_is_free_while_its_description_is_shared(path: Path, descriptor: int) -> None:
    """A program that another thread starts at that moment shares the description briefly; no hook
    of commitlog runs there.
    """
    lock = hold(path)
    shared = os.dup(lock.descriptor)
    lock.close()
    assert not is_held(descriptor)
    os.close(shared)


def test_refused_lock_leaves_no_descriptor(path: Path) -> None:
    lock = hold(path)
    gc.collect()  # garbage of other tests must not be closed between the counts
    before = os.listdir("/proc/self/fd")
    with pytest.raises(BlockingIOError):
        hold(path)
    assert os.listdir("/proc/self/fd") == before
    lock.close()


def test_forked_child_does_not_share_the_lock(
    path: Path, descriptor: int, in_child: Callable[[Callable[[], Any]], Any]
) -> None:
    """The child must not keep the lock alive, and its close must not release the parent's lock."""
    lock = hold(path)
    number = lock.descriptor

    def look() -> tuple[bool, bool]:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(number)
        # Lower numbers may be free, too.
        reused = next(taken for _ in range(100) if (taken := os.open(path, os.O_RDWR)) >= number)
        lock.close()
        os.fstat(reused)
        return reused == number, is_held(reused)

    # The descriptor's number was free again, and closing the inherited lock did not close its new
    # file.
    assert in_child(look) == (True, True)
    assert is_held(descriptor)
    lock.close()


def test_executed_program_does_not_inherit_the_lock(path: Path, descriptor: int) -> None:
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
