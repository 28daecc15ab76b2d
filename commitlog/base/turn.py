"""Turn: work that threads do one after the other, without a deadlock.

Python code is interrupted in its own thread: by a signal handler, by a finaliser that the collector
runs, by a log handler. That code may append, or wait for another thread that appends. If the
interrupted code held a lock that appends need, neither would ever continue.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

# Work takes longer only on a slow disk; then it is done twice.
PATIENCE_S = 0.5
SHORT_S = 0.1  # for work without a flush


class Turn:
    """Let one thread at a time do work that stays correct if two threads do it at once.

    The thread that has the turn gets it again at once. A thread that has waited for `patience_s`
    takes the turn away from the other thread.
    """

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._lock = threading.RLock()

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Have the turn for the length of a `with`."""
        lock = self._lock
        while not lock.acquire(timeout=self._patience_s):  # each round passes one stuck thread
            if self._lock is lock:
                self._lock = threading.RLock()
            lock = self._lock
        try:
            yield
        finally:
            lock.release()

    def forked(self) -> None:
        """In the child of a fork: another thread of the parent may have had the turn."""
        self._lock = threading.RLock()
