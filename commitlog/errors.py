"""Everything that commitlog raises for a caller to catch.

One root, `CommitLogError`, and a leaf for each thing that a caller can handle in its own way. A
leaf also inherits the builtin that fits it (`OSError`, `ValueError`, `TimeoutError`, ...), so that
code which knows nothing of commitlog still catches it under a familiar name.
"""

from __future__ import annotations

import errno as codes
import os
from collections.abc import Sequence
from typing import Any

__all__ = [
    "ClaimError",
    "CloseTimeoutError",
    "ClosedError",
    "CommitLogError",
    "CorruptRecordError",
    "CorruptSegmentError",
    "CorruptTailerError",
    "DiskFullError",
    "ForkedError",
    "IOFailureError",
    "InvalidOptionError",
    "LogExistsError",
    "LogFailedError",
    "LogLockedError",
    "LogNotFoundError",
    "MemoryLockError",
    "MessageError",
    "MessageValueError",
    "NotALogError",
    "OpenTimeoutError",
    "PoolBufferError",
    "PoolExhaustedError",
    "PoolMemoryError",
    "PositionError",
    "ReadOnlyError",
    "RecordTooLargeError",
    "RecordTypeError",
    "RolledBackError",
    "SegmentHeldError",
    "SequenceError",
    "SyncTimeoutError",
    "TailerInUseError",
    "TailerLagError",
    "TailerNotFoundError",
    "UnsupportedError",
    "UnsupportedVersionError",
]

# OSError keeps these outside `__dict__`, where pickling would miss them.
_SYSTEM_ATTRIBUTES = ("errno", "strerror", "filename")

_Path = str | os.PathLike[str] | None


class CommitLogError(Exception):
    """The root of all errors of commitlog; never raised itself.

    Parameters
    ----------
    message : str
        What went wrong and what to do about it.
    path : str or os.PathLike, optional
        The log, segment or other file concerned.
    position : int, optional
        The position in the log concerned, in bytes.
    **details
        The attributes of the leaf.
    """

    def __init__(
        self, message: str, *, path: _Path = None, position: int | None = None, **details: object
    ) -> None:
        super().__init__(message)
        self.path = None if path is None else os.fspath(path)
        self.position = position
        for name, value in details.items():
            if not hasattr(type(self), name):
                raise TypeError(f"{type(self).__name__} has no attribute {name!r}")
            setattr(self, name, value)

    @property
    def message(self) -> str:
        """The message alone, without path and position."""
        return str(self.args[0]) if self.args else ""

    def __str__(self) -> str:
        where = []
        if self.path is not None:
            where.append(f"path {self.path}")
        if self.position is not None:
            where.append(f"position {self.position}")
        return f"{self.message} ({', '.join(where)})" if where else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        state = dict(self.__dict__)
        if isinstance(self, OSError):
            state |= {name: getattr(self, name) for name in _SYSTEM_ATTRIBUTES}
        return _restored, (type(self), self.args, state)


def _restored(
    cls: type[CommitLogError], args: tuple[Any, ...], state: dict[str, Any]
) -> CommitLogError:
    """Rebuild an unpickled error attribute by attribute, whatever its constructor asks for."""
    # Named outright, since CPython finds `MemoryError.__new__` unsafe for a class whose first base
    # is another exception.
    error = OSError.__new__(cls) if issubclass(cls, OSError) else Exception.__new__(cls)
    error.args = args
    for name, value in state.items():
        setattr(error, name, value)
    return error


class _SystemError(CommitLogError, OSError):
    """What the leaves that are an `OSError` share: `errno`, `strerror` and `filename` as OSError's
    own users expect them.

    Parameters
    ----------
    errno : int, optional
        The cause as the system gave it; by default the code that the leaf is declared with.
    """

    _default_errno = codes.EIO

    def __init_subclass__(cls, errno: int | None = None) -> None:
        super().__init_subclass__()
        if errno is not None:
            cls._default_errno = errno

    def __init__(
        self,
        message: str,
        *,
        path: _Path = None,
        position: int | None = None,
        errno: int | None = None,
        **details: object,
    ) -> None:
        super().__init__(message, path=path, position=position, **details)
        self.errno = self._default_errno if errno is None else errno
        self.strerror = message
        self.filename = self.path


