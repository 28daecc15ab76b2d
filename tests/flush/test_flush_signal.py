"""A sleeper that took the flush signal before it looked sleeps until the next flush, no longer."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

import commitlog
from commitlog._kernel.engine import flush_signal, wait_flush
from commitlog.log.parts import parts_of

LONG_S = 60.0


def test_flush_after_the_check_ends_the_wait_at_once(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log") as log, commitlog.open(tmp_path / "log", "r") as reader:
        core, began_s = parts_of(reader).engine, time.monotonic()
        seen = flush_signal(core)
        log.append(b"one", sync=True)
        wait_flush(core, seen, LONG_S)
        assert time.monotonic() - began_s < LONG_S


def test_flush_wakes_a_sleeper(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log") as log, commitlog.open(tmp_path / "log", "r") as reader:
        core, began_s = parts_of(reader).engine, time.monotonic()
        sleeper = threading.Thread(target=wait_flush, args=(core, flush_signal(core), LONG_S))
        sleeper.start()
        while sleeper.is_alive():
            log.append(b"one", sync=True)
        sleeper.join()
        assert time.monotonic() - began_s < LONG_S


def test_log_without_a_signal_sleeps_the_whole_timeout(tmp_path: Path) -> None:
    commitlog.open(tmp_path / "log").close()
    with commitlog.open(tmp_path / "log", "r") as reader:
        core, began_s = parts_of(reader).engine, time.monotonic()
        wait_flush(core, flush_signal(core), 0.01)
        assert time.monotonic() - began_s >= 0.01


@pytest.mark.wing
def test_flush_of_a_copy_raises_its_signal(tmp_path: Path) -> None:
    from commitlog import replication

    with (
        commitlog.open(tmp_path / "log", flush="sync") as log,
        replication.serve(log.path) as server,
        replication.follow(server.url(), tmp_path / "copy") as follower,
        commitlog.open(tmp_path / "copy", "r") as copy,
    ):
        core = parts_of(copy).engine
        seen = flush_signal(core)
        log.append(b"one")
        assert follower.wait(log.flushed_position, LONG_S)
        assert flush_signal(core) != seen
