"""ForkLock: a lock that no other thread holds while this process forks."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Generator


class ForkLock:
    """A reentrant lock that a fork acquires, so that no child inherits what it guards half done.

    A signal handler that raises can end the fork's wait for the lock; the interpreter forks
    nevertheless. So a fork waits once more, and releases the lock only if it has it. In the child,
    `after_in_child` is called while this thread has the lock.
    """

    def __init__(self, after_in_child: Callable[[], object] | None = None) -> None:
        self._lock = threading.RLock()
        self._holds: dict[int, Generator[None, None, None]] = {}  # of the threads that fork
        self._after_in_child = after_in_child
        os.register_at_fork(
            before=self._before, after_in_parent=self._release, after_in_child=self._forked
        )

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        return self._lock.acquire(blocking, timeout)

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    # --- a fork -----------------------------------------------------------------------------------

    def _hold(self) -> Generator[None, None, None]:
        # An interrupt leaves the `with`, so a generator that did not yield has no lock.
        with self._lock:
            yield

    def _before(self) -> None:
        thread = threading.get_ident()
        hold = self._holds[thread] = self._hold()
        try:
            next(hold)
        except BaseException:
            hold = self._holds[thread] = self._hold()
            next(hold)
            raise

    def _release(self) -> None:
        hold = self._holds.pop(threading.get_ident(), None)
        if hold is not None:
            hold.close()

    def _forked(self) -> None:
        hold = self._holds.pop(threading.get_ident(), None)
        self._holds = {}
        # If the fork's wait was interrupted, a thread that the child does not have may hold it.
        if self._lock.acquire(blocking=False):
            self._lock.release()
        else:
            self._lock = threading.RLock()
        try:
            if self._after_in_child is not None:
                undisturbed(self._after_in_child)
        finally:
            if hold is not None:
                hold.close()


def undisturbed(step: Callable[[], object]) -> None:
    """Run a step of a fork again if a signal handler interrupted it; then raise what that raised.

    The interpreter ignores the exceptions of fork hooks, but a child must not miss a step.
    """
    try:
        step()
    except BaseException:
        with contextlib.suppress(Exception):
            step()
        raise
