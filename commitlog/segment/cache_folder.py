"""CacheFolder: a temporary folder for segments, removed with its process or by a later one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile

_NEW = "commitlog-"
_LOCKED = "commitlog-segments-"  # only a folder with such a name is removed by another process
_MODE = 0o700  # as `mkdtemp` makes folders


class CacheFolder:
    """Make a temporary folder, and remove those of processes that were killed.

    The process has a lock on its folder, which ends with it.

    Attributes
    ----------
    path : str
        The folder.
    """

    def __init__(self) -> None:
        place = tempfile.gettempdir()
        _sweep(place)
        self.path = tempfile.mkdtemp(prefix=_NEW, dir=place)
        self._fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # After the lock: who sees the name and gets the lock knows that the process is gone.
            name = _LOCKED + os.path.basename(self.path).removeprefix(_NEW)
            os.rename(self.path, os.path.join(place, name))
            self.path = os.path.join(place, name)

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
            if entry.name.startswith(_LOCKED) and entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    _remove_left(entry.path)


def _remove_left(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        if (status.st_uid, stat.S_IMODE(status.st_mode)) == (os.geteuid(), _MODE):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(fd)
