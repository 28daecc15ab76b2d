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
    """Raised if the pool exceeds the free memory or the cgroup's limit.

    Use fewer or smaller buffers.

    Attributes
    ----------
    wanted, available : int or None
        The size of the pool, and the memory that was available, in bytes.
    """

    wanted: int | None = None
    available: int | None = None


class MemoryLockError(_SystemError, errno=codes.ENOMEM):
    """Raised if `lock_memory="require"` cannot lock the pool's buffers.

    Raise the limit that the message names, or use `"try"`.
    """


class PoolBufferError(CommitLogError, ValueError):
    """Raised if a buffer is returned twice, returned to another pool, or still in use.

    `close` also raises it while buffers are lent. The pool is unchanged.
    """
