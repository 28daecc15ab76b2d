"""Waits that end early: by Ctrl-C, with a message about the state of the record, or by their
timeout.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from commitlog.errors import (
    InUseError,
    SyncTimeoutError,
)
from commitlog.log import closing
from commitlog.log.parts import parts_of
from tests.setups import BY_HAND, HEADER, Logs


@contextlib.contextmanager
def interrupted_when(condition: Callable[[], bool]) -> Iterator[None]:
    """Send SIGINT to this process once, as soon as a condition holds."""
    stop = threading.Event()

    def send() -> None:
        while not stop.is_set() and not condition():
            stop.wait(0.001)
        if not stop.is_set():
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    # An interrupt that arrives in a callback of the collector, such as Hypothesis's, is swallowed.
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        stop.set()
        thread.join()


@pytest.mark.parametrize("idle", ["spin", "yield", "backoff", "block"])
def test_ctrl_c_ends_a_blocked_follow(logs: Logs, idle: Any) -> None:
    log = logs.open()
    tailer = log.tailer()
    log.append(b"one")
    following = tailer.follow(idle=idle)
    assert next(following).value == b"one"

    def waits() -> bool:
        try:
            tailer.direction = "forward"
        except InUseError:
            return True
        return False

    with pytest.raises(KeyboardInterrupt), interrupted_when(waits):
        next(following)
    log.append(b"two")
    assert [record.value for record in tailer] == [b"two"]


def test_ctrl_c_in_sync_wait_notes_that_the_record_stays(logs: Logs) -> None:
    log = logs.open(flush="sync", claim_timeout=60, **BY_HAND)
    with ThreadPoolExecutor(1) as pool:
        # The open claim of another thread keeps the flush from ending.
        claim = pool.submit(log.claim, 5).result()
        with (
            pytest.raises(KeyboardInterrupt) as caught,
            interrupted_when(lambda: log.tail_position > HEADER + 24),
        ):
            log.append(b"stays")
        assert "stays in the log" in caught.value.__notes__[0]
        with claim:
            claim.buffer[:] = b"other"
    log.flush()
    assert list(log.tailer(visibility="flushed").values()) == [b"other", b"stays"]


def test_sync_append_timeout_says_that_the_record_stays(logs: Logs) -> None:
    log = logs.open(flush="sync", sync_timeout=0.02, claim_timeout=60, **BY_HAND)
    with ThreadPoolExecutor(1) as pool:
        claim = pool.submit(log.claim, 5).result()
    with pytest.raises(SyncTimeoutError, match="stays in the log"):
        log.append(b"stays")
    with claim:
        claim.buffer[:] = b"other"
    log.flush()
    assert list(log.tailer(visibility="flushed").values()) == [b"other", b"stays"]


@pytest.mark.parametrize("step", ["seal", "join"])
def test_ctrl_c_during_close_returns_the_buffers(
    logs: Logs, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    pool = logs.pool()
    log = logs.open(pool=pool)
    log.append(b"stays")
    service = parts_of(log).writer.allocation
    assert service is not None

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        if step == "seal":
            patched.setattr(closing, "_seal", interrupt)
        else:
            patched.setattr(service, "join", interrupt)
        with pytest.raises(KeyboardInterrupt):
            log.close()
    assert pool.buffers - pool.available == 0
    # The last service releases the lock.
    assert all(service.join(60) for service in parts_of(log).writer.services)
    assert list(logs.open(pool=pool).tailer().values()) == [b"stays"]
