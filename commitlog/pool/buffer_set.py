"""BufferSet: the buffers of a pool; which are free, and to whom the others are lent."""

from __future__ import annotations

import dataclasses
import logging
import os
import threading
import time

from commitlog.errors import ClosedError, ForkedError, PoolBufferError
from commitlog.pool.buffer import BufferState, PoolBuffer, describe_lent
from commitlog.pool.low_water import LowWaterMark
from commitlog.pool.pool_stats import PoolStats
from commitlog.pool.waiting import WaitingLine

_logger = logging.getLogger("commitlog.pool")


class BufferSet:
    """Lend free buffers and take them back; what an empty pool does is not decided here."""

    def __init__(self, buffers: list[PoolBuffer], low_water: float) -> None:
        self.process = os.getpid()
        # Reentrant, because a collector run inside may drop a log, and that returns its buffers.
        self.lock = threading.RLock()
        self.counters = PoolStats()
        self.closed = threading.Event()
        self.all = buffers
        for index, buffer in enumerate(buffers):
            buffer.index = index
        self.free = buffers[::-1]
        self.short = 0  # borrowers that found no free buffer and have none yet
        self._line = WaitingLine(self.lock)
        self._low_water = LowWaterMark(low_water)

    def check_process(self) -> None:
        if self.process != os.getpid():
            raise ForkedError(
                "this pool belongs to the parent process: create another pool after the fork"
            )

    def check_open(self) -> None:
        if self.closed.is_set():
            raise ClosedError(
                "the pool is closed: create another, and close it only after the logs that use it"
            )

    def out(self) -> list[PoolBuffer]:
        """Return the buffers that are lent or being zeroed."""
        return [
            buffer
            for buffer in list(self.all)
            if buffer.state in (BufferState.BORROWED, BufferState.RETURNING)
        ]

    def stats(self) -> PoolStats:
        with self.lock:
            return dataclasses.replace(
                self.counters,
                buffers=len(self.all),
                available=len(self.free),
                locked=sum(buffer.locked for buffer in self.all),
            )

    # Lending.

    def borrow_free(self, owner: str, *, ahead: bool = False) -> PoolBuffer | None:
        """Lend a free buffer; None if there is none."""
        self.check_process()
        with self.lock:
            self.check_open()
            # A returned buffer goes to a waiting borrower first, so no borrower waits for these.
            if not self.free or (ahead and self.short):
                return None
            buffer = self.free.pop()
            buffer.lend(owner, ahead=ahead)
            self.counters.borrows += 1
            low = not ahead and self._falls_low()
        if low:
            self._warn_of_low_water()
        return buffer

    def wait(self, owner: str, seconds: float) -> PoolBuffer | None:
        """Wait for a buffer that another borrower returns; None if the time passes."""
        started = time.monotonic()
        with self.lock:
            self.check_open()
            if self.free:
                # It was returned since this borrower found none.
                buffer = self.borrow_free(owner)
            else:
                self.counters.waits += 1
                try:
                    buffer = self._line.wait(owner, seconds, self._take_back)
                finally:
                    self.counters.wait_seconds += time.monotonic() - started
            if buffer is None:
                self.check_open()
        return buffer

    def adopt(self, buffer: PoolBuffer, owner: str) -> PoolBuffer:
        """Add an allocated buffer and lend it. Requires the lock."""
        buffer.index = len(self.all)
        buffer.lend(owner)
        self.all.append(buffer)
        self.counters.borrows += 1
        self.counters.grown += 1
        return buffer

    def settle(self, buffer: PoolBuffer) -> None:
        """Note that a buffer that was lent ahead of need is in use from now on."""
        with self.lock:
            used, buffer.ahead = buffer.ahead, False
            low = used and self._falls_low()
        if low:
            self._warn_of_low_water()

    # Taking back.

    def take(self, buffer: PoolBuffer, *, written: bool) -> None:
        """Take a buffer back, zeroed by this thread if it was `written`."""
        self.check_process()
        with self.lock:
            self._check_returnable(buffer)
            buffer.state = BufferState.RETURNING
        try:
            buffer.unbind()
            if written:
                buffer.memory.zero(0, buffer.size)
        except BaseException:
            buffer.state = BufferState.BORROWED
            raise
        with self.lock:
            self.counters.returns += 1
            if not self.closed.is_set():
                self._make_free(buffer)
                return
        buffer.destroy()

    def close(self, *, force: bool) -> list[PoolBuffer]:
        """Lend nothing from now on, wake the waiting borrowers, and return the free buffers."""
        with self.lock:
            if self.closed.is_set():
                return []
            out = self.out()
            if out and not force:
                raise PoolBufferError(
                    f"the pool still has buffers out: {describe_lent(out)}; close the logs that "
                    "use the pool first"
                )
            self.closed.set()
            free = list(self.free)
            self.free.clear()
            self._line.dissolve()
        return free

    def _check_returnable(self, buffer: PoolBuffer) -> None:
        if not isinstance(buffer, PoolBuffer):
            raise PoolBufferError(
                f"only a buffer that this pool lent can be returned, not {type(buffer).__name__}"
            )
        if not 0 <= buffer.index < len(self.all) or self.all[buffer.index] is not buffer:
            raise PoolBufferError(f"{buffer!r} belongs to another pool; return it there")
        if buffer.state is not BufferState.BORROWED:
            self.check_open()
            raise PoolBufferError(
                f"buffer {buffer.index} is not borrowed ({buffer.state.value}); return each "
                "buffer once"
            )
        if buffer.memory.holds:
            raise PoolBufferError(
                f"buffer {buffer.index} still has {buffer.memory.holds} views or users; release "
                "them, then return it"
            )

    def _make_free(self, buffer: PoolBuffer) -> None:
        """Lend a zeroed buffer to the first waiting borrower, else free it. Requires the lock."""
        if self._line.serve(buffer):
            self.counters.borrows += 1
            return
        buffer.state = BufferState.FREE
        buffer.owner = None
        buffer.ahead = False
        self.free.append(buffer)
        self._low_water.came_back(self._spare(), len(self.all))

    def _take_back(self, buffer: PoolBuffer) -> None:
        """Undo a loan of which the borrower was not notified."""
        self.counters.borrows -= 1
        self._make_free(buffer)

    # The warning.

    def _falls_low(self) -> bool:
        """Whether a loan calls for a warning. Requires the lock."""
        low = self._low_water.lent(self._spare(), len(self.all))
        self.counters.low_water_warnings += low
        return low

    def _spare(self) -> int:
        """Free buffers, and those that are given back on demand."""
        return len(self.free) + sum(buffer.ahead for buffer in self.all)

    def _warn_of_low_water(self) -> None:
        _logger.warning(
            "the pool is running low: %d of %d buffers are free; return buffers sooner, or give "
            "the pool more buffers",
            self._spare(),
            len(self.all),
        )
