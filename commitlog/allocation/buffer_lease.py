"""BufferLeases: which of a pool's buffers are lent to a log, in the log's `lock` file."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from contextlib import ExitStack

from commitlog.base.later_log import LaterLog
from commitlog.base.turn import SHORT_S, Turn
from commitlog.errors import ClosedError, DiskFullError, IOFailureError
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
        self._turn = Turn(SHORT_S)
        self._log = LaterLog(_logger)
        self._ended = False
        self._holder = holder
        # Dictionaries, each change of which is one operation: a signal handler or a finaliser may
        # lend or return a buffer while the thread that it interrupts does so, too.
        self._pool_names = dict.fromkeys(pool.shm_names)
        self._lent_names: dict[str, None] = {}
        self._record()
        self._unsubscribe = ExitStack()
        self._unsubscribe.callback(pool.on_grow(self._record_growth))

    def _record(self) -> None:
        """Write the names into the file, and again if they change meanwhile."""
        with self._turn.taken():
            written: Holder | None = None
            # Few changes are possible during one write.
            while not self._ended and written != (now := self._now()):
                self._lock_file.write(now)
                written = now

    def _now(self) -> Holder:
        return dataclasses.replace(
            self._holder,
            pool_names=tuple(self._pool_names.copy()),
            lent_names=tuple(self._lent_names.copy()),
        )

    def _record_growth(self, name: str) -> None:
        self._pool_names[name] = None
        self._record()

    def reclaim_by(self, give_back_ahead: Callable[[], bool]) -> None:
        """Have this called, until `end`, when a borrower finds the pool empty."""
        self._unsubscribe.callback(self.pool.on_shortage(give_back_ahead))

    def bind(self, buffer: PoolBuffer, file: MappedFile) -> None:
        """Record the buffer's name, then its segment in its header, before the first claim."""
        if buffer.name is not None:
            self._lent_names[buffer.name] = None
            self._record_open()
        buffer.bind(self._log_uuid, file.base, file.segment.id)

    def _record_open(self) -> None:
        try:
            self._record()
        except IOFailureError as error:
            if not self._ended:
                raise
            # A signal handler has closed the log, and the file with it.
            why = "the log is closed: open it again"
            raise ClosedError(why, path=error.path) from error

    def give_back(self, buffer: PoolBuffer, *, written: bool = True) -> None:
        """Return a buffer whose content is in the segment file, or which has none.

        After `end`, the lock file is not written: another process may hold it.
        """
        buffer.unbind()
        if buffer.name in self._lent_names:
            self._lent_names.pop(buffer.name, None)
            self._try_to_record("the return of a buffer could not be recorded: %s")
        self.pool.return_buffer(buffer, written=written)

    def _try_to_record(self, otherwise: str) -> None:
        """Write the file; a failure is harmless: the next open finds the buffers free or gone."""
        try:
            self._record()
        except (DiskFullError, IOFailureError) as error:
            self._log.note(logging.WARNING, otherwise, error)

    def report(self) -> None:
        """Log what could not be recorded. Call this while no lock is held."""
        self._log.report()
        self.pool.report()

    def end(self) -> None:
        """Record that every buffer is back, and nothing is left to recover.

        If that fails, closing continues; the next open finds the buffers free or gone, and warns.
        """
        self._unsubscribe.close()
        self._pool_names, self._lent_names = {}, {}
        self._try_to_record(
            "could not record in the `lock` file that all pool buffers were returned: %s"
        )
        self._ended = True
