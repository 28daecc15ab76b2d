"""How a log borrows from a pool: the one place where segments and pool meet."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import cast

from commitlog.errors import DiskFullError, IOFailureError
from commitlog.pool.buffer import PoolBuffer
from commitlog.pool.transient_store_pool import TransientStorePool
from commitlog.segment.lock_file import Holder, LockFile
from commitlog.segment.mapped_file import MappedFile
from commitlog.segment.segment_buffers import LeasedBuffer

_logger = logging.getLogger("commitlog")


class BufferLeases:
    """Lends a pool's buffers to one log, and keeps the log's `lock` file true about those that
    outlive a kill.

    Parameters
    ----------
    pool : TransientStorePool
        Where the buffers come from.
    owner : str
        The log, in messages about who has a buffer.
    log_uuid : bytes
        Sixteen of them.
    lock_file : LockFile
        Held exclusively.
    holder : Holder
        What the file says of this process so far.
    """

    def __init__(
        self,
        pool: TransientStorePool,
        owner: str,
        log_uuid: bytes,
        lock_file: LockFile,
        holder: Holder,
    ) -> None:
        self._pool = pool
        self._owner = owner
        self._log_uuid = log_uuid
        self._lock_file = lock_file
        self._lock = (
            threading.RLock()
        )  # the garbage collector may give a leaked buffer back in the middle of it
        self._ended = False
        self._holder = dataclasses.replace(holder, pool_names=tuple(pool.shm_names))
        self._lock_file.write(self._holder)
        self._unsubscribe = ExitStack()
        self._unsubscribe.callback(pool.on_grow(self._grown))

    def _note(self, pool_names: tuple[str, ...], lent_names: tuple[str, ...]) -> None:
        self._holder = dataclasses.replace(
            self._holder, pool_names=pool_names, lent_names=lent_names
        )
        self._lock_file.write(self._holder)

    def _grown(self, name: str | None) -> None:
        if name is not None:
            with self._lock:
                self._note((*self._holder.pool_names, name), self._holder.lent_names)

    def reclaim_by(self, give_back_ahead: Callable[[], bool]) -> None:
        """Have this called, until `end`, when a borrower finds the pool empty."""
        self._unsubscribe.callback(self._pool.on_shortage(give_back_ahead))

    def try_lend(self, *, ahead: bool) -> PoolBuffer | None:
        """A free buffer, if there is one now."""
        return self._pool.try_borrow(self._owner, ahead=ahead)

    def lend(self) -> PoolBuffer | None:
        """A buffer by the pool's policy."""
        return self._pool.borrow(self._owner)

    def bind(self, buffer: LeasedBuffer, file: MappedFile) -> None:
        """Write the buffer's name down, then into its header which segment it holds, before the
        first claim in it.
        """
        lent = cast(PoolBuffer, buffer)
        if lent.name is not None:
            with self._lock:
                self._note(self._holder.pool_names, (*self._holder.lent_names, lent.name))
        lent.bind(self._log_uuid, file.base, file.segment.id)

    def settle(self, buffer: LeasedBuffer) -> None:
        """Note that a buffer that was lent ahead is in use."""
        self._pool.settle(cast(PoolBuffer, buffer))

    def give_back(self, buffer: LeasedBuffer, *, written: bool = True) -> None:
        """Return a buffer; what it held is in the segment. After `end` the file is another's to
        write.
        """
        lent = cast(PoolBuffer, buffer)
        lent.unbind()
        if lent.name is not None:
            with self._lock:
                if not self._ended:
                    self._forget(lent.name)
        self._pool.return_buffer(lent, written=written)

    def _forget(self, name: str) -> None:
        """Remove a name from the file; a failure is harmless, because recovery finds it free."""
        try:
            self._note(
                self._holder.pool_names,
                tuple(lent for lent in self._holder.lent_names if lent != name),
            )
        except (DiskFullError, IOFailureError) as error:
            _logger.warning("a buffer was given back, and that could not be noted: %s", error)

    def end(self) -> None:
        """The log is closed, every buffer is back: nothing is left to recover.

        Where that cannot be noted, the next open looks for the buffers, finds them free or gone,
        and warns; closing goes on.
        """
        self._unsubscribe.close()
        with self._lock:
            self._ended = True
            try:
                self._note((), ())
            except (DiskFullError, IOFailureError) as error:
                _logger.warning("the log was closed, and that could not be noted: %s", error)
