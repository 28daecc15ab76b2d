"""The exceptions that commitlog raises.

Every exception derives from `CommitLogError`. Each also inherits the matching builtin (`OSError`,
`ValueError`, `TimeoutError`, ...), so that generic handlers catch it.
"""

from __future__ import annotations

import errno as codes
from collections.abc import Sequence

from commitlog.errors.base import CommitLogError as CommitLogError
from commitlog.errors.base import SystemCallError as _SystemError
from commitlog.errors.messages import KeyUnavailableError as KeyUnavailableError
from commitlog.errors.messages import MessageError as MessageError
from commitlog.errors.messages import MessageValueError as MessageValueError
from commitlog.errors.messages import SchemaError as SchemaError
from commitlog.errors.messages import TopicNotFoundError as TopicNotFoundError
from commitlog.errors.messages import UndecodableError as UndecodableError
from commitlog.errors.queues import CorruptQueueError as CorruptQueueError
from commitlog.errors.queues import JobFinishedError as JobFinishedError
from commitlog.errors.queues import LeaseLostError as LeaseLostError
from commitlog.errors.queues import NoJobError as NoJobError
from commitlog.errors.queues import QueueNotFoundError as QueueNotFoundError


class InvalidOptionError(CommitLogError, ValueError):
    """Raised if an option is unknown, out of range, or contradicts another option or the log.

    The message names the option and its valid values. Correct the call.
    """


class LogNotFoundError(_SystemError, FileNotFoundError, errno=codes.ENOENT):
    """Raised if the path has no log and the mode does not create one.

    Check the path, or open with mode "a" or "x".
    """


class LogExistsError(_SystemError, FileExistsError, errno=codes.EEXIST):
    """Raised if mode "x" finds a log at the path. Choose another path, or open with mode "a"."""


class NotALogError(CommitLogError, ValueError):
    """Raised if the path is a file, or a directory with other contents.

    Nothing was changed. Choose another path.
    """


class UnsupportedVersionError(CommitLogError, ValueError):
    """Raised if this release cannot read the log's format.

    Nothing was changed. Use a release that supports the format.
    """


class UnsupportedError(_SystemError, errno=codes.EOPNOTSUPP):
    """Raised if the platform or the file system lacks a guarantee that the log needs.

    commitlog runs on Linux, on x86-64 or aarch64. Appending needs a local file system; mode "r"
    also reads from a network or FUSE file system.
    """


class LogLockedError(_SystemError, BlockingIOError, errno=codes.EAGAIN):
    """Raised if another handle excludes this one, or if no writer slot is free.

    Close another handle, or open with mode "r".

    Attributes
    ----------
    holder : str or None
        The process that holds the lock, if known: process id and name, or this process.
    """

    holder: str | None = None


class OpenTimeoutError(_SystemError, TimeoutError, errno=codes.ETIMEDOUT):
    """Raised if another process still opens or recovers the log when `wait_for_log` expires.

    Try again, or raise `wait_for_log`.
    """


class ReadOnlyError(_SystemError, PermissionError, errno=codes.EACCES):
    """Raised if a call changes a log that is open with mode "r" or not writable by this user.

    Open the log with mode "a", as a user with write permission.
    """


class ClosedError(CommitLogError, ValueError):
    """Raised if the log, tailer or pool is closed. Nothing was appended; open it again."""


class ForkedError(CommitLogError, RuntimeError):
    """Raised if a child process uses a pooled log that was opened before the fork.

    Only the parent may write it. Open the log in the child with mode "r".
    """


class CloseTimeoutError(_SystemError, TimeoutError, errno=codes.ETIMEDOUT):
    """Raised if `close` cannot commit and flush everything within `close_timeout`.

    Nothing was dropped: the log is still open and still draining. Call `close()` again to continue
    waiting.
    """


