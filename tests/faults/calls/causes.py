"""The errnos that a call may return where the engine uses it."""

from __future__ import annotations

import errno
from errno import (
    EACCES,
    EAGAIN,
    EBUSY,
    ECONNABORTED,
    ECONNREFUSED,
    ECONNRESET,
    EDQUOT,
    EFBIG,
    EINTR,
    EINVAL,
    EIO,
    EMFILE,
    ENETUNREACH,
    ENFILE,
    ENODEV,
    ENOLCK,
    ENOMEM,
    ENOSPC,
    EOPNOTSUPP,
    EPERM,
    EPIPE,
    EROFS,
    ETIMEDOUT,
)  # fmt: skip

from tests.faults.calls.preload import SHORT

_FULL = (ENOSPC, EDQUOT)
# By the manual pages of Linux, for local file systems. Not here: errnos that say that the caller is
# wrong (EBADF, EFAULT), and `close`, which reports nothing on a local file system.
CAUSES: dict[str, tuple[int, ...]] = {
    "open": (EIO, EMFILE, ENFILE, EACCES, ENOMEM),
    "create": (EIO, *_FULL, EROFS, EACCES, EMFILE),
    "read": (EIO, EINTR, SHORT),
    "write": (EIO, *_FULL, EFBIG, EINTR, SHORT),
    "msync": (EIO, *_FULL),
    "fsync": (EIO, *_FULL),
    "fdatasync": (EIO, *_FULL),
    "fallocate": (EIO, *_FULL, EFBIG, EINTR),
    "punch": (EIO, *_FULL, EOPNOTSUPP, EINTR),
    "ftruncate": (EIO, *_FULL, EFBIG),
    "rename": (EIO, *_FULL, EROFS, EACCES),
    "link": (EIO, *_FULL, EROFS, EPERM),
    "unlink": (EIO, EROFS, EACCES, EBUSY),
    "mkdir": (EIO, *_FULL, EROFS, EACCES),
    "stat": (EIO, EACCES, ENOMEM),
    "fstat": (EIO, ENOMEM),
    "opendir": (EIO, EMFILE, EACCES, ENOMEM),
    "readdir": (EIO,),
    "lock": (ENOLCK, EIO),
    "flock": (ENOLCK, EINTR, EIO),
    "dup": (EMFILE,),
    "mmap": (ENOMEM, EAGAIN, ENODEV),
    "mremap": (ENOMEM, EAGAIN),
    "madvise": (ENOMEM, EAGAIN, EINVAL),
    "mlock": (ENOMEM, EPERM, EAGAIN),
    "statfs": (EIO, EACCES),
    "copy": (EIO, *_FULL, SHORT),
    "shm": (EMFILE, ENOSPC, EACCES, ENOMEM),
    "thread": (EAGAIN,),
    "socket": (EMFILE, ENOMEM),
    "connect": (ECONNREFUSED, ETIMEDOUT, ENETUNREACH),
    "bind": (EACCES,),
    "accept": (EMFILE, ECONNABORTED),
    "send": (EPIPE, ECONNRESET, SHORT),
    "recv": (ECONNRESET, ETIMEDOUT, SHORT),
    "poll": (ENOMEM,),
}


def causes(kind: str, *, forever: bool) -> tuple[int, ...]:
    """Return the errnos of a kind; a signal does not interrupt a call forever."""
    return tuple(cause for cause in CAUSES[kind] if not (forever and cause == EINTR))


def name_of(cause: int) -> str:
    """Return the name of an errno, or that the call is cut short."""
    return "short" if cause == SHORT else errno.errorcode[cause]
