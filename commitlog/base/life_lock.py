"""Locks that say whether their process lives: open-file-description locks, which the kernel drops
with the last descriptor.

The file must not be mapped through the same open description: a mapping keeps the description, and
with it the lock, alive in every forked child. That is why a life lock opens the file for itself.

A process that can only read a file can place shared locks on it. A lock that keeps writers out is
therefore on a file that `open_gate` opens, or does not take a shared lock of others for a writer's.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import struct
import threading
from collections.abc import Callable
from typing import Literal

from commitlog.base.regular_file import open_regular

Kind = Literal["exclusive", "shared"]

# struct flock on 64-bit Linux: type, whence, start, length, process (must be 0 for these locks).
_FLOCK = struct.Struct("@hhqqi4x")
_TYPES = {"exclusive": fcntl.F_WRLCK, "shared": fcntl.F_RDLCK}
_ACL = "system.posix_acl_default"

# Start and length of what a lock covers. Single bytes behind `WHOLE` are for other purposes: see
# `_kernel/c/cursors.h` and `byte`.
Span = tuple[int, int]
WHOLE: Span = (0, 1 << 30)


def byte(offset: int) -> Span:
    """The span of one byte."""
    return offset, 1


# A lock is opened and entered here under the gate, and no fork happens in between, so that a child
# closes them all: one that stayed open there would make a dead process look alive.
_gate = threading.RLock()
_held: set[LifeLock] = set()


class LifeLock:
    """A descriptor for locks, held until `close` or the process's death, whichever comes first;
    closed in forked children.

    Parameters
    ----------
    opener : callable
        Opens the file for writing and returns the descriptor, which is the lock's own from then on.
    kind : {"exclusive", "shared"}, optional
        Lock the file at once; without it nothing is locked yet.
    span : tuple of int, optional
        What of the file to lock.

    Raises
    ------
    OSError
        The file cannot be opened, or another process's lock forbids this one (EAGAIN).
    """

    __slots__ = ("_span", "descriptor")

    def __init__(
        self, opener: Callable[[], int], kind: Kind | None = "exclusive", span: Span = WHOLE
    ) -> None:
        self._span = span
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
        """Take the lock, or turn one that is held into the other kind, in one step; False when
        another process's forbids it.
        """
        try:
            fcntl.fcntl(self.descriptor, fcntl.F_OFD_SETLK, _packed(_TYPES[kind], self._span))
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        return True

    def release(self) -> None:
        """Unlock, and keep the descriptor. Not for a child of a fork, which would unlock its
        parent.
        """
        fcntl.fcntl(self.descriptor, fcntl.F_OFD_SETLK, _packed(fcntl.F_UNLCK, self._span))

    def close(self) -> None:
        """Give the lock up. In a forked child, where it is closed already, nothing happens."""
        with _gate:
            _held.discard(self)
            if self.descriptor >= 0:
                # Unlocked first: a program that is just being started by another thread shares the
                # description until it runs.
                with contextlib.suppress(OSError):
                    self.release()
                os.close(self.descriptor)
                self.descriptor = -1


def is_held(descriptor: int, against: Kind = "exclusive", span: Span = WHOLE) -> bool:
    """Whether another description's lock on the file open at this descriptor forbids one of that
    kind.
    """
    answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _packed(_TYPES[against], span))
    return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)


def open_gate(name: str, dir_fd: int, *, create: bool = True) -> int:
    """Open a file for locks that keep writers out. Only those who may write to it may open it at
    all.

    Raises
    ------
    OSError
        It cannot be opened for writing, or it is missing and is not to be created.
    """
    try:
        fd = open_regular(name, os.O_RDWR, dir_fd=dir_fd)
    except FileNotFoundError:
        if not create:
            raise
        fd = open_regular(name, os.O_RDWR | os.O_CREAT, _gate_mode(dir_fd), dir_fd=dir_fd)
    mode = stat.S_IMODE(os.fstat(fd).st_mode)
    writers_only = mode & ~(0o044 & ~((mode & 0o022) << 1))
    if mode != writers_only:
        with contextlib.suppress(
            PermissionError
        ):  # the file is another user's, who does it at the next chance
            os.fchmod(fd, writers_only)
    return fd


def _gate_mode(dir_fd: int) -> int:
    """The mode of a new file that those may read who may also write it."""
    try:
        if _ACL in os.listxattr(dir_fd):
            # the kernel reduces it to what the list grants, and does not look at the umask
            return 0o660
    except OSError:
        pass  # a file system without such lists
    writable = 0o222 & ~_umask()
    return writable | writable << 1


def _umask() -> int:
    """This process's umask, which can otherwise be read only by changing it for all threads."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        return next((int(line.split()[1], 8) for line in file if line.startswith("Umask:")), 0o077)


def _packed(kind: int, span: Span) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, *span, 0)


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


os.register_at_fork(
    before=_gate.acquire, after_in_parent=_gate.release, after_in_child=_close_in_child
)
