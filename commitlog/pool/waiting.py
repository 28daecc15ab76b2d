"""WaitingLine: borrowers that wait for a buffer, served first come, first served."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from commitlog.pool.buffer import PoolBuffer


class Waiter:
    """A waiting borrower."""

    __slots__ = ("owner", "buffer", "condition")

    def __init__(self, owner: str, lock: threading.RLock) -> None:
        self.owner = owner
        self.buffer: PoolBuffer | None = None
        self.condition = threading.Condition(lock)


class WaitingLine:
    """The borrowers of an empty pool, in order. All calls require the pool's lock."""

    __slots__ = ("_lock", "_waiters")

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock
        self._waiters: deque[Waiter] = deque()

    def wait(
        self, owner: str, seconds: float, take_back: Callable[[PoolBuffer], None]
    ) -> PoolBuffer | None:
        """Wait for a buffer; None if the line is dissolved or the time passes.

        If an exception (Ctrl-C) ends the wait of a borrower that was just served, `take_back` gets
        the buffer.
        """
        waiter = Waiter(owner, self._lock)
        self._waiters.append(waiter)
        deadline = time.monotonic() + seconds
        try:
            while waiter.buffer is None and waiter in self._waiters:
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                waiter.condition.wait(left)
        except BaseException:
            if waiter.buffer is not None:
                take_back(waiter.buffer)
            raise
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
        return waiter.buffer

    def serve(self, buffer: PoolBuffer) -> bool:
        """Lend the buffer to the first waiting borrower; return False if none waits."""
        if not self._waiters:
            return False
        waiter = self._waiters.popleft()
        buffer.lend(waiter.owner)
        waiter.buffer = buffer
        waiter.condition.notify()
        return True

    def dissolve(self) -> None:
        """Wake every waiting borrower without a buffer."""
        waiters = list(self._waiters)
        self._waiters.clear()
        for waiter in waiters:
            waiter.condition.notify()