class InvalidOptionError(CommitLogError, ValueError):
    """An option is unknown, out of its range, or contradicts another or the log's own.

    The message names the option and what it may be: correct the call.
    """


class LogNotFoundError(_SystemError, FileNotFoundError, errno=codes.ENOENT):
    """There is no log at this path, and the mode does not create one. Check the path, or open with
    mode "a" or "x".
    """


class LogExistsError(_SystemError, FileExistsError, errno=codes.EEXIST):
    """Mode "x" found a log at this path. Choose another path, or open with mode "a"."""


class NotALogError(CommitLogError, ValueError):
    """The path is a file, or a directory that holds something else. Nothing in it was changed:
    choose another path.
    """


class UnsupportedVersionError(CommitLogError, ValueError):
    """The log was written in a format that this release does not read. Nothing was changed: use a
    release that knows the format.
    """


class UnsupportedError(_SystemError, errno=codes.EOPNOTSUPP):
    """The platform or the file system cannot promise what a log needs.

    commitlog runs on Linux, on x86-64 or aarch64. Appending needs a local file system; mode "r"
    reads from a network or FUSE one.
    """


class LogLockedError(_SystemError, BlockingIOError, errno=codes.EAGAIN):
    """Other handles exclude this one, or have taken every writer slot. Close one of them, or open
    with mode "r".

    Attributes
    ----------
    holder : str or None
        Who holds it, as far as is known: process id and name, or this very process.
    """

    holder: str | None = None


class OpenTimeoutError(_SystemError, TimeoutError, errno=codes.ETIMEDOUT):
    """Another process was still opening or recovering the log when `open_timeout` had passed. Try
    again, or allow longer.
    """


class ReadOnlyError(_SystemError, PermissionError, errno=codes.EACCES):
    """A change was asked of a log that was opened with mode "r", or that this user may not write.
    Open it with mode "a" as one who may.
    """


class ClosedError(CommitLogError, ValueError):
    """The log, tailer or pool was closed before this call. Open it anew; nothing was appended."""


class ForkedError(CommitLogError, RuntimeError):
    """A pooled log opened before a fork was used in the child. Only the parent may write it: open
    the log in the child with mode "r".
    """


class CloseTimeoutError(_SystemError, TimeoutError, errno=codes.ETIMEDOUT):
    """Closing could not commit and flush everything within `close_timeout`.

    Nothing was dropped: the log is still open and still draining. Call `close()` again to wait on.
    """


class TailerInUseError(CommitLogError, RuntimeError):
    """Two threads used one tailer at a time, or two tailers one name. Give each its own.

    Attributes
    ----------
    holder : str or None
        Who reads under the name, as far as is known: process id and name, or this very process.
    """

    holder: str | None = None


class TailerNotFoundError(CommitLogError, LookupError):
    """No tailer of that name has read the log. See `log.tailers()` for those that have;
    `log.tailer(name=...)` makes one.
    """


class RecordTooLargeError(CommitLogError, ValueError):
    """The record does not fit the log's largest frame, or the message does not fit the buffer to
    read into.

    Split the record, or create the log with a larger `segment_size`. Read the message again into a
    larger buffer.

    Attributes
    ----------
    size, limit : int or None
        What the record takes and what the log or the buffer allows, in bytes.
    """

    size: int | None = None
    limit: int | None = None


class RecordTypeError(CommitLogError, TypeError):
    """The value, key or type of a record is of the wrong Python type: a `str` wants `.encode()`.
    Nothing was appended.
    """


class ClaimError(CommitLogError, RuntimeError):
    """A claim was misused: after its `with`, truncated upwards, left with a view of its buffer, or
    `flush()` called below it.

    End the claim first, and release its views. A claim that was left with a view was rolled back:
    append it again.
    """


class RolledBackError(CommitLogError, RuntimeError):
    """The claim stayed open beyond `claim_timeout` and was rolled back. Nobody saw the record:
    append it again.
    """


class PositionError(CommitLogError, LookupError):
    """The position is not that of a record, its segment is gone, or the reader of a bus stands on
    no message.

    Attributes
    ----------
    first_position : int or None
        The first position that the log still has: start there.
    """

    first_position: int | None = None


