"""The TransientStorePool: buffers allocated once, lent to segments, zeroed when they come back."""

from __future__ import annotations

import dataclasses
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Self, TypeVar

from commitlog.base.process_bound import ProcessBound
from commitlog.base.units import parse_duration
from commitlog.errors import (
    ClosedError,
    ForkedError,
    PoolBufferError,
    PoolExhaustedError,
    PoolMemoryError,
)
from commitlog.pool.allocation import allocate_buffers, destroy_buffers, release_unclosed
from commitlog.pool.buffer import BufferState, PoolBuffer, describe_lent
from commitlog.pool.low_water import LowWaterMark
from commitlog.pool.pool_options import Backing, LockMemory, OnExhausted, PoolOptions
from commitlog.pool.pool_stats import PoolStats
from commitlog.pool.waiting import WaitingLine

_logger = logging.getLogger("commitlog.pool")
_Listener = TypeVar("_Listener", bound=Callable[..., object])


class TransientStorePool(ProcessBound):
    """Lend off-heap buffers, each as large as a segment, to the appenders of pooled logs.

    Appends write to a buffer; the commit thread copies it to the segment's file. The constructor
    allocates and pre-faults all buffers, so that no append waits for a page fault. One pool may
    serve several logs; no log closes it.

    Parameters
    ----------
    buffers : int
        The number of buffers, at least 1.
    buffer_size : int or str
        Bytes, or text like ``"64MiB"``: a multiple of 4 KiB from 64 KiB to 1 GiB. Becomes the
        segment size of logs created with the pool.
    backing : {"anonymous", "shm"}
        Anonymous memory is lost with the process, and so are uncommitted records. Shared memory
        survives a kill of the process (not of the machine), and the next open of the log recovers
        it.
    lock_memory : {"try", "require", "off"}
        Lock the buffers into RAM. ``"try"`` warns if the limit does not allow it: appends may then
        stall while pages are swapped in. ``"require"`` raises instead; ``"off"`` locks nothing.
    on_exhausted : {"wait", "raise", "grow", "mapped"}
        What a borrow does if no buffer is free. "wait": wait up to `wait_timeout`. "raise": raise
        at once. "grow": add a buffer while there are fewer than `max_buffers`, then wait. "mapped":
        use no buffer; appends write through the segment's mapping, with a mapped log's page faults.
    max_buffers : int, optional
        The limit of ``"grow"``; twice `buffers` by default.
    wait_timeout : float or str
        Seconds, or text like ``"500ms"``.
    low_water : float
        Warn if a borrow leaves less than this share of the buffers free; 0 never warns. If lending
        the first buffer already leaves less (a pool of one), the pool does not warn.

    Raises
    ------
    InvalidOptionError
        An option is out of its range or contradicts another.
    PoolMemoryError
        The pool is larger than the free memory; nothing was allocated.
    MemoryLockError
        ``lock_memory="require"``, and the limit does not allow it.
    """

    def __init__(
        self,
        *,
        buffers: int = 5,
        buffer_size: int | str = "64MiB",
        backing: Backing = "anonymous",
        lock_memory: LockMemory = "try",
        on_exhausted: OnExhausted = "wait",
        max_buffers: int | None = None,
        wait_timeout: float | str = 5.0,
        low_water: float = 0.4,
    ) -> None:
        self._options = PoolOptions(
            buffers=buffers,
            buffer_size=buffer_size,
            backing=backing,
            lock_memory=lock_memory,
            on_exhausted=on_exhausted,
            max_buffers=max_buffers,
            wait_timeout=wait_timeout,
            low_water=low_water,
        )
        self._process = os.getpid()
        # Reentrant, because a collector run inside may drop a log, and that returns its buffers.
        self._lock = threading.RLock()
        self._line = WaitingLine(self._lock)
        self._counters = PoolStats()
        self._grow_listeners: list[Callable[[str], None]] = []
        self._shortage_listeners: list[Callable[[], bool]] = []
        self._short = 0  # borrowers that found no free buffer and have none yet
        self._growing = 0
        self._low_water = LowWaterMark(self._options.low_water)
        self._closed = threading.Event()
        self._all = allocate_buffers(self._options, self._options.buffers)
        for index, buffer in enumerate(self._all):
            buffer.index = index
        self._free = self._all[::-1]
        self._finalizer = weakref.finalize(
            self, release_unclosed, self._all, self._closed, self._process
        )

    # Lending.

    def borrow(self, owner: str, timeout: float | str | None = None) -> PoolBuffer | None:
        """Lend a zeroed buffer; if none is free, `on_exhausted` decides.

        Parameters
        ----------
        owner : str
            The borrower's name, for messages that list the lent buffers.
        timeout : float or str, optional
            How long to wait at most, instead of `wait_timeout`.

        Returns
        -------
        PoolBuffer or None
            None only under ``on_exhausted="mapped"``.

        Raises
        ------
        PoolExhaustedError
            No buffer became free in time.
        ClosedError
            The pool is closed, or was closed during the wait.
        ForkedError
            The pool belongs to the parent process.
        """
        seconds = (
            self._options.wait_timeout if timeout is None else parse_duration(timeout, "timeout")
        )
        buffer = self._borrow_free(owner)
        if buffer is not None:
            return buffer
        with self._lock:
            self._short += 1
        try:
            return self._borrow_lent(owner, seconds)
        finally:
            with self._lock:
                self._short -= 1

    def try_borrow(self, owner: str, *, ahead: bool = False) -> PoolBuffer | None:
        """Lend a buffer if one is free, else return None at once.

        Parameters
        ----------
        owner : str
            As for `borrow`.
        ahead : bool
            The borrower does not need it yet. Until `settle`, it counts as free for `low_water`,
            and a listener of `on_shortage` has to return it.

        Raises
        ------
        ClosedError, ForkedError
            As for `borrow`.
        """
        return self._borrow_free(owner, ahead=ahead)

    def settle(self, buffer: PoolBuffer) -> None:
        """Note that a buffer that was lent ahead of need is in use from now on."""
        with self._lock:
            used, buffer.ahead = buffer.ahead, False
            low = used and self._falls_low()
        if low:
            self._warn_of_low_water()

    def return_buffer(self, buffer: PoolBuffer, *, written: bool = True) -> None:
        """Take a buffer back; this thread clears its binding and zeroes it.

        After ``close(force=True)``, returning a lent buffer releases its memory.

        Parameters
        ----------
        buffer : PoolBuffer
            A borrowed one.
        written : bool
            False if the borrower never wrote to it: it is not zeroed then.

        Raises
        ------
        PoolBufferError
            The buffer belongs to another pool, is not borrowed, or a view of it is still open.
            Nothing has changed.
        ClosedError, ForkedError
            As for `borrow`.
        """
        self._check_process()
        with self._lock:
            self._check_returnable(buffer)
            buffer.state = BufferState.RETURNING
        try:
            buffer.unbind()
            if written:
                buffer.memory.zero(0, buffer.size)
        except BaseException:
            buffer.state = BufferState.BORROWED
            raise
        with self._lock:
            self._counters.returns += 1
            if not self._closed.is_set():
                self._make_free(buffer)
                return
        buffer.destroy()

    # Figures.

    @property
    def buffers(self) -> int:
        """Return the number of buffers, including lent ones."""
        return len(self._all)

    @property
    def available(self) -> int:
        """Return the number of free buffers."""
        return len(self._free)

    @property
    def borrowed(self) -> int:
        """Return the number of buffers that are lent or being zeroed."""
        self._check_process()
        return len(self._out())

    @property
    def locked(self) -> int:
        """Return the number of buffers that are locked into RAM."""
        return sum(buffer.locked for buffer in self._all)

    @property
    def buffer_size(self) -> int:
        """Return the bytes of each buffer."""
        return self._options.buffer_size

    @property
    def backing(self) -> Backing:
        """Return the kind of memory: ``"anonymous"`` or ``"shm"``."""
        return self._options.backing

    @property
    def closed(self) -> bool:
        """Return whether `close` was called."""
        return self._closed.is_set()

    @property
    def shm_names(self) -> tuple[str, ...]:
        """Return the shared-memory names of all buffers; empty for anonymous memory."""
        return tuple(
            buffer.name
            for buffer in list(self._all)
            if buffer.name is not None and buffer.state is not BufferState.GONE
        )

    def on_grow(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Call `listener` with the name of each added shared-memory buffer before it is lent.

        If the listener raises, the pool drops the buffer and the borrower gets the exception. Call
        what this returns to end the subscription.
        """
        return self._subscribe(self._grow_listeners, listener)

    def on_shortage(self, listener: Callable[[], bool]) -> Callable[[], None]:
        """Call `listener` when a borrower finds no free buffer, until what this returns is called.

        It returns a buffer that was lent ahead of need to the pool, or returns False if it has
        none.
        """
        return self._subscribe(self._shortage_listeners, listener)

    def _subscribe(self, listeners: list[_Listener], listener: _Listener) -> Callable[[], None]:
        self._check_process()
        with self._lock:
            listeners.append(listener)

        def unsubscribe() -> None:
            with self._lock:
                if listener in listeners:
                    listeners.remove(listener)

        return unsubscribe

    def stats(self) -> PoolStats:
        """Take a snapshot of the pool's counters."""
        self._check_process()
        with self._lock:
            return dataclasses.replace(
                self._counters, buffers=self.buffers, available=self.available, locked=self.locked
            )

    # Closing.

    def close(self, force: bool = False) -> None:
        """Release all buffers and unlink their names.

        A second call does nothing, and neither does a call in the child of a fork.

        Parameters
        ----------
        force : bool
            Close even if buffers are lent: borrowers keep them until they return them. Uncommitted
            records are lost with the process, except in shared memory, from which the next open of
            the log recovers them.

        Raises
        ------
        PoolBufferError
            Buffers are lent, and `force` is not given. The pool stays open.
        """
        if self._process != os.getpid():
            return
        with self._lock:
            if self._closed.is_set():
                return
            out = self._out()
            if out and not force:
                raise PoolBufferError(
                    f"the pool still has buffers out: {describe_lent(out)}; close the logs that "
                    "use the pool first"
                )
            self._closed.set()
            self._finalizer.detach()
            free = list(self._free)
            self._free.clear()
            self._line.dissolve()
        destroy_buffers(free)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.available} of {self.buffers} free"
        return f"<TransientStorePool: {self.buffer_size} bytes a buffer, {self.backing}, {state}>"

    # Internals.

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise ForkedError(
                "this pool belongs to the parent process: create another pool after the fork"
            )

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise ClosedError(
                "the pool is closed: create another, and close it only after the logs that use it"
            )

    def _check_returnable(self, buffer: PoolBuffer) -> None:
        if not isinstance(buffer, PoolBuffer):
            raise PoolBufferError(
                f"only a buffer that this pool lent can be returned, not {type(buffer).__name__}"
            )
        if not 0 <= buffer.index < len(self._all) or self._all[buffer.index] is not buffer:
            raise PoolBufferError(f"{buffer!r} belongs to another pool; return it there")
        if buffer.state is not BufferState.BORROWED:
            self._check_open()
            raise PoolBufferError(
                f"buffer {buffer.index} is not borrowed ({buffer.state.value}); return each "
                "buffer once"
            )
        if buffer.memory.holds:
            raise PoolBufferError(
                f"buffer {buffer.index} still has {buffer.memory.holds} views or users; release "
                "them, then return it"
            )

    def _out(self) -> list[PoolBuffer]:
        return [
            buffer
            for buffer in list(self._all)
            if buffer.state in (BufferState.BORROWED, BufferState.RETURNING)
        ]

    def _borrow_free(self, owner: str, *, ahead: bool = False) -> PoolBuffer | None:
        self._check_process()
        with self._lock:
            self._check_open()
            # A returned buffer goes to a waiting borrower first, so no borrower waits for these.
            if not self._free or (ahead and self._short):
                return None
            buffer = self._free.pop()
            buffer.lend(owner, ahead=ahead)
            self._counters.borrows += 1
            low = not ahead and self._falls_low()
        if low:
            self._warn_of_low_water()
        return buffer

    def _borrow_lent(self, owner: str, seconds: float) -> PoolBuffer | None:
        """Lend a buffer though none is free: one that is lent ahead of need, or by the policy."""
        buffer = self._reclaim(owner)
        if buffer is not None:
            return buffer
        with self._lock:
            self._counters.exhausted += 1
        if self._options.on_exhausted == "mapped":
            return None
        if self._options.on_exhausted == "raise":
            raise PoolExhaustedError(self._exhausted_message("no buffer is free"))
        if self._options.on_exhausted == "grow":
            buffer = self._grow(owner)
        return buffer if buffer is not None else self._wait(owner, seconds)

    def _reclaim(self, owner: str) -> PoolBuffer | None:
        with self._lock:
            listeners = list(self._shortage_listeners)
        for listener in listeners:
            if listener():
                buffer = self._borrow_free(owner)
                if buffer is not None:
                    return buffer
        return None

    def _falls_low(self) -> bool:
        """Whether a loan calls for a warning. Under the lock."""
        low = self._low_water.lent(self._spare(), self.buffers)
        self._counters.low_water_warnings += low
        return low

    def _spare(self) -> int:
        """Free buffers, and those that are given back on demand."""
        return self.available + sum(buffer.ahead for buffer in self._all)

    def _warn_of_low_water(self) -> None:
        _logger.warning(
            "the pool is running low: %d of %d buffers are free; return buffers sooner, or give "
            "the pool more buffers",
            self._spare(),
            self.buffers,
        )

    def _make_free(self, buffer: PoolBuffer) -> None:
        """Lend a zeroed buffer to the first waiting borrower, else free it. Requires the lock."""
        if self._line.serve(buffer):
            self._counters.borrows += 1
            return
        buffer.state = BufferState.FREE
        buffer.owner = None
        buffer.ahead = False
        self._free.append(buffer)
        self._low_water.came_back(self._spare(), self.buffers)

    def _take_back(self, buffer: PoolBuffer) -> None:
        """Undo a loan of which the borrower was not notified."""
        self._counters.borrows -= 1
        self._make_free(buffer)

    def _wait(self, owner: str, seconds: float) -> PoolBuffer:
        started = time.monotonic()
        with self._lock:
            self._check_open()
            if self._free:
                # It was returned since this borrower found none.
                buffer = self._borrow_free(owner)
            else:
                self._counters.waits += 1
                try:
                    buffer = self._line.wait(owner, seconds, self._take_back)
                finally:
                    self._counters.wait_seconds += time.monotonic() - started
            if buffer is None:
                self._check_open()
        if buffer is None:
            raise PoolExhaustedError(
                self._exhausted_message(f"no buffer became free within {seconds:g} s")
            )
        return buffer

    def _exhausted_message(self, what: str) -> str:
        return (
            f"{what}; borrowed buffers: {describe_lent(self._out())}. Commit faster, give the "
            "pool more buffers or a longer wait_timeout, or choose on_exhausted='grow' or 'mapped'"
        )

    def _grow(self, owner: str) -> PoolBuffer | None:
        """Add a buffer and lend it; None if `max_buffers` or the memory does not allow it."""
        with self._lock:
            self._check_open()
            if self.buffers + self._growing >= self._options.most_buffers:
                return None
            self._growing += 1
            listeners = list(self._grow_listeners)
        made: list[PoolBuffer] = []
        try:
            made = allocate_buffers(self._options, 1)
            if made[0].name is not None:
                for listener in listeners:
                    listener(made[0].name)
            with self._lock:
                self._check_open()
                return self._adopt(made.pop(), owner)
        except PoolMemoryError as error:
            _logger.warning(
                "the pool cannot grow beyond %d buffers, so the borrower waits: %s",
                self.buffers,
                error,
            )
            return None
        finally:
            with self._lock:
                self._growing -= 1
            destroy_buffers(made)

    def _adopt(self, buffer: PoolBuffer, owner: str) -> PoolBuffer:
        buffer.index = len(self._all)
        buffer.lend(owner)
        self._all.append(buffer)
        self._counters.borrows += 1
        self._counters.grown += 1
        return buffer
