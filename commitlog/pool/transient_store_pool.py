"""TransientStorePool: the public handle of a pool of buffers."""

from __future__ import annotations

import os
import weakref
from typing import Self

from commitlog.base.keywords import refuses_unknown
from commitlog.base.option import check_switches
from commitlog.base.process_bound import ProcessBound
from commitlog.base.units import Duration
from commitlog.pool.buffer_set import BufferSet
from commitlog.pool.pool_options import Backing, LockMemory, OnExhausted, PoolOptions
from commitlog.stats import PoolStats


@refuses_unknown()
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
        The pool is larger than the free memory, or ``lock_memory="require"`` and the limit does not
        allow it; nothing was allocated.
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
        wait_timeout: Duration = 5.0,
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

    @property
    def buffers(self) -> int:
        """Return the number of buffers, including lent ones."""
        return len(self._set.all)

    @property
    def available(self) -> int:
        """Return the number of free buffers."""
        return len(self._set.free)

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

    def stats(self) -> PoolStats:
        """Take a snapshot of the pool's counters."""
        return self._set.stats()

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
        check_switches(force=force)
        if self._set.process == os.getpid():
            self._set.close(force=force)
            self._finalizer.detach()

    def __enter__(self) -> Self:
        self._set.check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.available} of {self.buffers} free"
        return f"<TransientStorePool: {self.buffer_size} bytes a buffer, {self.backing}, {state}>"


def buffers_of(pool: TransientStorePool) -> BufferSet:
    """Return the buffers of a pool, for the logs that borrow them."""
    return pool._set
