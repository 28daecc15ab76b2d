"""A named tailer has one reader at a time, until the tailer or its log is closed or its process
dies.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog.errors import ClosedError, ForkedError, InUseError
from commitlog.log.parts import parts_of
from commitlog.tail import tailer_folder
from commitlog.tail.tailer_folder import FOLDER
from tests.setups import Logs
from tests.steps import killed_at
from tests.tail.named import filled, read

InChild = Callable[[Callable[[], Any]], Any]


def test_second_reader_of_a_name_is_refused_with_its_holder(logs: Logs, in_child: InChild) -> None:
    log = filled(logs)
    first = log.tailer("a")
    second = logs.open(mode="r")

    def in_another_process() -> tuple[str, str | None]:
        with commitlog.open(log.path, "r") as reader:
            try:
                reader.tailer("a")
            except InUseError as error:
                return str(error), pickle.loads(pickle.dumps(error)).holder
        return "", None

    for handle in (log, second):
        with pytest.raises(InUseError, match="'a' is read by this process already"):
            handle.tailer("a")
    message, holder = in_child(in_another_process)
    assert f"process {os.getpid()} (" in message
    assert holder is not None
    assert str(os.getpid()) in holder
    first.close()
    assert read(second.tailer("a"), 1) == [b"0"]


def test_closing_tailer_or_log_releases_the_name(logs: Logs) -> None:
    log = filled(logs)
    tailer = log.tailer("a")
    del tailer
    kept = log.tailer("a")
    reader = logs.open(mode="r")
    log.close()
    assert read(reader.tailer("a"), 1) == [b"0"]
    kept.close()


def test_closed_tailer_refuses_every_read(logs: Logs) -> None:
    log = filled(logs)
    tailer = log.tailer("a")
    tailer.close()
    tailer.close()
    for call in (
        tailer.read,
        tailer.read_batch,
        lambda: next(tailer),
        lambda: tailer.seek("first"),
        lambda: next(tailer.values()),
    ):
        with pytest.raises(ClosedError, match="the tailer is closed"):
            call()
    other = log.tailer("a")
    read(other, 2)
    assert log.tailers()[0].position == other.position


def test_closed_log_ends_loops_and_releases_names(logs: Logs) -> None:
    log = filled(logs)
    tailer = log.tailer("a")
    coming = tailer.follow()
    assert next(coming).value == b"0"
    log.close()
    assert list(coming) == []
    assert read(logs.open().tailer("a"), 1) == [b"0"]


def test_forked_child_does_not_move_its_parents_tailer(logs: Logs, in_child: InChild) -> None:
    log = filled(logs)
    tailer = log.tailer("a")
    read(tailer, 2)

    def child() -> list[str]:
        refused = []
        for call in (tailer.read, lambda: list(tailer)):
            try:
                call()
            except ForkedError as error:
                refused.append(str(error))
        tailer.close()
        try:
            log.tailer("a")
        except InUseError as error:
            refused.append(str(error))
        return refused

    assert len(in_child(child)) == 3
    assert read(tailer, 1) == [b"2"]


def test_reader_after_a_killed_one_resumes_its_position(
    logs: Logs, until: Callable[..., None]
) -> None:
    log = filled(logs, 1000)
    child = os.fork()
    if child == 0:
        with commitlog.open(log.path, "r") as reader:
            tailer = reader.tailer("a")
            read(tailer, 10)
            signal.pause()
    until(
        lambda: (
            any(state.owner for state in log.tailers())
            and log.tailers()[0].position == parts_of(log).index.position_of(10)
        )
    )
    assert log.tailers()[0].pid == child
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert read(log.tailer("a"), 1) == [b"10"]


def test_kill_during_reads_redelivers_at_most_one_record(logs: Logs) -> None:
    """The child reports each record before it reads the next, and is killed at an arbitrary
    instant.
    """
    log = filled(logs, 5000)
    positions = [record.position for record in log.tailer()]
    for _ in range(5):
        came, say = os.pipe()
        # A small pipe blocks the child before it has read all.
        fcntl.fcntl(say, fcntl.F_SETPIPE_SZ, 4096)
        child = os.fork()
        if child == 0:
            with commitlog.open(log.path, "r") as reader:
                for record in reader.tailer("a"):
                    os.write(say, b"%8d" % record.position)
            os._exit(0)
        os.close(say)
        said = b"".join(os.read(came, 8) for _ in range(300))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(came, "rb") as stream:
            said += stream.read()
        # A write of eight bytes to a pipe is atomic.
        last = positions.index(int(said[-8:]))
        with log.tailer("a") as tailer:
            record = tailer.read()
            assert record is not None
            assert record.position in positions[last : last + 2]


@pytest.mark.parametrize("act", ["make", "mend"])
def test_kill_at_any_step_leaves_a_valid_file_or_none(logs: Logs, act: str) -> None:
    log = filled(logs)
    path = Path(log.path)

    def prepare() -> Callable[[], object]:
        child = commitlog.open(log.path, "r")
        if act == "make":
            return lambda: child.tailer("a")
        return lambda: child.reset_tailer("a", "first")

    step = 1
    while True:
        (path / FOLDER).mkdir(exist_ok=True)
        if act == "mend":
            (path / FOLDER / "a").write_bytes(b"damaged")
        elif (path / FOLDER / "a").exists():
            log.delete_tailer("a")
        if not killed_at(step, prepare):
            break
        assert [state.damage for state in log.tailers()] in ([], [None]) or act == "mend"
        if act == "mend" and log.tailers():
            log.reset_tailer("a", "first")
        assert read(log.tailer("a"), 1) == [b"0"]
        step += 1
    assert step > 4
    tailer_folder.sweep(parts_of(log).directory)
    assert os.listdir(path / FOLDER) == ["a"]
