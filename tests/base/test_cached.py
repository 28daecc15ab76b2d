"""Cached properties: computed once, and never behind a lock that a fork could leave locked."""

from __future__ import annotations

import os
import signal
import threading

from commitlog.base.cached import Cached


class Slow:
    """Has a value that is computed while `leave` is not set."""

    def __init__(self) -> None:
        self.entered, self.leave = threading.Event(), threading.Event()
        self.calls = 0

    @Cached
    def value(self) -> int:
        """Seven."""
        self.calls += 1
        self.entered.set()
        assert self.leave.wait(60)
        return 7


def test_second_access_computes_nothing() -> None:
    slow = Slow()
    slow.leave.set()
    assert [slow.value, slow.value, slow.calls] == [7, 7, 1]
    assert isinstance(Slow.value, Cached)
    assert Slow.value.__doc__ == "Seven."


def test_fork_while_a_thread_computes_blocks_no_child() -> None:
    slow, other = Slow(), Slow()
    other.leave.set()
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    assert slow.entered.wait(60)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(10)  # kills a child that waits for the thread of its parent
            status = other.value
        finally:
            os._exit(status)
    status = os.waitpid(child, 0)[1]
    slow.leave.set()
    thread.join(60)
    assert os.waitstatus_to_exitcode(status) == 7
