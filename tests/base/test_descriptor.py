"""What a log holds of its directory: for as long as a call uses it, and no longer than until
`close`.
"""

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


def test_closing_a_directory_waits_for_calls_that_use_it(files: LogFiles) -> None:
    fd = files.directory.fd
    files.directory.close()
    assert os.listdir(fd) == os.listdir(files.directory.path)
    with pytest.raises(ClosedError):
        files.directory.names()
    number = int(fd)
    del fd
    assert not is_open(number)


def test_a_closing_log_does_not_disturb_the_opening_of_another(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    closing = logs.open("closing", flush="none")
    # As far as `close` gets before the log is off the list of those that are open.
    with monkeypatch.context() as patch:
        patch.setattr(parts_of(closing).directory, "_fd", None)
        logs.open("opened").append(b"x")


def held_in(folder: Path) -> list[str]:
    """Mappings and descriptors of files in a folder."""
    maps = [line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()]
    links = []
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # another thread has just closed it
            links.append(os.readlink(entry))
    return [name for name in maps + links if name.startswith(str(folder))]


@pytest.mark.parametrize("mode", ["a", "r"])
def test_a_closed_log_holds_nothing_of_its_directory(logs: Logs, mode: str) -> None:
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
def test_a_closed_log_keeps_its_files_for_a_call_in_the_kernel(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = logs.open(flush="none")
    stop = parts_of(log).engine.stop
    monkeypatch.setattr(parts_of(log).writer, "_engine", SimpleNamespace(stop=lambda: None))
    thread = threading.Thread(
        target=parts_of(log).engine.run_flush_loop, args=(60 * 10**9, 60 * 10**9, 1 << 30)
    )
    thread.start()
    log.append(b"x")
    log.close()
    assert not parts_of(log).directory.closed
    assert parts_of(log).engine.cursors.shared
    stop()
    thread.join()
    assert parts_of(log).directory.closed
    assert held_in(logs.path) == []
