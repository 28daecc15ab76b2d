"""Locks on a folder, by the `flock` of an open descriptor."""

from __future__ import annotations

import fcntl


def lock_folder(folder_fd: int, kind: int) -> bool:
    """Lock a folder; return False if another process has a lock that excludes this one."""
    try:
        fcntl.flock(folder_fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
