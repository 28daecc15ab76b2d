"""Processes with read permission only: they follow other writers, wait without being woken, and
change no file.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import commitlog
from commitlog.errors import ReadOnlyError
from commitlog.log.parts import parts_of
from tests.faults.child import Child, Link
from tests.faults.writers import OPENED, How, mark_of, value_of, write_some

Start = Callable[..., Child]
OTHER_USER = 65534
READ, REFUSED = "R", "X"


@pytest.fixture(params=["/tmp", "/dev/shm"], ids=["disk", "shm"])
def folder(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A directory that others may enter, on each of the two kinds of file system."""
    made = Path(tempfile.mkdtemp(prefix="commitlog-test-", dir=request.param))
    made.chmod(0o755)
    yield made
    for found in (made, *made.rglob("*")):
        with contextlib.suppress(OSError):
            found.chmod(0o755)
    shutil.rmtree(made)


def become_nobody() -> None:
    """Drop root's privileges; another user has none, and the files are closed to it."""
    if os.geteuid() == 0:
        os.setresgid(OTHER_USER, OTHER_USER, OTHER_USER)
        os.setresuid(OTHER_USER, OTHER_USER, OTHER_USER)


def forbid(path: Path) -> None:
    """Remove every write permission."""
    for file in path.iterdir():
        file.chmod(0o444)
    path.chmod(0o555)


def follow_powerless(link: Link, path: str, idle: str, count: int) -> None:
    become_nobody()
    for mode in ("a", "x"):
        with pytest.raises(ReadOnlyError):
            commitlog.open(path, mode)
        link.say(REFUSED)
    with commitlog.open(path, "r") as log:
        tailer = log.tailer(start="end", visibility="flushed")
        link.say(OPENED, 0, parts_of(log).engine.cursors.shared)
        for index in range(count):
            record = tailer.read(timeout=60, idle=idle)  # type: ignore[arg-type]
            assert record is not None
            assert log.tail_position > record.position
            assert log.flushed_position > record.position
            link.say(READ, mark_of(record.value).session, index, record.position)
        assert parts_of(log).engine.cursors.shared
        assert not parts_of(log).engine.cursors.writable


@pytest.mark.parametrize("idle", ["block", "backoff", "spin"])
def test_reader_without_write_permission_follows_live_writers(
    path: Path, idle: str, start: Start
) -> None:
    """With `block`, the reader cannot announce its sleep to the writers, and falls back to
    back-off.
    """
    with commitlog.open(
        path, segment_size="64KiB", flush="sync", tuning=commitlog.Tuning(allocate_ahead=0)
    ) as log:
        log.append(b"before")
        before = sorted(path.iterdir())
        forbid(path)
        reader = start(follow_powerless, str(path), idle, 30)
        assert [report.kind for report in reader.hear(3)] == [REFUSED, REFUSED, OPENED]
        for index in range(30):
            log.append(value_of(7, index))
        assert {report.session for report in reader.hear(30)} == {7}
        reader.join()
        assert parts_of(log).engine.cursors["waiters"] == 0
        assert sorted(path.iterdir()) == before


def test_reader_without_write_permission_follows_first_writer(path: Path, start: Start) -> None:
    with commitlog.open(path, segment_size="64KiB") as log:
        log.append(b"before")
    (path / "cursors").unlink()
    for file in path.iterdir():
        file.chmod(0o644)
    path.chmod(0o755)
    reader = start(follow_powerless, str(path), "block", 20)
    assert reader.hear(3)[-1] == (OPENED, 0, False, 0)
    old = os.umask(0o022)
    writer = start(write_some, str(path), 3, 20, How(None, {"flush": "sync"}))
    os.umask(old)
    assert {report.session for report in reader.hear(20)} == {3}
    reader.join()
    writer.go_on()
    writer.join()
