"""Locks that say whether their process lives: open-file-description locks, which the kernel drops with the last descriptor.

The file must not be mapped through the same open description: a mapping keeps the description, and with it the lock,
alive in every forked child. That is why a life lock opens the file for itself.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import threading
from collections.abc import Callable
from typing import Literal

Kind = Literal["exclusive", "shared"]

# struct flock on 64-bit Linux: type, whence, start, length, process (must be 0 for these locks).
_FLOCK = struct.Struct("@hhqqi4x")
_TYPES = {"exclusive": fcntl.F_WRLCK, "shared": fcntl.F_RDLCK}
_LENGTH = 1 << 30  # of the range; the slots of a `cursors` file lock single bytes beyond it

# A lock is opened and entered here under the gate, and no fork happens in between, so that a child closes them all:
# one that stayed open there would make a dead process look alive.
_gate = threading.RLock()
_held: set[LifeLock] = set()


class LifeLock:
    """A descriptor for locks, held until `close` or the process's death, whichever comes first; closed in forked children.

    Parameters
    ----------
    opener : callable
        Opens the file for writing and returns the descriptor, which is the lock's own from then on.
    kind : {"exclusive", "shared"}, optional
        Lock the file at once; without it nothing is locked yet.

    Raises
    ------
    OSError
        The file cannot be opened, or another process's lock forbids this one (EAGAIN).
    """

    __slots__ = ("descriptor",)

    def __init__(self, opener: Callable[[], int], kind: Kind | None = "exclusive") -> None:
        with _gate:
            self.descriptor = opener()
            _held.add(self)
        try:
            os.set_inheritable(self.descriptor, False)
            if kind is not None and not self.acquire(kind):
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        except BaseException:
            self.close()
            raise

    def acquire(self, kind: Kind) -> bool:
        """Take the lock, or turn one that is held into the other kind, in one step; False when another process's forbids it."""
        try:
            fcntl.fcntl(self.descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(_TYPES[kind], os.SEEK_SET, 0, _LENGTH, 0))
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        return True

    def release(self) -> None:
        """Unlock, and keep the descriptor. Not for a child of a fork, which would unlock its parent."""
        fcntl.fcntl(self.descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, 0, _LENGTH, 0))

    def close(self) -> None:
        """Give the lock up. In a forked child, where it is closed already, nothing happens."""
        with _gate:
            _held.discard(self)
            if self.descriptor >= 0:
                # Unlocked first: a program that is just being started by another thread shares the description until it runs.
                with contextlib.suppress(OSError):
                    self.release()
                os.close(self.descriptor)
                self.descriptor = -1


def is_held(descriptor: int, against: Kind = "exclusive") -> bool:
    """Whether another description's life lock on the file open at this descriptor forbids one of that kind."""
    answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _FLOCK.pack(_TYPES[against], os.SEEK_SET, 0, _LENGTH, 0))
    return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)


def _close_in_child() -> None:
    try:
        for lock in _held:
            # A program that closes every descriptor it inherited has been faster.
            with contextlib.suppress(OSError):
                os.close(lock.descriptor)  # and not unlocked, which would be the parent's
            lock.descriptor = -1
        _held.clear()
    finally:
        _gate.release()


os.register_at_fork(before=_gate.acquire, after_in_parent=_gate.release, after_in_child=_close_in_child)
