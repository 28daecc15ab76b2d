"""Orphaned shared-memory buffers: their process was killed before a log recorded their names."""

from __future__ import annotations

import contextlib
import logging
import os
import time

from commitlog._kernel.segments import UUID_SIZE
from commitlog.errors import PoolBufferError
from commitlog.pool.shm import discard, find_buffers

_logger = logging.getLogger("commitlog.pool")
_FOLDER = "/dev/shm"
# A buffer has no life lock for a moment after it was created; nothing younger is touched.
_GRACE_S = 60.0
_NOBODY = bytes(UUID_SIZE)


def _candidates() -> list[str]:
    """Names of this user's buffers that are older than the grace."""
    names = []
    with contextlib.suppress(FileNotFoundError), os.scandir(_FOLDER) as entries:
        for entry in entries:
            if not entry.name.startswith("commitlog-"):
                continue
            with contextlib.suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                if status.st_uid == os.geteuid() and time.time() - status.st_mtime > _GRACE_S:
                    names.append(f"/{entry.name}")
    return names


def sweep_orphans() -> int:
    """Remove the free buffers of dead pools. One that holds records stays for its log to recover.

    Returns
    -------
    int
        How many were removed.
    """
    removed = 0
    for name in _candidates():
        # What another process removes or takes meanwhile is that process's business.
        with contextlib.suppress(PoolBufferError, OSError):
            if find_buffers([name], _NOBODY).free:
                discard(name)
                removed += 1
    if removed:
        _logger.info("removed %d shared-memory buffers that dead pools had left", removed)
    return removed
