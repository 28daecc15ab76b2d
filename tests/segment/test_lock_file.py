"""The `lock` file: one exclusive or many shared holders, and the holder's entry in the file."""

from __future__ import annotations

import contextlib
import errno
import gc
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog.errors import CommitLogError
from commitlog.pool.pool_options import MOST_BUFFERS
from commitlog.segment.lock_file import SIZE_LIMIT, Holder, LockFile, new_holder
from tests.setups import SEGMENT


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[], LockFile]]:
    fd = os.open(tmp_path, os.O_RDONLY)
    made: list[LockFile] = []

    def make() -> LockFile:
        made.append(LockFile(fd))
        return made[-1]

    yield make
    for lock in made:
        lock.close()
    os.close(fd)


def test_shared_locks_exclude_an_exclusive_one(make: Callable[[], LockFile]) -> None:
    first, second, third = make(), make(), make()
    assert first.acquire("shared")
    assert second.acquire("shared")
    assert not third.acquire("exclusive", 0.01)
    assert not first.acquire("exclusive")
    second.release()
    assert first.acquire("exclusive")
    assert not second.acquire("shared")
    assert first.acquire("shared")
    assert second.acquire("shared", 1)
    first.close()
    second.close()
    assert third.acquire("exclusive")


def test_lock_is_released_when_its_process_ends(
    make: Callable[[], LockFile], in_child: Callable[..., Any]
) -> None:
    assert in_child(lambda: make().acquire("exclusive")) is True
    assert make().acquire("exclusive")


def test_forked_child_does_not_hold_its_parents_lock(
    make: Callable[[], LockFile], in_child: Callable[..., Any]
) -> None:
    lock = make()
    assert lock.acquire("exclusive")
    assert in_child(lambda: (lock.close(), make().acquire("shared"))[1]) is False
    lock.close()
    assert make().acquire("exclusive")


def test_written_holder_is_read_back(make: Callable[[], LockFile], tmp_path: Path) -> None:
    lock = make()
    assert lock.read() == Holder()
    long = Holder(
        7,
        "writer",
        "b" * 32,
        9,
        pool_names=tuple(f"/commitlog-{index}" for index in range(500)),
        lent_names=("/x",),
    )
    short = new_holder(bytes(16), 12)
    for holder in (long, short, long):
        lock.write(holder)
        assert make().read() == holder
    assert short.pid == os.getpid()


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"5", b"{}", b"\xff" * 50, b'{"pid": "x"}', b"null", b"[" * 60000],
    ids=lambda content: repr(content[:9]),
)
def test_invalid_lock_content_names_no_holder(
    make: Callable[[], LockFile], tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "lock").write_bytes(content)
    assert make().read() == Holder()


def test_holder_description_names_process_and_program() -> None:
    assert Holder().describe() == "another process"
    assert Holder(pid=os.getpid()).describe() == "this process"
    assert Holder(pid=1 << 30, name="gone").describe() == f"process {1 << 30} (gone)"


def test_names_of_largest_pool_are_read_back(make: Callable[[], LockFile], tmp_path: Path) -> None:
    names = tuple(f"/commitlog-{index:032x}" for index in range(MOST_BUFFERS))
    holder = Holder(
        (1 << 22) - 1,
        "w" * 255,
        "b" * 32,
        1 << 63,
        pool_names=names,
        lent_names=names,
        pid_namespace=1 << 32,
    )
    lock = make()
    lock.write(holder)
    assert make().read() == holder
    assert (tmp_path / "lock").stat().st_size < SIZE_LIMIT


def test_oversized_lock_is_cut_to_its_limit(make: Callable[[], LockFile], tmp_path: Path) -> None:
    lock = make()
    os.truncate(tmp_path / "lock", 1 << 40)
    assert lock.read() == Holder()
    holder = new_holder(bytes(16), 12)
    lock.write(holder)
    assert make().read() == holder
    assert (tmp_path / "lock").stat().st_size == SIZE_LIMIT


def test_failing_fstat_leaks_no_descriptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An fstat of an open file does not fail here, so each one in an open is made to, in turn."""
    commitlog.open(tmp_path, segment_size=SEGMENT).close()
    real = os.fstat
    gc.collect()  # of logs that earlier tests dropped
    before = sorted(os.listdir("/proc/self/fd"))
    for turn in itertools.count():
        calls = itertools.count()

        def fail(fd: int, calls: Iterator[int] = calls, turn: int = turn) -> os.stat_result:
            if next(calls) == turn:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(fd)

        monkeypatch.setattr(os, "fstat", fail)
        with contextlib.suppress(CommitLogError):
            commitlog.open(tmp_path).close()
        monkeypatch.undo()
        gc.collect()
        assert sorted(os.listdir("/proc/self/fd")) == before
        if next(calls) <= turn:
            break
    assert turn > 5
