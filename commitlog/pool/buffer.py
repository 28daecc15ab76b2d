"""PoolBuffer: off-heap memory as large as a segment, and its borrower."""

from __future__ import annotations

import enum
import errno
import time
from typing import ClassVar, Self

from commitlog._kernel.memory import Memory
from commitlog.errors import PoolMemoryError


class BufferState(enum.Enum):
    FREE = "free"  # zeroed, in the pool
    BORROWED = "borrowed"
    RETURNING = "returning"  # being zeroed
    GONE = "gone"  # its memory is released


class PoolBuffer:
    """A buffer of a `TransientStorePool`, from `borrow`; give it back with `return_buffer`.

    The bytes of `memory` are all zero when it is borrowed. `name` is the shared-memory name by
    which the next open finds it after a kill. Only the pool changes the other attributes. `ahead`:
    it is lent ahead of need and still unused, and its borrower returns it on demand.

    This one is anonymous: its uncommitted records do not survive a kill of the process.
    """

    backing: ClassVar[str] = "anonymous"

    __slots__ = (
        "index",
        "memory",
        "size",
        "name",
        "state",
        "owner",
        "borrowed_at",
        "locked",
        "ahead",
    )

    def __init__(self, memory: Memory, name: str | None = None) -> None:
        self.index = -1
        self.memory = memory
        self.size = memory.size
        self.name = name
        self.state = BufferState.FREE
        self.owner: str | None = None
        self.borrowed_at = 0.0
        self.locked = False
        self.ahead = False

    @classmethod
    def allocate(cls, size: int) -> Self:
        """Map a zeroed buffer, not yet populated."""
        try:
            return cls(Memory(size))
        except OSError as error:
            if error.errno not in (errno.ENOMEM, errno.EAGAIN):
                raise
            raise PoolMemoryError(
                f"cannot allocate {size} bytes for a pool buffer ({error}): use fewer or "
                "smaller buffers",
                wanted=size,
            ) from error

    @property
    def bound(self) -> bool:
        """Return whether its header names a segment whose records it holds."""
        return False

    def bind(self, log_uuid: bytes, base: int, segment_id: int) -> None:
        """Record the buffer's segment in its header, before the first claim; anonymous memory has
        none. A buffer that is not borrowed, or is bound already, is a `PoolBufferError`.
        """

    def unbind(self) -> None:
        """Record that all records of the buffer are committed, and none is left to recover.

        The pool does so, too, when the buffer is returned.
        """

    def lend(self, owner: str, *, ahead: bool = False) -> None:
        """Mark the buffer as borrowed. Only the pool calls this, under its lock."""
        self.state = BufferState.BORROWED
        self.ahead = ahead
        self.owner = owner
        self.borrowed_at = time.monotonic()

    def destroy(self) -> None:
        """Release the memory once no view is open. Only the pool calls this."""
        self.state = BufferState.GONE
        try:
            self.memory.close()
        except BufferError:
            return

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.index}: {self.size} bytes, {self.state.value}>"


def describe_lent(buffers: list[PoolBuffer]) -> str:
    """Name each borrower, and since when, for a message."""
    now = time.monotonic()
    lent = (
        f"buffer {buffer.index} by {buffer.owner!r} for {now - buffer.borrowed_at:.1f} s"
        for buffer in buffers
    )
    return ", ".join(lent) or "none"
