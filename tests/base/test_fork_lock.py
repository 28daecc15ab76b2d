"""Locks over a fork: free in the child, and released only by the fork that acquired them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from commitlog.base import life_lock, service
from commitlog.base.fork_lock import undisturbed
from commitlog.log.registry import registry

LOCKS = {"start": service.start_lock, "life": life_lock._fork_lock}


def lock_of(name: str) -> Any:
    if name == "sockets":
        from commitlog.network.remote import sockets

        return sockets._lock
    return LOCKS[name]


class InterruptError(Exception):
    """What a signal handler raises."""


@pytest.fixture
def alarm(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """Have SIGALRM raise; return what the fork hooks raised."""
    ignored: list[object] = []

    def interrupt(*_: object) -> None:
        raise InterruptError

    monkeypatch.setattr("sys.unraisablehook", lambda event: ignored.append(event.exc_value))
    before = signal.signal(signal.SIGALRM, interrupt)
    yield ignored
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def fork_and_wait(act: Callable[[], object] = lambda: None) -> int:
    child = os.fork()
    if child == 0:
        try:
            act()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1]


@pytest.mark.parametrize("name", [*LOCKS, pytest.param("sockets", marks=pytest.mark.wing)])
def test_interrupted_fork_releases_no_lock_of_another_thread(
    name: str, alarm: list[object]
) -> None:
    lock = lock_of(name)
    held, interrupted = threading.Event(), threading.Event()
    errors: list[RuntimeError] = []

    def hold() -> None:
        try:
            with lock:
                held.set()
                interrupted.wait(60)
        except RuntimeError as error:
            errors.append(error)

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(60)
    threading.Thread(target=lambda: alarm_until_ignored(alarm, interrupted)).start()
    assert fork_and_wait(lambda: lock.acquire(timeout=60)) == 0
    holder.join()
    assert errors == []
    assert [type(error) for error in alarm] == [InterruptError]
    assert lock.acquire(timeout=60)  # free again
    lock.release()


def alarm_until_ignored(ignored: list[object], interrupted: threading.Event) -> None:
    """Interrupt the main thread while it waits in a fork hook, once; then let the fork go on."""
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    while signal.getitimer(signal.ITIMER_REAL)[0]:
        threading.Event().wait(0.001)
    interrupted.set()


def test_interrupted_step_of_a_fork_is_done_again() -> None:
    calls: list[int] = []

    def step() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        undisturbed(step)
    assert len(calls) == 2


def test_interrupted_hook_prepares_every_log_for_the_child() -> None:
    class Log:
        path, inode = "log", None

        def __init__(self) -> None:
            self.calls = 0

        def forked(self) -> None:
            self.calls += 1
            if self.calls == 1:
                raise KeyboardInterrupt

        def close(self) -> None: ...

    logs = [Log(), Log()]
    for log in logs:
        registry.add(log)
    known = registry._logs.copy()
    try:
        with pytest.raises(KeyboardInterrupt):
            registry._forked()
        assert [log.calls for log in logs] == [2, 2]
    finally:
        registry._logs = known
        for log in logs:
            registry.discard(log)
