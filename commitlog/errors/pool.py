"""The exceptions of a `TransientStorePool`."""

from __future__ import annotations

import errno as codes

from commitlog.errors.base import CommitLogError
from commitlog.errors.base import SystemCallError as _SystemError


class PoolExhaustedError(_SystemError, TimeoutError, errno=codes.ETIMEDOUT):
    """Raised if no buffer of the pool becomes free in time.

    Give the pool more buffers or a longer timeout, or use `on_exhausted="grow"` or `"mapped"`.
    """


class PoolMemoryError(CommitLogError, MemoryError):
    """Raised if the pool exceeds the free memory or a limit: the cgroup's, or with
    `lock_memory="require"` that of locked memory.

    Use fewer or smaller buffers, or raise the limit that the message names.

    Attributes
    ----------
    wanted, available : int or None
        The size of the pool, and the memory that was available, in bytes.
    """

    wanted: int | None = None
    available: int | None = None


class PoolBufferError(CommitLogError, ValueError):
    """Raised if a pool is closed while logs use its buffers. The pool stays open.

    Close the logs first.
    """
