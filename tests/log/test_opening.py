"""How a log is opened, which handles may be open together, and that a refused open leaves nothing
behind.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import CommitLog, Options, TransientStorePool
from commitlog.errors import (
    InvalidOptionError,
    IOFailureError,
    LogExistsError,
    LogLockedError,
    LogNotFoundError,
    NotALogError,
    OpenTimeoutError,
)
from commitlog.flush import checkpoint
from commitlog.log.parts import parts_of
from commitlog.segment.lock_file import LockFile
from tests.copies import copy_log
from tests.setups import SEGMENT, Logs


def open_pooled(path: Path) -> CommitLog:
    pool = TransientStorePool(buffers=2, buffer_size=SEGMENT, lock_memory="off", low_water=0)
    return commitlog.open(path, "a", Options(pool=pool))


# --- modes and paths ------------------------------------------------------------------------------


def test_mode_a_creates_the_directory_and_its_parents(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "log"
    for form in (path, str(path), os.fsencode(path)):
        with commitlog.open(form, segment_size=SEGMENT) as log:
            log.append(b"x")
            assert log.path == str(path)
    with commitlog.open(os.fsencode(path), "r") as log:
        assert list(log.tailer().values()) == [b"x"] * 3


def test_mode_x_creates_and_refuses_an_existing_log(logs: Logs, tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    with logs.open(mode="x") as log:
        log.append(b"kept")
        with pytest.raises(LogExistsError):
            logs.open(mode="x")
    with pytest.raises(LogExistsError, match="mode 'x'"):
        logs.open(mode="x")
    assert list(logs.open(mode="r").tailer().values()) == [b"kept"]


def test_mode_r_never_creates(tmp_path: Path) -> None:
    with pytest.raises(LogNotFoundError) as caught:
        commitlog.open(tmp_path / "missing", "r")
    assert isinstance(caught.value, FileNotFoundError)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotALogError):
        commitlog.open(tmp_path / "empty", "r")
    assert list((tmp_path / "empty").iterdir()) == []


@pytest.mark.parametrize("mode", ["w", "", "ra", "A", None, 5, ["a"], b"a"], ids=repr)
def test_unknown_mode_is_refused(tmp_path: Path, mode: Any) -> None:
    with pytest.raises(InvalidOptionError, match="mode must be"):
        commitlog.open(tmp_path / "log", mode)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", ["a", "x", "r"])
def test_path_at_or_through_a_file_is_refused(tmp_path: Path, mode: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"precious")
    for path in (file, file / "log"):
        with pytest.raises(NotALogError, match="file"):
            commitlog.open(path, mode)
    assert file.read_bytes() == b"precious"


@pytest.mark.parametrize("mode", ["a", "r"])
@pytest.mark.parametrize(
    "path", [5, None, 1.5, "", "null\0byte", b"null\0byte", ["list"]], ids=repr
)
def test_invalid_path_is_refused(path: Any, mode: str) -> None:
    with pytest.raises(InvalidOptionError, match="path must"):
        commitlog.open(path, mode)


@pytest.mark.parametrize("mode", ["a", "r"])
def test_path_refused_by_the_system_raises_io_failure(tmp_path: Path, mode: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for path in (tmp_path / ("x" * 300), tmp_path / "loop"):
        with pytest.raises(IOFailureError) as caught:
            commitlog.open(path, mode)
        assert caught.value.path == str(path)


def test_directory_without_a_log_is_refused_and_unchanged(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("Dear Sir")
    for mode in ("a", "x", "r"):
        with pytest.raises(NotALogError):
            commitlog.open(tmp_path, mode)
    assert [path.name for path in tmp_path.iterdir()] == ["letters.txt"]


# --- options --------------------------------------------------------------------------------------


def test_options_that_contradict_the_log_are_refused(logs: Logs) -> None:
    logs.open(timestamps="precise").close()
    with pytest.raises(InvalidOptionError, match="segment_size is 131072"):
        logs.open(segment_size="128KiB")
    pool = logs.pool(buffer_size=128 << 10)
    with pytest.raises(InvalidOptionError, match="pool.buffer_size is 131072"):
        logs.open(pool=pool)
    assert pool.available == pool.buffers
    with pytest.raises(InvalidOptionError, match="contradict"):
        logs.open(pool=pool, segment_size=SEGMENT)
    logs.open("coarse").close()
    with pytest.raises(InvalidOptionError, match="timestamps is 'precise'"):
        logs.open("coarse", timestamps="precise")
    with pytest.raises(InvalidOptionError, match="timestamps is 'coarse'"):
        logs.open(timestamps="coarse")
    with pytest.raises(InvalidOptionError, match="segment_size is 131072"):
        logs.open(mode="r", segment_size=131072)
    logs.open(mode="r", timestamps="precise").close()
    logs.open("log").append(b"still opens")


def test_unknown_options_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="segment_sise.*did you mean 'segment_size'"):
        commitlog.open(tmp_path / "log", segment_sise=5)  # type: ignore[call-arg]
    with pytest.raises(InvalidOptionError, match="flush must be one of"):
        commitlog.open(tmp_path / "log", flush="always")  # type: ignore[arg-type]
    with pytest.raises(InvalidOptionError, match="options must be"):
        commitlog.open(tmp_path / "log", options={"flush": "sync"})  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


# --- a second writer ------------------------------------------------------------------------------


@pytest.fixture
def elsewhere() -> Iterator[Callable[[Callable[[], Any]], int]]:
    """Return a function that runs an action in a child process, which lives until the test ends,
    and returns its process id.
    """
    children: list[tuple[int, int]] = []

    def start(action: Callable[[], Any]) -> int:
        ready, ready_out = os.pipe()
        stay, stay_out = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(stay_out)
                kept = action()
                os.write(ready_out, b"+")
                os.read(stay, 1)
                del kept
            finally:
                os._exit(0)
        os.close(ready_out)
        os.close(stay)
        children.append((child, stay_out))
        assert os.read(ready, 1) == b"+"
        os.close(ready)
        return child

    yield start
    for child, stay in children:
        os.close(stay)
        os.waitpid(child, 0)


def test_locked_log_error_names_the_pooled_holder(
    logs: Logs, tmp_path: Path, elsewhere: Callable[..., int]
) -> None:
    child = elsewhere(lambda: open_pooled(tmp_path / "log"))
    for options in ({"pool": logs.pool()}, {}):
        with pytest.raises(LogLockedError, match=f"process {child}") as caught:
            logs.open(**options)
        assert str(child) in str(caught.value.holder)
        assert isinstance(caught.value, BlockingIOError)
    assert logs.pool().available == logs.pool().buffers


def test_locked_log_error_names_a_mapped_holder(
    logs: Logs, tmp_path: Path, elsewhere: Callable[..., int]
) -> None:
    child = elsewhere(lambda: commitlog.open(tmp_path / "log", "a", Options(segment_size=SEGMENT)))
    with pytest.raises(LogLockedError, match=f"process {child}"):
        logs.open(pool=logs.pool())
    logs.open().append(b"a mapped one may")


def test_lock_held_by_the_same_process_is_named_in_the_error(logs: Logs) -> None:
    with logs.open(pool=logs.pool()) as log:
        for options in ({"pool": logs.pool()}, {}):
            with pytest.raises(LogLockedError, match="this process"):
                logs.open(**options)
        log.append(b"unharmed")
    with logs.open(), pytest.raises(LogLockedError, match="this process"):
        logs.open(pool=logs.pool())
    assert list(logs.open(mode="r").tailer().values()) == [b"unharmed"]


def test_mapped_writers_of_several_processes_see_all_records(
    logs: Logs, in_child: Callable[..., Any], tmp_path: Path
) -> None:
    first, second = logs.open(), logs.open()
    assert parts_of(first).engine.slot != parts_of(second).engine.slot

    def write() -> list[bytes]:
        with commitlog.open(tmp_path / "log", "a", Options(segment_size=SEGMENT)) as log:
            log.append_many([b"child %d" % index for index in range(3000)])
            return list(log.tailer().values())

    first.append(b"first")
    second.append(b"second")
    found = in_child(write)
    assert found == [b"first", b"second", *(b"child %d" % index for index in range(3000))]
    second.append(b"last")
    assert list(first.tailer().values()) == list(second.tailer().values()) == [*found, b"last"]
    first.close()
    assert second.append(b"alone") > 0
    second.close()
    assert list(logs.open().tailer().values()) == [*found, b"last", b"alone"]


def test_last_handle_to_close_writes_the_clean_mark(logs: Logs) -> None:
    """Each handle counts its own checkpoints; the last one to close may have the lowest count."""
    first = logs.open(checkpoint_interval=0.001, flush="none")
    for _ in range(5):
        second = logs.open(flush="none")
        for _ in range(3):
            first.append(b"x")
            first.flush()
        first.close()
        second.append(b"y")
        second.close()
        first = logs.open(mode="r")
        mark = checkpoint.read(parts_of(first).directory.fd, first.identity.uuid)
        assert mark is not None
        assert mark.clean
        assert mark.position == second.tail_position
        first.close()
        first = logs.open(checkpoint_interval=0.001, flush="none")


def test_second_handle_never_restores_an_old_clean_mark(logs: Logs) -> None:
    with logs.open() as log:
        log.append(b"one")
    first = logs.open(flush="none")
    second = logs.open(flush="none", checkpoint_interval=0.001)
    for _ in range(4):
        second.append(b"more")
        second.flush()
        mark = checkpoint.read(parts_of(first).directory.fd, first.identity.uuid)
        assert mark is not None
        assert not mark.clean


def test_readers_open_beside_a_pooled_writer(logs: Logs) -> None:
    log = logs.open(pool=logs.pool())
    log.append(b"x")
    log.commit()
    readers = [logs.open(mode="r") for _ in range(3)]
    assert [list(reader.tailer().values()) for reader in readers] == [[b"x"]] * 3


def test_open_waits_while_another_process_opens_the_log(logs: Logs, tmp_path: Path) -> None:
    logs.open().close()
    fd = os.open(tmp_path / "log", os.O_RDONLY)
    lock = LockFile(fd)
    os.close(fd)
    assert lock.acquire("exclusive")
    with pytest.raises(OpenTimeoutError):
        logs.open(wait_for_log=0.02)
    released = threading.Timer(0.02, lock.close)
    released.start()
    logs.open(wait_for_log=10).append(b"came in")
    released.join()


def test_copied_directory_is_an_independent_log(logs: Logs, tmp_path: Path) -> None:
    log = logs.open(allocate_ahead=0)
    log.append(b"both")
    copy_log(tmp_path / "log", tmp_path / "copy")
    log.append(b"original's")
    copy = logs.open("copy")
    copy.append(b"copy's")
    assert list(log.tailer().values()) == [b"both", b"original's"]
    assert list(copy.tailer().values()) == [b"both", b"copy's"]


def test_second_open_in_one_process_logs_a_warning(
    logs: Logs, caplog: pytest.LogCaptureFixture
) -> None:
    def said() -> bool:
        return any(
            "already open for writing in this process" in message for message in caplog.messages
        )

    first = logs.open()
    assert not said()
    second = logs.open()
    assert said()
    first.append(b"one")
    second.append(b"two")
    assert list(first.tailer().values()) == [b"one", b"two"]


@pytest.mark.parametrize("below", ["", "log"])
def test_dangling_link_is_called_a_link(tmp_path: Path, below: str) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(
        NotALogError, match="link is a symbolic link to nowhere, which does not exist"
    ):
        commitlog.open(tmp_path / "link" / below)
    assert [path.name for path in tmp_path.iterdir()] == ["link"]