class InUseError(CommitLogError, RuntimeError):
    """Raised if another user has what a call needs: the name of a tailer or of a producer, a tailer
    that another thread uses, a log to which native code appends, or a topic that is to be sealed.
    Nothing was appended.

    Give each thread its own tailer, and each tailer and producer its own name. The name of a dead
    process is free.

    Attributes
    ----------
    holder : str or None
        The process that uses it, if known: process id and name, or this process.
    """

    holder: str | None = None


class ProducerSequenceError(CommitLogError, ValueError):
    """Raised if a number of a producer is too old to tell whether it was appended.

    Nothing was appended. Repeat only the last numbers of a producer.
    """


class OutboxError(CommitLogError, RuntimeError):
    """Raised if an outbox and a log do not fit together: one of them was restored, copied or
    replaced.

    The rows stay in the outbox. Use the database and the log that belong together, or begin anew
    with ``restored=True``.
    """


class TailerNotFoundError(CommitLogError, LookupError):
    """Raised if the log has no tailer of that name.

    `log.tailers()` lists the named tailers; `log.tailer(name=...)` creates one.
    """


class RecordTooLargeError(CommitLogError, ValueError):
    """Raised if a record exceeds the largest frame, or a message exceeds the caller's buffer.

    Split the record, or create the log with a larger `segment_size`. Read the message again into a
    larger buffer.

    Attributes
    ----------
    size, limit : int or None
        The size of the record, and the limit of the log or the buffer, in bytes.
    """

    size: int | None = None
    limit: int | None = None


class RecordTypeError(CommitLogError, TypeError):
    """Raised if the value, key or type of a record has the wrong Python type.

    Nothing was appended. Encode a `str` with ``.encode()``.
    """


class ClaimError(CommitLogError, RuntimeError):
    """Raised if a claim is misused.

    The call used the claim after its `with` block, truncated it to a larger size, left the block
    with a view of its buffer, or called `flush()` while this thread's claim was open. End the claim
    first, and release its views. If a view outlived the block, the claim was rolled back: append
    the record again.
    """


class RolledBackError(CommitLogError, RuntimeError):
    """Raised if a claim was open for longer than `claim_timeout` and was rolled back.

    No reader saw the record. Append it again.
    """


class PositionError(CommitLogError, LookupError):
    """Raised if no record starts at the position, or its segment was deleted.

    The reader of a bus also raises it if it is not on a message.

    Attributes
    ----------
    first_position : int or None
        The first position that the log still has: start there.
    """

    first_position: int | None = None


class MissingExtraError(CommitLogError, ModuleNotFoundError):
    """Raised if a package is missing that an extra of commitlog installs.

    The message names the extra: install it.

    Attributes
    ----------
    name : str or None
        The missing package.
    extra : str or None
        The extra.
    """

    extra: str | None = None


class SequenceError(CommitLogError, LookupError):
    """Raised if the sequence of a record is not known yet.

    A claim below the record is still open, or below the end of the log for an append with
    `expect=`, which then appends nothing. Retry after it is published or rolled back.
    """


class ConflictError(CommitLogError, RuntimeError):
    """Raised if the log does not end where an append with `expect=` expects it to.

    Nothing was appended. Read the records that were appended meanwhile, decide again, and append
    with the new sequence. `position` is where the log ends.

    Attributes
    ----------
    expected, actual : int or None
        The sequence that the append expected, and the one that a record would have got.
    """

    expected: int | None = None
    actual: int | None = None


class FencedError(CommitLogError, RuntimeError):
    """Raised if a log may not be written, or may not follow, because of its epoch; or by a reader
    that was open while records of its log were cut, because another copy was promoted.

    The log is a copy that was not promoted, or another copy was promoted, and this log has a lower
    epoch or other records. Nothing was changed. Write to the log with the highest epoch; open a
    reader again.
    """


class ReplicationError(_SystemError, ConnectionError, errno=codes.ECONNREFUSED):
    """Raised if a server of logs cannot be reached or used, or refuses a follower.

    The copy has every record up to the follower's position. The message says what to correct.
    """


