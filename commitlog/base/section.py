"""Section: code that one thread at a time runs, and that cannot interrupt itself.

`commitlog/base/turn.py` says which code interrupts a thread. If that code calls a function that the
thread is in already, a lock would block the thread without end.
"""

from __future__ import annotations

import contextlib
import enum
import threading
from collections.abc import Iterator


class Entry(enum.Enum):
    """How a thread met a section."""

    ENTERED = "entered"
    NESTED = "nested"  # this thread is in it already
    LATE = "late"  # another thread was still in it when the time was over


class Section:
    """Admit one thread at a time. It never blocks the thread that is in it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._busy = False

    @contextlib.contextmanager
    def entered(self, timeout_s: float = -1) -> Iterator[Entry]:
        """Be in the section for the length of a `with`, if the result is `ENTERED`.

        Wait at most `timeout_s` seconds for another thread; without end if it is negative.
        """
        lock = self._lock
        if not lock.acquire(timeout=max(timeout_s, -1)):
            yield Entry.LATE
            return
        try:
            if self._busy:  # by this thread: the lock keeps others away
                yield Entry.NESTED
                return
            self._busy = True
            try:
                yield Entry.ENTERED
            finally:
                self._busy = False
        finally:
            lock.release()

    def forked(self) -> None:
        """In the child of a fork: another thread of the parent may have been in it."""
        self._lock = threading.RLock()
        self._busy = False
