"""BufferLeases: lend a pool's buffers to the segments of one log."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack

from commitlog.errors import DiskFullError, IOFailureError
from commitlog.pool.buffer import PoolBuffer
from commitlog.pool.transient_store_pool import TransientStorePool
from commitlog.segment.lock_file import Holder, LockFile
from commitlog.segment.mapped_file_queue import MappedFile

_logger = logging.getLogger("commitlog")


class BufferLeases:
    """Lend a pool's buffers to one log; record in its `lock` file those that survive a kill.

    `owner` is the log's name in messages that list the lent buffers. The lock file is held
    exclusively, and `holder` is its present content.
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
        # Reentrant, because the garbage collector may return a leaked buffer while it is held.
        self._lock = threading.RLock()
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

    def _grown(self, name: str) -> None:
        with self._lock:
            self._note((*self._holder.pool_names, name), self._holder.lent_names)

    def reclaim_by(self, give_back_ahead: Callable[[], bool]) -> None:
        """Have this called, until `end`, when a borrower finds the pool empty."""
        self._unsubscribe.callback(self._pool.on_shortage(give_back_ahead))

    def try_lend(self, *, ahead: bool) -> PoolBuffer | None:
        """Lend a buffer if one is free, else None."""
        return self._pool.try_borrow(self._owner, ahead=ahead)

    def lend(self) -> PoolBuffer | None:
        """Lend a buffer by the pool's policy."""
        return self._pool.borrow(self._owner)

    def bind(self, buffer: PoolBuffer, file: MappedFile) -> None:
        """Record the buffer's name, then its segment in its header, before the first claim."""
        if buffer.name is not None:
            with self._lock:
                self._note(self._holder.pool_names, (*self._holder.lent_names, buffer.name))
        buffer.bind(self._log_uuid, file.base, file.segment.id)

    def settle(self, buffer: PoolBuffer) -> None:
        """Note that a buffer that was lent ahead is in use."""
        self._pool.settle(buffer)

    def give_back(self, buffer: PoolBuffer, *, written: bool = True) -> None:
        """Return a buffer whose content is in the segment file, or which has none.

        After `end`, the lock file is not written: another process may hold it.
        """
        buffer.unbind()
        if buffer.name is not None:
            with self._lock:
                if not self._ended:
                    self._forget(buffer.name)
        self._pool.return_buffer(buffer, written=written)

    def _forget(self, name: str) -> None:
        """Remove a name from the file; a failure is harmless: recovery finds the buffer free."""
        try:
            self._note(
                self._holder.pool_names,
                tuple(lent for lent in self._holder.lent_names if lent != name),
            )
        except (DiskFullError, IOFailureError) as error:
            _logger.warning("the return of a buffer could not be recorded: %s", error)

    def end(self) -> None:
        """Record that every buffer is back, and nothing is left to recover.

        If that fails, closing continues; the next open finds the buffers free or gone, and warns.
        """
        self._unsubscribe.close()
        with self._lock:
            self._ended = True
            try:
                self._note((), ())
            except (DiskFullError, IOFailureError) as error:
                _logger.warning(
                    "could not record in the `lock` file that all pool buffers were returned: %s",
                    error,
                )
