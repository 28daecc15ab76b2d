"""Remove shared-memory buffers whose process was killed before a log recorded their names."""

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
# A new buffer has no life lock yet, so younger ones stay.
_GRACE_S = 60.0
_NO_LOG = bytes(UUID_SIZE)


def _candidates() -> list[str]:
    """List this user's buffers that are older than the grace period."""
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
    """Remove the free buffers of dead pools; return their number. Buffers with records stay."""
    removed = 0
    for name in _candidates():
        # Another process may remove or take it meanwhile.
        with contextlib.suppress(PoolBufferError, OSError):
            if find_buffers([name], _NO_LOG).free:
                discard(name)
                removed += 1
    if removed:
        _logger.info("removed %d shared-memory buffers of dead pools", removed)
    return removed
