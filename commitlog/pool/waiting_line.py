"""WaitingLine: the borrowers that wait for a pool's buffer, served in their order."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue

from commitlog.pool.buffer import PoolBuffer

_SERVED_S = 1.0  # until a thread that serves a borrower has done so


class Waiter:
    """A waiting borrower, with an inbox of its own."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        # Gets a buffer, or None once the pool is closed. This queue may be filled at any time, also
        # by a finaliser that interrupts it.
        self.inbox: SimpleQueue[PoolBuffer | None] = SimpleQueue()


class WaitingLine:
    """Serve the waiting borrowers from the `free` buffers; `lend` gives a buffer to one of them."""

    def __init__(self, free: list[PoolBuffer], lend: Callable[[PoolBuffer, str], None]) -> None:
        self._free = free
        self._lend = lend
        self._waiting: deque[Waiter] = deque()

    def join(self, owner: str) -> Waiter:
        waiter = Waiter(owner)
        self._waiting.append(waiter)
        return waiter

    def leave(self, waiter: Waiter) -> PoolBuffer | None:
        """Wait no longer; return the buffer if the borrower was served meanwhile."""
        with contextlib.suppress(ValueError):
            self._waiting.remove(waiter)
            return None
        with contextlib.suppress(Empty):
            return waiter.inbox.get(timeout=_SERVED_S)
        return None

    def serve(self) -> None:
        """Lend the free buffers to the waiting borrowers."""
        while self._waiting and self._free:  # each round passes one of them
            try:
                buffer = self._free.pop()
            except IndexError:
                return
            try:
                waiter = self._waiting.popleft()
            except IndexError:
                self._free.append(buffer)
                continue
            self._lend(buffer, waiter.owner)
            waiter.inbox.put(buffer)

    def close(self) -> None:
        """End all waits without a buffer."""
        with contextlib.suppress(IndexError):
            while True:
                self._waiting.popleft().inbox.put(None)
