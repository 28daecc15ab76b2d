"""Worker: a process's part in a queue: its place in the leases, which ends with the process."""

from __future__ import annotations

import os
import threading
import time
import weakref

from commitlog.base.life_lock import LifeLock
from commitlog.queues.compiled.leases import Lease, LeaseTable
from commitlog.queues.leases_file import LeasesFile


def boot_ns() -> int:
    """Return nanoseconds since the machine began, with the time that it slept."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


_workers: weakref.WeakSet[Worker] = weakref.WeakSet()


class Worker:
    """Have a place among the workers of a queue. The child of a fork takes one of its own.

    Attributes
    ----------
    closed : bool
        The queue was closed here.
    """

    def __init__(self, file: LeasesFile, *, reads_only: bool) -> None:
        self.file = file
        self.reads_only = reads_only
        self._lock: LifeLock | None = None
        self._joining = threading.Lock()
        self.closed = False
        _workers.add(self)

    @property
    def table(self) -> LeaseTable:
        return self.file.table

    @property
    def number(self) -> int:
        return int(self.table.worker)

    @property
    def is_joined(self) -> bool:
        """Whether this process has a place."""
        return self._lock is not None

    def join(self) -> list[Lease]:
        """Take a place; return the jobs that a dead worker was about to accept there."""
        with self._joining:
            if self._lock is not None:
                return []
            number, lock = self.file.take_worker()
            try:
                accepting: list[Lease] = self.table.become(number, os.getpid(), boot_ns())
            except BaseException:
                lock.close()
                raise
            self._lock = lock
            return accepting

    def leave(self) -> None:
        """Give the place up."""
        with self._joining:
            lock, self._lock = self._lock, None
            if lock is not None:
                self.table.leave()
                lock.close()

    def forked(self) -> None:
        """In the child of a fork: the place is the parent's."""
        self.table.leave()
        self._lock = None
        self._joining = threading.Lock()


def _forked() -> None:
    for worker in list(_workers):
        worker.forked()


os.register_at_fork(after_in_child=_forked)
