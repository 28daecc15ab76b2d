"""One buffer of a pool: off-heap memory as large as a segment, and its borrower."""

from __future__ import annotations

import enum
import errno
import time
from collections.abc import Iterable
from typing import ClassVar

from commitlog._kernel.memory import Memory
from commitlog.errors import PoolMemoryError


class BufferState(enum.Enum):
    """Where a buffer is in its round."""

    FREE = "free"  # zeroed, in the pool
    BORROWED = "borrowed"
    RETURNING = "returning"  # being zeroed
    GONE = "gone"  # its memory is released


class PoolBuffer:
    """A buffer of a `TransientStorePool`; got from `borrow`, given back with `return_buffer`.

    Attributes
    ----------
    index : int
        Its place in the pool, from 0.
    memory : Memory
        Its bytes; all zero when it is borrowed.
    size : int
        Bytes.
    backing : str
        ``"anonymous"`` or ``"shm"``.
    name : str or None
        The shared-memory name by which the next open finds it after a kill; None for anonymous
        memory.
    state : BufferState
        Changed by the pool alone.
    owner : str or None
        The name that the borrower gave.
    locked : bool
        Whether its pages are locked into RAM.
    ahead : bool
        Whether it is lent ahead of need and still unused: its borrower gives it back on demand.
    """

    backing: ClassVar[str]

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

    @property
    def bound(self) -> bool:
        """Whether its header says that it holds records of a log."""
        return False

    def bind(self, log_uuid: bytes, base: int, segment_id: int) -> None:
        """Record in the buffer's header which segment of which log it holds from now on; call
        before the first claim.

        For anonymous memory, which dies with the process, this does nothing.

        Parameters
        ----------
        log_uuid : bytes
            The log's 16 bytes.
        base : int
            The segment's base position.
        segment_id : int
            The segment's random 64-bit id.

        Raises
        ------
        PoolBufferError
            The buffer is not borrowed, or is bound already.
        """

    def unbind(self) -> None:
        """Declare that the buffer holds nothing worth recovering any more: all of it is committed.

        The pool does so too when the buffer is returned, before it zeroes.
        """

    def lend(self, owner: str, *, ahead: bool = False) -> None:
        """Mark it as borrowed. The pool's own, under its lock."""
        self.state = BufferState.BORROWED
        self.ahead = ahead
        self.owner = owner
        self.borrowed_at = time.monotonic()

    def destroy(self) -> None:
        """Release the memory. The pool's own.

        If a view of it is still open, the last view releases the pages.
        """
        self.state = BufferState.GONE
        try:
            self.memory.close()
        except BufferError:
            return

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.index}: {self.size} bytes, {self.state.value}>"


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


def describe_lent(buffers: Iterable[PoolBuffer]) -> str:
    """Say who has which buffer and since when, for a message."""
    now = time.monotonic()
    return (
        ", ".join(
            f"buffer {buffer.index} by {buffer.owner!r} for {now - buffer.borrowed_at:.1f} s"
            for buffer in buffers
        )
        or "none"
    )
