"""Abandon: a handle that is abandoned leaves the files that SIGKILL leaves."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog.base.host import Thread, host
from commitlog.log.abandoning import abandon
from commitlog.log.parts import parts_of
from tests.setups import values

RECORDS = 40
# In `cursors`: what differs between two runs of the same program.
_INODE = slice(48, 56)
_SLOT, _PID, _ATTACHED = 8192, slice(12, 16), slice(16, 24)


class _NoThread:
    """A thread that never runs: an abandoned handle has none."""

    ident = None

    def start(self) -> None: ...
    def join(self, timeout: float | None = None) -> None: ...
    def is_alive(self) -> bool:
        return False


@pytest.fixture(autouse=True)
def threadless(monkeypatch: pytest.MonkeyPatch) -> None:
    def thread(name: str, run: Callable[[], object]) -> Thread:
        return _NoThread()

    monkeypatch.setattr(host, "thread", thread)
    monkeypatch.setattr(os, "urandom", bytes)
    monkeypatch.setattr(time, "time_ns", lambda: 1 << 60)


def working(path: Path) -> commitlog.CommitLog:
    """Open a log, append what rolls over a segment, and flush a part of it."""
    log = commitlog.open(path, flush="none")
    for number in range(RECORDS):
        log.append(bytes(4000), key=b"%d" % number, timestamp_ns=number + 1)
        if number == RECORDS // 2:
            log.flush()
    tailer = log.tailer("places", start="first")
    tailer.read()
    return log


def masked(cursors: bytes) -> bytes:
    content = bytearray(cursors)
    content[_INODE] = bytes(8)
    slot = content[_SLOT:]
    slot[_PID], slot[_ATTACHED] = bytes(4), bytes(8)
    content[_SLOT:] = slot
    return bytes(content)


def files(path: Path) -> dict[str, bytes]:
    found = {str(each.relative_to(path)): each for each in path.rglob("*") if each.is_file()}
    content = {name: each.read_bytes() for name, each in found.items()}
    content["cursors"] = masked(content["cursors"])
    # What depends on the time is left out: it was written at different ones.
    records = [content["checkpoint"][at : at + 56] for at in (0, 512)]
    content["checkpoint"] = b"".join(each[24:40] + each[48:52] for each in records)
    content["tailers/places"] = content["tailers/places"][1024:1040]
    return content


def left_by_kill(path: Path) -> dict[str, bytes]:
    child = os.fork()
    if child == 0:
        try:
            log = working(path)
            assert log is not None
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    return files(path)


def test_abandoned_log_leaves_what_a_kill_leaves(tmp_path: Path) -> None:
    commitlog.open(tmp_path / "log", mode="x", segment_size="64KiB", flush="none").close()
    for each in ("killed", "abandoned"):
        shutil.copytree(tmp_path / "log", tmp_path / each / "log")
    log = working(tmp_path / "abandoned" / "log")
    abandon(parts_of(log))
    assert files(tmp_path / "abandoned" / "log") == left_by_kill(tmp_path / "killed" / "log")


def test_abandoned_log_recovers_every_record(tmp_path: Path) -> None:
    commitlog.open(tmp_path, mode="x", segment_size="64KiB", flush="none").close()
    log = working(tmp_path)
    abandon(parts_of(log))
    with pytest.raises(commitlog.errors.ClosedError):
        log.append(b"later")
    with commitlog.open(tmp_path, flush="none") as again:
        assert len(values(again)) == RECORDS
        tailer = again.tailer("places")  # its name is free
        assert tailer.position > again.first_position


def test_other_handle_goes_on_beside_an_abandoned_one(tmp_path: Path) -> None:
    commitlog.open(tmp_path, mode="x", segment_size="64KiB", flush="none").close()
    with commitlog.open(tmp_path, flush="none") as other:
        log = working(tmp_path)
        abandon(parts_of(log))
        other.append(b"more")
        assert len(values(other)) == RECORDS + 1
