"""CacheFolder: a temporary folder for segments, removed with its process or by a later one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile

_PREFIX = "commitlog-"
_MARK = ".segment-cache"  # a folder without this file is not removed by another process


class CacheFolder:
    """Make a temporary folder, and remove those of processes that were killed.

    The process has a lock on its folder, which ends with it.

    Attributes
    ----------
    path : str
        The folder.
    """

    def __init__(self) -> None:
        _sweep(tempfile.gettempdir())
        self.path = tempfile.mkdtemp(prefix=_PREFIX)
        self._fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # without locks, or without a free inode
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # After the lock: who sees the mark and gets the lock knows that the process is gone.
            os.close(os.open(_MARK, os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=self._fd))

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.release()

    def release(self) -> None:
        """Leave the folder to its process, in the child of a fork."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _sweep(place: str) -> None:
    """Remove the folders of this user's killed processes."""
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    _remove_left(entry.path)


def _remove_left(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(fd).st_uid == os.geteuid():
            os.stat(_MARK, dir_fd=fd)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(fd)
