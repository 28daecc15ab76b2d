"""A reader before its log exists: it waits if asked to, is refused otherwise, and never creates a
file.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog.errors import CommitLogError, LogNotFoundError, NotALogError
from tests.faults.child import Child, Link
from tests.faults.writers import OPENED, How, mark_of, value_of, write_some
from tests.steps import replace_hook

Start = Callable[..., Child]
READ = "R"


def read_when_it_comes(link: Link, path: str, count: int) -> None:
    link.say(OPENED)
    with commitlog.open(path, "r", wait_for_log=30) as log:
        tailer = log.tailer(visibility="flushed")
        for index in range(count):
            record = tailer.read(timeout=60)
            assert record is not None
            link.say(READ, mark_of(record.value).session, index, record.position)


@pytest.mark.parametrize("pool", [None, {}], ids=["mapped", "pooled"])
def test_reader_waiting_for_its_log_gets_the_first_record(
    path: Path, pool: dict[str, Any] | None, start: Start
) -> None:
    nested = path / "of" / "logs"
    readers = [start(read_when_it_comes, str(nested), 20) for _ in range(3)]
    for reader in readers:
        reader.hear(1)
    assert not path.exists()
    writer = start(write_some, str(nested), 5, 20, How(pool, {"flush": "sync"}))
    for reader in readers:
        assert [report.session for report in reader.hear(20)] == [5] * 20
        reader.join()
    writer.go_on()
    writer.join()


def test_reader_of_a_missing_log_is_refused_and_creates_nothing(path: Path) -> None:
    for options in ({}, {"wait_for_log": 0}, {"wait_for_log": "20ms"}):
        with pytest.raises(LogNotFoundError, match="wait for its writer") as caught:
            commitlog.open(path, "r", **options)
        assert caught.value.path == str(path)
    path.mkdir()
    for options in ({}, {"wait_for_log": "20ms"}):
        with pytest.raises(NotALogError):
            commitlog.open(path, "r", **options)
    assert list(path.iterdir()) == []


def test_path_that_cannot_become_a_log_is_not_awaited(path: Path) -> None:
    path.mkdir()
    (path / "letters.txt").write_text("Dear Sir")
    for wrong in (path, path / "letters.txt", path / "letters.txt" / "log"):
        with pytest.raises(NotALogError):
            commitlog.open(wrong, "r", wait_for_log=60)
    assert [found.name for found in path.iterdir()] == ["letters.txt"]


def test_signal_interrupts_the_wait_for_a_log(path: Path, start: Start) -> None:
    child = start(read_when_it_comes, str(path), 1, environment={})
    child.hear(1)
    os.kill(child.pid, signal.SIGINT)
    assert child.wait() != 0


def create_step_by_step(link: Link, path: str) -> None:
    """Wait for permission at each step of the creation of a log."""

    def passed(_name: str) -> None:
        link.say(OPENED)
        link.wait()

    replace_hook(passed)
    log = commitlog.open(path, segment_size="64KiB", tuning=commitlog.Tuning(allocate_ahead=0))
    replace_hook(None)
    link.say(READ, 0, 0, log.append(value_of(0, 0)))
    link.wait()
    log.close()


def test_reader_opened_at_any_creation_step_sees_first_record(path: Path, start: Start) -> None:
    writer = start(create_step_by_step, str(path))
    readers = []
    while writer.hear(1)[0].kind == OPENED:
        if (path / "log.json").exists():
            readers.append(commitlog.open(path, "r", wait_for_log=5))
            assert readers[-1].tailer().read() is None
        else:
            with pytest.raises(CommitLogError):
                commitlog.open(path, "r", wait_for_log=0.01)
        writer.go_on()
    assert len(readers) > 6
    for reader in readers:
        for visibility in ("committed", "appended"):
            record = reader.tailer(visibility=visibility).read(timeout=60)
            assert record is not None
            assert record.value == value_of(0, 0)
        assert reader.tail_position > record.position
        reader.close()
    writer.go_on()
    writer.join()