class MirrorError(_SystemError, ConnectionError, errno=codes.ECONNREFUSED):
    """Raised if a broker cannot be reached or used, refuses a record, or has records that are not
    of this log.

    `position` is that of the first record that the broker has not acknowledged. Nothing is lost:
    the next run goes on there. The message says what to correct.
    """


class CorruptRecordError(CommitLogError, ValueError):
    """Raised if the bytes at `position` are not a frame, or their CRC does not match.

    This is damage, not a torn write at the tail. Read on with `on_damage="skip"`, or mark the
    damage with `commitlog repair`.

    Attributes
    ----------
    resume_position : int or None
        The first position after the damage at which reading can resume.
    """

    resume_position: int | None = None


class CorruptSegmentError(CommitLogError, ValueError):
    """Raised if a segment file is missing or too short, or has a damaged or foreign header.

    Run `commitlog verify`, and restore the file from a copy.
    """


class CorruptTailerError(CommitLogError, ValueError):
    """Raised if a named tailer's file is damaged or foreign, so its position is unknown.

    The log itself is intact. Set the position with `log.reset_tailer(name, ...)` or
    `commitlog tailers LOG reset NAME POSITION`.
    """


class DiskFullError(_SystemError, errno=codes.ENOSPC):
    """Raised if the file system has no room for the next segment.

    Nothing was appended and the log is intact. Free space, then append again.
    """


class IOFailureError(_SystemError):
    """Raised if a system call on one of the log's files failed without damage to the log.

    `errno` is the cause. Remove the cause, then retry.
    """


class LogFailedError(_SystemError):
    """Raised if a write to the disk failed; the log then acknowledges nothing in any process.

    `errno` is the cause. Remove the cause, close every handle and open the log again. That open
    recovers the log and keeps every acknowledged record.
    """


class SyncTimeoutError(_SystemError, TimeoutError, errno=codes.ETIMEDOUT):
    """Raised if an appended record is not durable within `sync_timeout`.

    The record stays in the log at `position` and may yet become durable: appending it again would
    store it twice. Call `flush()`, or wait until `flushed_position` has passed it.
    """

    def __str__(self) -> str:
        where = "" if self.position is None else f" at position {self.position}"
        return (
            f"{super().__str__()}: the record stays in the log{where} and may yet become durable;"
            " call flush() to wait for it, appending it again would store it twice"
        )


class TailerLagError(_SystemError, TimeoutError, errno=codes.ETIMEDOUT):
    """Raised if a required tailer lags by more than `max_lag` and `lag_timeout` expires.

    Nothing was appended. Append again after the tailer has caught up, or evict the tailer with
    `log.evict_tailer(name)` or `commitlog tailers LOG evict NAME`.

    Attributes
    ----------
    name : str or None
        The tailer's name.
    """

    name: str | None = None


class SegmentHeldError(_SystemError, TimeoutError, errno=codes.EBUSY):
    """Raised if views or tailers still hold a segment when the time to unmap it expires.

    Release the views and tailers that the message names.

    Attributes
    ----------
    holders : sequence of (str, float)
        The name of each holder, and since when in seconds since the epoch.
    """

    holders: Sequence[tuple[str, float]] = ()


# --- a `TransientStorePool` -----------------------------------------------------------------------


class PoolExhaustedError(_SystemError, TimeoutError, errno=codes.ETIMEDOUT):
    """Raised if no buffer of the pool becomes free in time.

    Give the pool more buffers or a longer timeout, or use `on_exhausted="grow"` or `"mapped"`.
    """


class PoolMemoryError(CommitLogError, MemoryError):
    """Raised if the pool exceeds the free memory or a limit: the cgroup's, or with
    `lock_memory="require"` that of locked memory.

    Use fewer or smaller buffers, or raise the limit that the message names.

    Attributes
    ----------
    wanted, available : int or None
        The size of the pool, and the memory that was available, in bytes.
    """

    wanted: int | None = None
    available: int | None = None


class PoolBufferError(CommitLogError, ValueError):
    """Raised if a pool is closed while logs use its buffers. The pool stays open.

    Close the logs first.
    """
