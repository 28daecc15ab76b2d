"""Descriptors that stay open until the last call that uses them returns."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from commitlog.errors import ClosedError
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


def test_a_closing_log_does_not_disturb_the_opening_of_another(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    closing = logs.open("closing", flush="none")
    # As far as `close` gets before the log is off the list of those that are open.
    with monkeypatch.context() as patch:
        patch.setattr(closing.directory, "_fd", None)
        logs.open("opened").append(b"x")
