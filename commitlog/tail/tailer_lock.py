"""TailerLock: one tailer per name, even if readers place shared locks on the tailer's file."""

from __future__ import annotations

import os

from commitlog.base.life_lock import LifeLock, is_held, open_gate
from commitlog.base.regular_file import open_regular
from commitlog.segment import lock_file
from commitlog.segment.lock_file import tailer_span


class TailerLockedError(Exception):
    """The file is locked.

    `owned`: a tailer certainly has the lock. If not, it may be a reader's shared lock: this user
    cannot open `lock`, which distinguishes them.
    """

    def __init__(self, owned: bool) -> None:
        super().__init__(owned)
        self.owned = owned


class TailerLock:
    """A tailer's file, open and locked against other tailers until `close` or the process's death.

    Usually this is an exclusive lock on the file. If a reader has a shared lock there, the owner
    takes a shared lock, too, which excludes exclusive locks, and locks the file's byte in `lock`.
    If another process or tailer has the lock, raise `TailerLockedError`.
    """

    def __init__(self, dir_fd: int, folder_fd: int, name: str) -> None:
        self._file = LifeLock(lambda: open_regular(name, os.O_RDWR, dir_fd=folder_fd), kind=None)
        self._byte: LifeLock | None = None
        try:
            if not self._file.acquire("exclusive"):
                self._share(dir_fd)
        except BaseException:
            self.close()
            raise

    def _share(self, dir_fd: int) -> None:
        if is_held(self.descriptor, against="shared"):
            raise TailerLockedError(owned=True)
        span = tailer_span(os.fstat(self.descriptor).st_ino)
        try:
            self._byte = LifeLock(
                lambda: open_gate(lock_file.NAME, dir_fd, create=False), span=span
            )
        except BlockingIOError:
            raise TailerLockedError(owned=True) from None
        except OSError:
            raise TailerLockedError(owned=False) from None
        if not self._file.acquire("shared"):
            raise TailerLockedError(owned=True)

    @property
    def descriptor(self) -> int:
        """Return the descriptor of the tailer's file."""
        return self._file.descriptor

    def close(self) -> None:
        """Release the name. Idempotent."""
        self._file.close()
        if self._byte is not None:
            self._byte.close()


def is_owned(dir_fd: int, fd: int) -> bool:
    """Return whether a tailer owns the open file.

    If this user cannot open `lock`, a reader's lock counts as a tailer's.
    """
    if is_held(fd, against="shared") or not is_held(fd):
        return is_held(fd)
    owned = lock_file.asked(dir_fd, tailer_span(os.fstat(fd).st_ino))
    return True if owned is None else owned
