"""The TransientStorePool: buffers allocated once, lent to segments, zeroed on return."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Self

from commitlog.base.process_bound import ProcessBound
from commitlog.base.units import parse_duration
from commitlog.pool.buffer import BufferState, PoolBuffer
from commitlog.pool.buffer_set import BufferSet
from commitlog.pool.pool_options import Backing, LockMemory, OnExhausted, PoolOptions
from commitlog.stats import PoolStats


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
        self._set = BufferSet(self._options)
        self._finalizer = weakref.finalize(self, self._set.abandon)

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
        return self._set.borrow(owner, seconds)

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
        return self._set.borrow_free(owner, ahead=ahead)

    def settle(self, buffer: PoolBuffer) -> None:
        """Mark a buffer that was lent ahead of need as used."""
        self._set.settle(buffer)

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
        self._set.take(buffer, written=written)

    # Figures.

    @property
    def buffers(self) -> int:
        """Return the number of buffers, including lent ones."""
        return len(self._set.all)

    @property
    def available(self) -> int:
        """Return the number of free buffers."""
        return len(self._set.free)

    @property
    def borrowed(self) -> int:
        """Return the number of buffers that are lent or being zeroed."""
        self._set.check_process()
        return len(self._set.out())

    @property
    def locked(self) -> int:
        """Return the number of buffers that are locked into RAM."""
        return sum(buffer.locked for buffer in self._set.all)

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
        return self._set.closed

    @property
    def shm_names(self) -> tuple[str, ...]:
        """Return the shared-memory names of all buffers; empty for anonymous memory."""
        return tuple(
            buffer.name
            for buffer in list(self._set.all)
            if buffer.name is not None and buffer.state is not BufferState.GONE
        )

    def on_grow(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Call `listener` with the name of each added shared-memory buffer before it is lent.

        If the listener raises, the pool drops the buffer and the borrower gets the exception. Call
        what this returns to end the subscription.
        """
        return self._set.subscribe(self._set.grow_listeners, listener)

    def on_shortage(self, listener: Callable[[], bool]) -> Callable[[], None]:
        """Call `listener` when a borrower finds no free buffer, until what this returns is called.

        If the listener's log has a buffer that was lent ahead of need, the listener gives it back
        to the pool and returns True; otherwise it returns False.
        """
        return self._set.subscribe(self._set.shortage_listeners, listener)

    def stats(self) -> PoolStats:
        """Take a snapshot of the pool's counters."""
        return self._set.stats()

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
        if self._set.process == os.getpid():
            self._set.close(force=force)
            self._finalizer.detach()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.available} of {self.buffers} free"
        return f"<TransientStorePool: {self.buffer_size} bytes a buffer, {self.backing}, {state}>"