class MessageError(CommitLogError, TypeError):
    """A message class cannot be, or it is not that of the message: another type number or size, or
    two classes with one number.

    Nothing was read or written. Correct the class, or look at `reader.type` before reading.
    """


class MessageValueError(CommitLogError, ValueError):
    """A value does not fit the message's field. Nothing was changed: give one that does, or the
    field a wider kind.
    """


class SequenceError(CommitLogError, LookupError):
    """The sequence of a record is not known: a claim below it is open still, and only when that is
    published or rolled back can records be counted. Ask again.
    """


class CorruptRecordError(CommitLogError, ValueError):
    """What stands at `position` is not a frame, or its CRC does not match: damage, and not a torn
    tail.

    Read on with `on_damage="skip"`, or mark the damage with `commitlog repair`.

    Attributes
    ----------
    resume_position : int or None
        The first position after the damage from which reading can go on.
    """

    resume_position: int | None = None


class CorruptSegmentError(CommitLogError, ValueError):
    """A segment file is missing, cut short, or its header is damaged or another log's. See
    `commitlog verify`; restore it from a copy.
    """


class CorruptTailerError(CommitLogError, ValueError):
    """The file of a named tailer is damaged, or another log's, so that nobody knows where the
    tailer stands.

    The log itself is whole. Say from where to go on, with `log.reset_tailer(name, ...)` or
    `commitlog tailers LOG reset NAME POSITION`.
    """


class DiskFullError(_SystemError, errno=codes.ENOSPC):
    """There is no room for the next segment. Nothing was appended and the log is intact: free space
    and append again.
    """


class IOFailureError(_SystemError):
    """A system call on one of the log's files failed, and nothing was harmed by it; `errno` is the
    cause. Mend that, then try again.
    """


class LogFailedError(_SystemError):
    """Writing to the disk failed, and so the log has failed for all its processes: nothing later is
    acknowledged.

    `errno` is the cause. Mend it, close every handle and open the log again, which recovers it;
    what was acknowledged before is kept.
    """


class SyncTimeoutError(_SystemError, TimeoutError, errno=codes.ETIMEDOUT):
    """The record was appended, but was not durable within `sync_timeout`.

    It stays in the log at `position` and may yet become durable: appending it again would store it
    twice. Call `flush()`, or wait until `flushed_position` has passed it.
    """

    def __str__(self) -> str:
        where = "" if self.position is None else f" at position {self.position}"
        return (
            f"{super().__str__()}: the record stays in the log{where} and may yet become durable;"
            " call flush() to wait for it, appending it again would store it twice"
        )


class TailerLagError(_SystemError, TimeoutError, errno=codes.ETIMEDOUT):
    """A required tailer is further behind than its `max_lag` allows, and did not catch up within
    `lag_timeout`. Nothing was appended.

    Let it read on and append again; or evict it, with `log.evict_tailer(name)` or `commitlog
    tailers LOG evict NAME`.

    Attributes
    ----------
    name : str or None
        The tailer's.
    """

    name: str | None = None


class PoolExhaustedError(_SystemError, TimeoutError, errno=codes.ETIMEDOUT):
    """No buffer of the pool came free in time. Give the pool more buffers, more time, or
    `on_exhausted="grow"` or `"mapped"`.
    """


class PoolMemoryError(CommitLogError, MemoryError):
    """The pool is larger than the memory that is free, or than the cgroup allows. Ask for fewer or
    smaller buffers.

    Attributes
    ----------
    wanted, available : int or None
        What the pool asked for and what there was, in bytes.
    """

    wanted: int | None = None
    available: int | None = None


class MemoryLockError(_SystemError, errno=codes.ENOMEM):
    """`lock_memory="require"` could not lock the pool's buffers. Raise the limit that the message
    names, or use `"try"`.
    """


class PoolBufferError(CommitLogError, ValueError):
    """A buffer was returned twice, to a pool that is not its own, or is of the wrong size. The pool
    is unchanged.
    """


class SegmentHeldError(_SystemError, TimeoutError, errno=codes.EBUSY):
    """A segment could not be unmapped in time because someone still holds it. Release the views and
    tailers that are named.

    Attributes
    ----------
    holders : sequence of (str, float)
        Who holds it, and since when in seconds since the epoch.
    """

    holders: Sequence[tuple[str, float]] = ()
