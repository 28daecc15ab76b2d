"""BufferSet: the buffers of a pool; which are free, and which borrowers have the others."""

from __future__ import annotations

import dataclasses
import logging
import os
import time
import warnings
from collections.abc import Callable
from queue import Empty
from typing import TypeVar

from commitlog.base.later_log import LaterLog
from commitlog.base.turn import SHORT_S, Turn
from commitlog.errors import (
    ClosedError,
    CommitLogError,
    ForkedError,
    PoolBufferError,
    PoolExhaustedError,
)
from commitlog.pool.allocation import allocate_buffers, destroy_buffers
from commitlog.pool.buffer import BufferState, PoolBuffer, describe_lent
from commitlog.pool.pool_options import PoolOptions
from commitlog.pool.waiting_line import WaitingLine
from commitlog.stats import PoolStats

_logger = logging.getLogger("commitlog.pool")
_Listener = TypeVar("_Listener", bound=Callable[..., object])


class BufferSet:
    """Lend buffers and take them back; if none is free, act as `on_exhausted` says.

    A signal handler or a finaliser may lend and return buffers while the thread that it interrupts
    does so, too. So each change of a list is one operation, and the turn only orders the borrowers.
    """

    def __init__(self, options: PoolOptions) -> None:
        self.process = os.getpid()
        self._turn = Turn(SHORT_S)
        self._log = LaterLog(_logger)
        self._counters = PoolStats()
        self.closed = False
        self.all = allocate_buffers(options, options.buffers, self._log)
        self.report()
        for index, buffer in enumerate(self.all):
            buffer.index = index
        self.free = self.all[::-1]
        self._grow_listeners: list[Callable[[str], None]] = []
        self._shortage_listeners: list[Callable[[], bool]] = []
        self._options = options
        self.wait_timeout_s = options.wait_timeout
        self._line = WaitingLine(self.free, self._lend)
        self._short = 0  # borrowers that found no free buffer and have none yet
        self._growing = 0
        self._is_low = False  # the warning was logged, and too few buffers were returned since

    def report(self) -> None:
        """Log what the last calls met. Call this while no lock is held."""
        self._log.report()

    def _check_process(self) -> None:
        if self.process != os.getpid():
            raise ForkedError(
                "this pool belongs to the parent process: create another pool after the fork"
            )

    def check_open(self) -> None:
        if self.closed:
            raise ClosedError(
                "the pool is closed: create another, and close it only after the logs that use it"
            )

    def _out(self) -> list[PoolBuffer]:
        """Return the buffers that are lent or being zeroed."""
        return [
            buffer
            for buffer in list(self.all)
            if buffer.state in (BufferState.BORROWED, BufferState.RETURNING)
        ]

    def stats(self) -> PoolStats:
        self._check_process()
        with self._turn.taken():
            return dataclasses.replace(
                self._counters,
                buffers=len(self.all),
                available=len(self.free),
                locked=sum(buffer.locked for buffer in self.all),
            )

    @property
    def shm_names(self) -> tuple[str, ...]:
        """Return the shared-memory names of all buffers; empty for anonymous memory."""
        return tuple(
            buffer.name
            for buffer in list(self.all)
            if buffer.name is not None and buffer.state is not BufferState.GONE
        )

    def on_grow(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Call `listener` with the name of each added shared-memory buffer before it is lent.

        If it raises, the buffer is dropped, and the borrower gets the exception. Call what this
        returns to end the subscription.
        """
        return self._subscribe(self._grow_listeners, listener)

    def on_shortage(self, listener: Callable[[], bool]) -> Callable[[], None]:
        """Call `listener` when a borrower finds no free buffer, until what this returns is called.

        It returns a buffer that was lent ahead of need, if it has one, and then True.
        """
        return self._subscribe(self._shortage_listeners, listener)

    def _subscribe(self, listeners: list[_Listener], listener: _Listener) -> Callable[[], None]:
        self._check_process()
        with self._turn.taken():
            listeners.append(listener)

        def unsubscribe() -> None:
            with self._turn.taken():
                if listener in listeners:
                    listeners.remove(listener)

        return unsubscribe

    # Lending.

    def try_borrow(self, owner: str, *, ahead: bool = False) -> PoolBuffer | None:
        """Lend a free buffer to a borrower of that name; None if there is none.

        One that is lent `ahead` of need counts as free for `low_water` until `settle`, and a
        listener of `on_shortage` has to return it.
        """
        self._check_process()
        with self._turn.taken():
            self.check_open()
            # A returned buffer goes to a waiting borrower first, so no borrower waits for these.
            if ahead and self._short:
                return None
            try:
                buffer = self.free.pop()
            except IndexError:
                return None
            buffer.lend(owner, ahead=ahead)
            self._counters.borrows += 1
            if not ahead:
                self._check_low_water()
        return buffer

    def borrow(self, owner: str, timeout_s: float | None = None) -> PoolBuffer | None:
        """Lend a buffer. If none is free, the policy decides; None if it is to use no buffer.

        If no buffer becomes free within `timeout_s`, by default `wait_timeout`, raise
        `PoolExhaustedError`.
        """
        buffer = self.try_borrow(owner)
        if buffer is not None:
            return buffer
        seconds = self._options.wait_timeout if timeout_s is None else timeout_s
        with self._turn.taken():
            self._short += 1
        try:
            return self._reclaim(owner) or self._borrow_by_policy(owner, seconds)
        finally:
            with self._turn.taken():
                self._short -= 1

    def _reclaim(self, owner: str) -> PoolBuffer | None:
        """Ask for a buffer that is lent ahead of need, and lend it."""
        with self._turn.taken():
            listeners = list(self._shortage_listeners)
        for listener in listeners:
            if listener():
                buffer = self.try_borrow(owner)
                if buffer is not None:
                    return buffer
        return None

    def _borrow_by_policy(self, owner: str, seconds: float) -> PoolBuffer | None:
        policy = self._options.on_exhausted
        with self._turn.taken():
            self._counters.exhausted += 1
        if policy == "mapped":
            return None
        if policy == "raise":
            raise self.exhausted("no buffer is free")
        buffer = self._grow(owner) if policy == "grow" else None
        if buffer is None:
            buffer = self._wait(owner, seconds)
        if buffer is None:
            raise self.exhausted(f"no buffer became free within {seconds:g} s")
        return buffer

    def _grow(self, owner: str) -> PoolBuffer | None:
        """Add a buffer and lend it; None if `max_buffers` or the memory does not allow it."""
        with self._turn.taken():
            self.check_open()
            if len(self.all) + self._growing >= self._options.most_buffers:
                return None
            self._growing += 1
            listeners = list(self._grow_listeners)
        made: list[PoolBuffer] = []
        try:
            made = self._allocate_one()
            if not made:
                return None
            if made[0].name is not None:
                for listener in listeners:
                    listener(made[0].name)
            with self._turn.taken():
                self.check_open()
                buffer = made.pop()
                buffer.lend(owner)
                self.all.append(buffer)
                buffer.index = self.all.index(buffer)
                self._counters.borrows += 1
                self._counters.grown += 1
                return buffer
        finally:
            with self._turn.taken():
                self._growing -= 1
            destroy_buffers(made)

    def _allocate_one(self) -> list[PoolBuffer]:
        """Allocate one buffer; return an empty list if memory or descriptors do not allow it."""
        try:
            return allocate_buffers(self._options, 1, self._log)
        except CommitLogError as error:
            self._log.note(
                logging.WARNING,
                "the pool cannot grow beyond %d buffers, so the borrower waits: %s",
                len(self.all),
                error,
            )
            return []

    def _wait(self, owner: str, seconds: float) -> PoolBuffer | None:
        """Wait for a buffer that another borrower returns; None if the time passes."""
        started = time.monotonic()
        with self._turn.taken():
            self.check_open()
            if self.free:  # it was returned since this borrower found none
                buffer = self.try_borrow(owner)
                if buffer is not None:
                    return buffer
            self._counters.waits += 1
            waiter = self._line.join(owner)
        self._line.serve()  # one may have been returned just before
        try:
            buffer = waiter.inbox.get(timeout=seconds)
        except Empty:
            buffer = self._line.leave(waiter)
        except BaseException:  # Ctrl-C, perhaps after the borrower was served
            buffer = self._line.leave(waiter)
            if buffer is not None:
                self._counters.borrows -= 1
                self._make_free(buffer)
            raise
        finally:
            self._counters.wait_seconds += time.monotonic() - started
        if buffer is None:
            self.check_open()
        return buffer

    def _lend(self, buffer: PoolBuffer, owner: str) -> None:
        buffer.lend(owner)
        self._counters.borrows += 1

    def settle(self, buffer: PoolBuffer) -> None:
        """Mark a buffer that was lent ahead of need as used."""
        with self._turn.taken():
            used, buffer.ahead = buffer.ahead, False
            if used:
                self._check_low_water()

    # Taking back.

    def return_buffer(self, buffer: PoolBuffer, *, written: bool = True) -> None:
        """Take a buffer back, zeroed by this thread if it was `written`.

        If it is of another pool, not borrowed, or a view of it is open, raise `PoolBufferError`.
        After `close`, its memory is released.
        """
        self._check_process()
        with self._turn.taken():
            self._check_returnable(buffer)
            buffer.state = BufferState.RETURNING
        try:
            buffer.unbind()
            if written:
                buffer.memory.zero(0, buffer.size)
        except BaseException:
            buffer.state = BufferState.BORROWED
            raise
        with self._turn.taken():
            self._counters.returns += 1
            if not self.closed:
                self._make_free(buffer)
                return
        buffer.destroy()

    def close(self, *, force: bool) -> None:
        """Lend nothing from now on, wake the waiting borrowers, and release the free buffers."""
        with self._turn.taken():
            if self.closed:
                return
            out = self._out()
            if out and not force:
                raise PoolBufferError(
                    f"buffers of the pool are still lent: {describe_lent(out)}; first close the "
                    "logs that use the pool"
                )
            self.closed = True
            free = self.free.copy()
            self.free.clear()
        self._line.close()
        destroy_buffers(free)

    def abandon(self) -> None:
        """Close a pool that was dropped or is open at exit; lent buffers are released on return."""
        if self.process != os.getpid():
            return
        self.closed = True
        warnings.warn(
            "a TransientStorePool was not closed: use it in a with statement, or call close()",
            ResourceWarning,
            stacklevel=2,
        )
        destroy_buffers([buffer for buffer in self.all if buffer.state is BufferState.FREE])

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
        """Lend a zeroed buffer to the first waiting borrower, else free it."""
        buffer.state = BufferState.FREE
        buffer.owner = None
        buffer.ahead = False
        self.free.append(buffer)
        self._line.serve()
        if self._spare_share() >= self._options.low_water:
            self._is_low = False

    # Messages.

    def _check_low_water(self) -> None:
        """Warn if a loan leaves too few buffers.

        If lending the first buffer always falls below the mark, as in a pool of one, a warning is
        meaningless.
        """
        mark, total = self._options.low_water, len(self.all)
        if self._is_low or not self._spare_share() < mark <= (total - 1) / total:
            return
        self._is_low = True
        self._counters.low_water_warnings += 1
        self._log.note(
            logging.WARNING,
            "the pool is running low: %d of %d buffers are free; return buffers sooner, or give "
            "the pool more buffers",
            self._spare(),
            total,
        )

    def _spare(self) -> int:
        """Count the free buffers, and those that are given back on demand."""
        return len(self.free) + sum(buffer.ahead for buffer in list(self.all))

    def _spare_share(self) -> float:
        return self._spare() / len(self.all)

    def exhausted(self, what: str) -> PoolExhaustedError:
        """Return the error of a borrower that got no buffer."""
        return PoolExhaustedError(
            f"{what}; borrowed buffers: {describe_lent(self._out())}. Commit faster, give "
            "the pool more buffers or a longer wait_timeout, or choose on_exhausted='grow' or "
            "'mapped'"
        )
