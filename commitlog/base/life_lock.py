"""LifeLock: a lock that shows whether its process lives.

These are open-file-description locks, which Linux drops with the last descriptor. A mapping
through the same open description would keep the lock in every forked child, so a life lock opens
the file itself.

A process that can only read a file can place shared locks on it. A lock that keeps writers out is
therefore on a file that `open_lock_file` opens, or ignores shared locks of others.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import struct
from collections.abc import Callable
from typing import Literal

from commitlog.base.fork_lock import ForkLock
from commitlog.base.regular_file import open_regular

Kind = Literal["exclusive", "shared"]

# struct flock on 64-bit Linux: type, whence, start, length, process (must be 0 for these locks).
_FLOCK = struct.Struct("@hhqqi4x")
_TYPES = {"exclusive": fcntl.F_WRLCK, "shared": fcntl.F_RDLCK}
_ACL = "system.posix_acl_default"

# Start and length of the locked range. Single bytes behind `WHOLE` have other purposes: see
# `_kernel/c/cursors.h` and `byte`.
Span = tuple[int, int]
WHOLE: Span = (0, 1 << 30)


def byte(offset: int) -> Span:
    return offset, 1


_held: set[LifeLock] = set()


def _close_in_child() -> None:
    for lock in _held.copy():
        # The program may have closed every descriptor that it inherited.
        with contextlib.suppress(OSError):
            os.close(lock.descriptor)  # without unlocking, which would release the parent's
        lock.descriptor = -1
        _held.discard(lock)


# A lock is opened and added to `_held` under this one. A child closes them all: a lock that stayed
# open there would make a dead process look alive.
_fork_lock = ForkLock(_close_in_child)


class LifeLock:
    """A lock that is held until `close` or the process's death, and closed in forked children.

    The lock owns the descriptor that `opener` returns: not inheritable, and of a file opened for
    writing. If `kind` is None, nothing is locked yet. If another process's lock forbids this one,
    raise `BlockingIOError`.
    """

    __slots__ = ("_span", "descriptor")

    def __init__(
        self, opener: Callable[[], int], kind: Kind | None = "exclusive", span: Span = WHOLE
    ) -> None:
        self._span = span
        with _fork_lock:
            self.descriptor = opener()
            _held.add(self)
        try:
            if kind is not None and not self.acquire(kind):
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        except BaseException:
            self.close()
            raise

    def acquire(self, kind: Kind) -> bool:
        """Take the lock, or change its kind, in one step; False if another process's forbids it."""
        return try_lock(self.descriptor, kind, self._span)

    def release(self) -> None:
        """Unlock, keep the descriptor. In a forked child this would release the parent's lock."""
        fcntl.fcntl(self.descriptor, fcntl.F_OFD_SETLK, _packed(fcntl.F_UNLCK, self._span))

    def close(self) -> None:
        """Release the lock. In the child of a fork, where it is closed already, do nothing."""
        with _fork_lock:
            _held.discard(self)
            if self.descriptor >= 0:
                # Unlock first: a program that another thread is starting shares the description
                # until it runs.
                with contextlib.suppress(OSError):
                    self.release()
                os.close(self.descriptor)
                self.descriptor = -1


def try_lock(descriptor: int, kind: Kind, span: Span) -> bool:
    """Lock a range of an open file until its description is closed; False if a lock of another
    description forbids it.
    """
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _packed(_TYPES[kind], span))
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def is_held(descriptor: int, against: Kind = "exclusive", span: Span = WHOLE) -> bool:
    """Return whether another description's lock on this open file forbids a lock of that kind."""
    answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _packed(_TYPES[against], span))
    return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)


def open_lock_file(name: str, dir_fd: int, *, create: bool = True) -> int:
    """Open a file for locks that keep writers out; only users who may write it may open it. If it
    is missing, create it or, without `create`, raise `FileNotFoundError`.
    """
    try:
        fd = open_regular(name, os.O_RDWR, dir_fd=dir_fd)
    except FileNotFoundError:
        if not create:
            raise
        fd = open_regular(name, os.O_RDWR | os.O_CREAT, _lock_file_mode(dir_fd), dir_fd=dir_fd)
    try:
        mode = stat.S_IMODE(os.fstat(fd).st_mode)
        writers_only = mode & ~(0o044 & ~((mode & 0o022) << 1))
        if mode != writers_only:
            with contextlib.suppress(PermissionError):  # the owner's next open changes it
                os.fchmod(fd, writers_only)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _lock_file_mode(dir_fd: int) -> int:
    """Return the mode of a new file that only users who may write it may read."""
    try:
        if _ACL in os.listxattr(dir_fd):
            # Linux reduces it to what the list grants, and ignores the umask
            return 0o660
    except OSError:
        pass  # a file system without such lists
    writable = 0o222 & ~_umask()
    return writable | writable << 1


def _umask() -> int:
    """Read this process's umask without changing it for other threads."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        return next((int(line.split()[1], 8) for line in file if line.startswith("Umask:")), 0o077)


def _packed(kind: int, span: Span) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, *span, 0)
