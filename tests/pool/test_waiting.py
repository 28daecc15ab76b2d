from __future__ import annotations

import threading

import pytest

from commitlog._kernel.memory import Memory
from commitlog.pool import waiting
from commitlog.pool.buffer import AnonymousBuffer, PoolBuffer
from commitlog.pool.waiting import WaitingLine


def test_buffer_handed_over_during_an_interrupt_is_taken_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Interrupting:
        """Hands a buffer over, then raises, like Ctrl-C between the two."""

        def __init__(self, lock: threading.RLock) -> None: ...

        def notify(self) -> None: ...

        def wait(self, seconds: float) -> None:
            assert line.serve(buffer)
            raise KeyboardInterrupt

    lock = threading.RLock()
    line = WaitingLine(lock)
    buffer = AnonymousBuffer(Memory(4096))
    taken_back: list[PoolBuffer] = []
    monkeypatch.setattr(waiting.threading, "Condition", Interrupting)
    with lock, pytest.raises(KeyboardInterrupt):
        line.wait("interrupted", 10.0, taken_back.append)
    assert taken_back == [buffer]
    assert not line.serve(buffer)
    buffer.destroy()


def test_empty_queue_takes_no_buffer() -> None:
    line = WaitingLine(threading.RLock())
    buffer = AnonymousBuffer(Memory(4096))
    assert not line.serve(buffer)
    line.dissolve()
    buffer.destroy()


def test_borrower_that_timed_out_is_not_served_later() -> None:
    lock = threading.RLock()
    line = WaitingLine(lock)
    buffer = AnonymousBuffer(Memory(4096))
    with lock:
        assert line.wait("impatient", 0.0, lambda _: None) is None
        assert not line.serve(buffer)
    buffer.destroy()
