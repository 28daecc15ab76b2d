"""Buffers of anonymous memory: the fastest, and lost with the process."""

from __future__ import annotations

import errno
from typing import ClassVar

from commitlog._kernel.memory import Memory
from commitlog.errors import PoolMemoryError
from commitlog.pool.buffer import PoolBuffer


class AnonymousBuffer(PoolBuffer):
    """A buffer without a name; what it holds uncommitted does not survive a kill of the process."""

    backing: ClassVar[str] = "anonymous"

    __slots__ = ()

    @classmethod
    def allocate(cls, size: int) -> AnonymousBuffer:
        """Map a zeroed buffer, not yet populated.

        Raises
        ------
        PoolMemoryError
            The kernel would not promise the memory.
        """
        try:
            return cls(Memory(size))
        except OSError as error:
            if error.errno not in (errno.ENOMEM, errno.EAGAIN):
                raise
            raise PoolMemoryError(
                f"the kernel refuses {size} bytes for a pool buffer ({error}); ask for fewer or "
                "smaller buffers",
                wanted=size,
            ) from error
