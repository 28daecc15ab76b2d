"""BufferLeases: which of a pool's buffers are lent to a log, in the log's `lock` file."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack

from commitlog.errors import DiskFullError, IOFailureError
from commitlog.pool.buffer import PoolBuffer
from commitlog.pool.buffer_set import BufferSet
from commitlog.segment.lock_file import Holder, LockFile
from commitlog.segment.mapped_file_queue import MappedFile

_logger = logging.getLogger("commitlog")


class BufferLeases:
    """Bind a pool's buffers to the segments of one log, and take them back; record in its `lock`
    file those that survive a kill.

    `owner` is the log's name in messages that list the lent buffers. The lock file is held
    exclusively, and `holder` is its present content.
    """

    def __init__(
        self,
        pool: BufferSet,
        owner: str,
        log_uuid: bytes,
        lock_file: LockFile,
        holder: Holder,
    ) -> None:
        self.pool = pool
        self.owner = owner
        self._log_uuid = log_uuid
        self._lock_file = lock_file
        # Reentrant, because the garbage collector may return a leaked buffer while it is held.
        self._lock = threading.RLock()
        self._ended = False
        self._holder = dataclasses.replace(holder, pool_names=tuple(pool.shm_names))
        self._lock_file.write(self._holder)
        self._unsubscribe = ExitStack()
        self._unsubscribe.callback(pool.on_grow(self._grown))

    def _note(self, **names: tuple[str, ...]) -> None:
        self._holder = dataclasses.replace(self._holder, **names)  # type: ignore[arg-type]
        self._lock_file.write(self._holder)

    def _grown(self, name: str) -> None:
        with self._lock:
            self._note(pool_names=(*self._holder.pool_names, name))

    def reclaim_by(self, give_back_ahead: Callable[[], bool]) -> None:
        """Have this called, until `end`, when a borrower finds the pool empty."""
        self._unsubscribe.callback(self.pool.on_shortage(give_back_ahead))

    def bind(self, buffer: PoolBuffer, file: MappedFile) -> None:
        """Record the buffer's name, then its segment in its header, before the first claim."""
        if buffer.name is not None:
            with self._lock:
                self._note(lent_names=(*self._holder.lent_names, buffer.name))
        buffer.bind(self._log_uuid, file.base, file.segment.id)

    def give_back(self, buffer: PoolBuffer, *, written: bool = True) -> None:
        """Return a buffer whose content is in the segment file, or which has none.

        After `end`, the lock file is not written: another process may hold it.
        """
        buffer.unbind()
        if buffer.name is not None:
            with self._lock:
                if not self._ended:
                    self._forget(buffer.name)
        self.pool.return_buffer(buffer, written=written)

    def _forget(self, name: str) -> None:
        """Remove a name from the file; a failure is harmless: recovery finds the buffer free."""
        try:
            self._note(lent_names=tuple(lent for lent in self._holder.lent_names if lent != name))
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
                self._note(pool_names=(), lent_names=())
            except (DiskFullError, IOFailureError) as error:
                _logger.warning(
                    "could not record in the `lock` file that all pool buffers were returned: %s",
                    error,
                )
