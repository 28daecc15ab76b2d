"""A log's directory descriptor: kept while a call uses it, and released by `close`."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from commitlog.errors import ClosedError
from commitlog.log.parts import parts_of
from tests.log_files import LogFiles
from tests.setups import Logs


def is_open(number: int) -> bool:
    return Path(f"/proc/self/fd/{number}").exists()


def test_closed_directory_stays_open_for_a_running_call(files: LogFiles) -> None:
    fd = files.directory.fd
    files.directory.close()
    assert os.listdir(fd) == os.listdir(files.directory.path)
    with pytest.raises(ClosedError):
        files.directory.names()
    number = int(fd)
    del fd
    assert not is_open(number)


def test_open_beside_a_closing_log_succeeds(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    closing = logs.open("closing", flush="none")
    # The state of a log whose `close` runs, before it is off the list of open logs.
    with monkeypatch.context() as patch:
        patch.setattr(parts_of(closing).directory, "_fd", None)
        logs.open("opened").append(b"x")


def held_in(folder: Path) -> list[str]:
    """Return the mappings and descriptors of files in a folder."""
    maps = [line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()]
    links = []
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # another thread has just closed it
            links.append(os.readlink(entry))
    return [name for name in maps + links if name.startswith(str(folder))]


@pytest.mark.parametrize("mode", ["a", "r"])
def test_closed_log_releases_its_descriptors_and_mappings(logs: Logs, mode: str) -> None:
    with logs.open() as writer:
        writer.append(b"x")
        log = logs.open(mode=mode)
        tailer = log.tailer("name")
        assert tailer.read().value == b"x"
        position = log.tail_position
        tailer.close()
        log.close()
    assert held_in(logs.path) == []
    assert (log.tail_position, tailer.dropped_records) == (position, 0)


@pytest.mark.usefixtures("no_other_holders")
def test_closed_log_keeps_its_files_for_a_running_kernel_call(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = logs.open(flush="none")
    stop = parts_of(log).engine.stop
    monkeypatch.setattr(
        parts_of(log).writer, "_engine", SimpleNamespace(stop=lambda: None, copies=None)
    )
    thread = threading.Thread(
        target=parts_of(log).engine.run_flush_loop, args=(60 * 10**9, 60 * 10**9, 1 << 30)
    )
    thread.start()
    log.append(b"x")
    log.close()
    assert parts_of(log).directory.fd >= 0
    assert parts_of(log).engine.cursors.shared
    stop()
    thread.join()
    with pytest.raises(ClosedError):
        _ = parts_of(log).directory.fd
    assert held_in(logs.path) == []
