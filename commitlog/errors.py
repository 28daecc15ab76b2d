"""Everything that commitlog raises for a caller to catch.

One root, `CommitLogError`, and a leaf for each thing that can go wrong. A leaf also inherits the builtin that fits it (`OSError`,
`ValueError`, `TimeoutError`, ...), so that code which knows nothing of commitlog still catches it under a familiar name.
"""

from __future__ import annotations

import errno as codes
import os
from collections.abc import Iterable
from typing import Any

__all__ = [
    "ClaimError",
    "CloseTimeoutError",
    "ClosedError",
    "CommitLogError",
    "CorruptRecordError",
    "CorruptSegmentError",
    "CorruptTailerError",
    "DestinationTooSmallError",
    "DiskFullError",
    "ExportedBufferError",
    "ForkedError",
    "IOFailureError",
    "InvalidOptionError",
    "LogExistsError",
    "LogFailedError",
    "LogLockedError",
    "LogNotFoundError",
    "MemoryLockError",
    "MessageLayoutError",
    "MessageMismatchError",
    "MessageValueError",
    "NoMessageError",
    "NotALogError",
    "OpenTimeoutError",
    "PoolBufferError",
    "PoolClosedError",
    "PoolExhaustedError",
    "PoolMemoryError",
    "PositionError",
    "ReadOnlyError",
    "RecordTooLargeError",
    "RecordTypeError",
    "RolledBackError",
    "SegmentHeldError",
    "SequenceError",
    "SlotsExhaustedError",
    "SyncTimeoutError",
    "TailerInUseError",
    "TailerLagError",
    "TailerNotFoundError",
    "UnsupportedFileSystemError",
    "UnsupportedPlatformError",
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
    """

    def __init__(self, message: str, *, path: _Path = None, position: int | None = None) -> None:
        super().__init__(message)
        self.path = None if path is None else os.fspath(path)
        self.position = position

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


def _restored(cls: type[CommitLogError], args: tuple[Any, ...], state: dict[str, Any]) -> CommitLogError:
    """Rebuild an unpickled error attribute by attribute, whatever its constructor asks for."""
    # Named outright, since CPython finds `MemoryError.__new__` unsafe for a class whose first base is another exception.
    error = OSError.__new__(cls) if issubclass(cls, OSError) else Exception.__new__(cls)
    error.args = args
    for name, value in state.items():
        setattr(error, name, value)
    return error


class _SystemError(CommitLogError, OSError):
    """What the leaves that are an `OSError` share: `errno`, `strerror` and `filename` as OSError's own users expect them.

    Parameters
    ----------
    errno : int, optional
        The cause as the system gave it; the leaf's own code by default.
    """

    _default_errno = codes.EIO

    def __init__(self, message: str, *, path: _Path = None, position: int | None = None, errno: int | None = None) -> None:
        super().__init__(message, path=path, position=position)
        self.errno = self._default_errno if errno is None else errno
        self.strerror = message
        self.filename = self.path


# Opening.


class InvalidOptionError(CommitLogError, ValueError):
    """An option is unknown, out of its range, or contradicts another or the log's own.

    The message names the option and what it may be: correct the call.
    """


class LogNotFoundError(_SystemError, FileNotFoundError):
    """There is no log at this path, and the mode does not create one. Check the path, or open with mode "a" or "x"."""

    _default_errno = codes.ENOENT


class LogExistsError(_SystemError, FileExistsError):
    """Mode "x" found a log at this path. Choose another path, or open with mode "a"."""

    _default_errno = codes.EEXIST


class NotALogError(CommitLogError, ValueError):
    """The path is a file, or a directory that holds something else. Nothing in it was changed: choose another path."""


class UnsupportedVersionError(CommitLogError, ValueError):
    """The log was written in a format that this release does not read. Nothing was changed: use a release that knows the format."""


class UnsupportedFileSystemError(_SystemError):
    """The file system (a network or FUSE one) cannot promise what appending needs. Open with mode "r", or move the log to a local disk."""

    _default_errno = codes.EOPNOTSUPP


class UnsupportedPlatformError(_SystemError):
    """This is not Linux on x86-64 or aarch64, or its kernel lacks a call that commitlog needs. Run it where both are there."""

    _default_errno = codes.ENOSYS


class LogLockedError(_SystemError, BlockingIOError):
    """Another handle holds the log in a way that excludes this one. Close that one, or open with mode "r".

    Parameters
    ----------
    holder : str, optional
        Who holds it, as far as is known: process id and name, or this very process.
    """

    _default_errno = codes.EAGAIN

    def __init__(
        self, message: str, *, path: _Path = None, position: int | None = None, errno: int | None = None, holder: str | None = None
    ) -> None:
        super().__init__(message, path=path, position=position, errno=errno)
        self.holder = holder


class OpenTimeoutError(_SystemError, TimeoutError):
    """Another process was still opening or recovering the log when `open_timeout` had passed. Try again, or allow longer."""

    _default_errno = codes.ETIMEDOUT


# Handles and their state.


class ReadOnlyError(_SystemError, PermissionError):
    """A change was asked of a log that was opened with mode "r", or that this user may not write. Open it with mode "a" as one who may."""

    _default_errno = codes.EACCES


class ClosedError(CommitLogError, ValueError):
    """The log or tailer was closed before this call. Open it anew; nothing was appended."""


class ForkedError(CommitLogError, RuntimeError):
    """A pooled log opened before a fork was used in the child. Only the parent may write it: open the log in the child with mode "r"."""


class CloseTimeoutError(_SystemError, TimeoutError):
    """Closing could not commit and flush everything within `close_timeout`.

    Nothing was dropped: the log is still open and still draining. Call `close()` again to wait on.
    """

    _default_errno = codes.ETIMEDOUT


class SlotsExhaustedError(_SystemError):
    """Every writer slot of the log is taken by a live writer. Close some handles, or append from fewer threads."""

    _default_errno = codes.EUSERS


class TailerInUseError(CommitLogError, RuntimeError):
    """Two threads used one tailer at a time, or two tailers one name. Give each its own.

    Parameters
    ----------
    holder : str, optional
        Who reads under the name, as far as is known: process id and name, or this very process.
    """

    def __init__(self, message: str, *, path: _Path = None, position: int | None = None, holder: str | None = None) -> None:
        super().__init__(message, path=path, position=position)
        self.holder = holder


class TailerNotFoundError(CommitLogError, LookupError):
    """No tailer of that name has read the log. See `log.tailers()` for those that have; `log.tailer(name=...)` makes one."""


# Records.


class RecordTooLargeError(CommitLogError, ValueError):
    """The record does not fit the log's largest frame. Split it, or create the log with a larger `segment_size`.

    Parameters
    ----------
    size, limit : int, optional
        What the record takes and what the log allows, in bytes.
    """

    def __init__(
        self, message: str, *, path: _Path = None, position: int | None = None, size: int | None = None, limit: int | None = None
    ) -> None:
        super().__init__(message, path=path, position=position)
        self.size = size
        self.limit = limit


class RecordTypeError(CommitLogError, TypeError):
    """The value, key or type of a record is of the wrong Python type: a `str` wants `.encode()`. Nothing was appended."""


class ClaimError(CommitLogError, RuntimeError):
    """A claim was misused: after its `with` had ended, truncated upwards, or `flush()` called below the caller's own open claim.

    End the claim first; the log is unharmed.
    """


class RolledBackError(CommitLogError, RuntimeError):
    """The claim stayed open beyond `claim_timeout` and was rolled back. Nobody saw the record: append it again."""


class ExportedBufferError(CommitLogError, BufferError):
    """A view of a claim's buffer outlived its `with`. The claim was rolled back: release the views first, then append again."""


class PositionError(CommitLogError, LookupError):
    """The position is not that of a record, or its segment is gone.

    Parameters
    ----------
    first_position : int, optional
        The first position that the log still has: start there.
    """

    def __init__(self, message: str, *, path: _Path = None, position: int | None = None, first_position: int | None = None) -> None:
        super().__init__(message, path=path, position=position)
        self.first_position = first_position


# Messages on a bus.


class MessageLayoutError(CommitLogError, TypeError):
    """A message class cannot be: its type number, or a field whose kind is unknown or whose size is not fixed. Correct the class."""


class MessageValueError(CommitLogError, ValueError):
    """A value does not fit the message's field. Nothing was changed: give one that does, or the field a wider kind."""


class MessageMismatchError(CommitLogError, TypeError):
    """A message is of another class than was asked for, or two classes of one bus have the same type number.

    Nothing was read or written: look at `reader.type` first, and give each class of a bus a number of its own.
    """


class NoMessageError(CommitLogError, LookupError):
    """The reader stands on no message. Call `next()`, and read when it has returned True."""


class DestinationTooSmallError(CommitLogError, ValueError):
    """The buffer to read into is shorter than the message. Nothing was read: read it again into a larger one.

    Parameters
    ----------
    size, limit : int, optional
        What the message has and what the buffer holds, in bytes.
    """

    def __init__(
        self, message: str, *, path: _Path = None, position: int | None = None, size: int | None = None, limit: int | None = None
    ) -> None:
        super().__init__(message, path=path, position=position)
        self.size = size
        self.limit = limit


class SequenceError(CommitLogError, LookupError):
    """The sequence of a record is not known: a claim below it is open still, and only when that is published or rolled back can records
    be counted. Ask again.
    """


# Damage.


class CorruptRecordError(CommitLogError, ValueError):
    """What stands at `position` is not a frame, or its CRC does not match: damage, and not a torn tail.

    Read on with `on_damage="skip"`, or mark the damage with `commitlog repair`.

    Parameters
    ----------
    resume_position : int, optional
        The first position after the damage from which reading can go on.
    """

    def __init__(self, message: str, *, path: _Path = None, position: int | None = None, resume_position: int | None = None) -> None:
        super().__init__(message, path=path, position=position)
        self.resume_position = resume_position


class CorruptSegmentError(CommitLogError, ValueError):
    """A segment file is missing, cut short, or its header is damaged or another log's. See `commitlog verify`; restore it from a copy."""


class CorruptTailerError(CommitLogError, ValueError):
    """The file of a named tailer is damaged, or another log's, so that nobody knows where the tailer stands.

    The log itself is whole. Say from where to go on, with `log.reset_tailer(name, ...)` or `commitlog tailers LOG reset NAME POSITION`.
    """


# The disk.


class DiskFullError(_SystemError):
    """There is no room for the next segment. Nothing was appended and the log is intact: free space and append again."""

    _default_errno = codes.ENOSPC


class IOFailureError(_SystemError):
    """A system call on one of the log's files failed, and nothing was harmed by it; `errno` is the cause. Mend that, then try again."""


class LogFailedError(_SystemError):
    """Writing to the disk failed, and so the log has failed for all its processes: nothing later is acknowledged.

    `errno` is the cause. Mend it, close every handle and open the log again, which recovers it; what was acknowledged before is kept.
    """


class SyncTimeoutError(_SystemError, TimeoutError):
    """The record was appended, but was not durable within `sync_timeout`.

    It stays in the log at `position` and may yet become durable: appending it again would store it twice. Call `flush()`, or wait until
    `flushed_position` has passed it.
    """

    _default_errno = codes.ETIMEDOUT

    def __str__(self) -> str:
        where = "" if self.position is None else f" at position {self.position}"
        return (
            f"{super().__str__()}: the record stays in the log{where} and may yet become durable;"
            " call flush() to wait for it, appending it again would store it twice"
        )


class TailerLagError(_SystemError, TimeoutError):
    """A required tailer is further behind than its `max_lag` allows, and did not catch up within `lag_timeout`. Nothing was appended.

    Let it read on and append again; or evict it, with `log.evict_tailer(name)` or `commitlog tailers LOG evict NAME`.

    Parameters
    ----------
    name : str, optional
        The tailer's.
    """

    _default_errno = codes.ETIMEDOUT

    def __init__(
        self, message: str, *, path: _Path = None, position: int | None = None, errno: int | None = None, name: str | None = None
    ) -> None:
        super().__init__(message, path=path, position=position, errno=errno)
        self.name = name


# Pool and segments.


class PoolExhaustedError(_SystemError, TimeoutError):
    """No buffer of the pool came free in time. Give the pool more buffers, more time, or `on_exhausted="grow"` or `"mapped"`."""

    _default_errno = codes.ETIMEDOUT


class PoolMemoryError(CommitLogError, MemoryError):
    """The pool is larger than the memory that is free, or than the cgroup allows. Ask for fewer or smaller buffers.

    Parameters
    ----------
    wanted, available : int, optional
        What the pool asked for and what there was, in bytes.
    """

    def __init__(
        self, message: str, *, path: _Path = None, position: int | None = None, wanted: int | None = None, available: int | None = None
    ) -> None:
        super().__init__(message, path=path, position=position)
        self.wanted = wanted
        self.available = available


class MemoryLockError(_SystemError):
    """`lock_memory="require"` could not lock the pool's buffers. Raise the limit that the message names, or use `"try"`."""

    _default_errno = codes.ENOMEM


class PoolBufferError(CommitLogError, ValueError):
    """A buffer was returned twice, to a pool that is not its own, or is of the wrong size. The pool is unchanged."""


class PoolClosedError(CommitLogError, ValueError):
    """The pool was closed before this call. Create another, or close it only after its logs."""


class SegmentHeldError(_SystemError, TimeoutError):
    """A segment could not be unmapped in time because someone still holds it. Release the views and tailers that are named.

    Parameters
    ----------
    holders : iterable of (str, float), optional
        Who holds it, and since when in seconds since the epoch.
    """

    _default_errno = codes.EBUSY

    def __init__(
        self,
        message: str,
        *,
        path: _Path = None,
        position: int | None = None,
        errno: int | None = None,
        holders: Iterable[tuple[str, float]] = (),
    ) -> None:
        super().__init__(message, path=path, position=position, errno=errno)
        self.holders = list(holders)
