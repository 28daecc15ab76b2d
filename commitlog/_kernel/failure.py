"""Turns the kernel's codes into the errors that people see: one place for all of them."""

from __future__ import annotations

import errno as codes
import os

from commitlog.errors import (
    ClaimError,
    ClosedError,
    CommitLogError,
    CorruptRecordError,
    CorruptSegmentError,
    DiskFullError,
    ForkedError,
    IOFailureError,
    LogFailedError,
    LogLockedError,
    PositionError,
    ReadOnlyError,
    RecordTooLargeError,
    RolledBackError,
    SyncTimeoutError,
    UnsupportedVersionError,
)

# As in base.h; tests hold the two against each other.
SYSTEM, TOO_LARGE, ROLL, ABSENT, TRUNCATED, HEADER, FOREIGN, VERSION, END, BUSY = range(-1, -11, -1)
(
    DAMAGE,
    ROLLED_BACK,
    FAILED,
    TIMEOUT,
    CLOSED,
    INTERRUPTED,
    MEMORY,
    SLOTS,
    OPEN_CLAIM,
    FULL,
    READ_ONLY,
    FORKED,
    CYCLE,
    LAG,
) = range(-11, -25, -1)
IRREGULAR, GROW = -25, -26

_SENTENCES: dict[int, tuple[type[CommitLogError], str]] = {
    TOO_LARGE: (
        RecordTooLargeError,
        (
            "the record is larger than this log's largest frame; split it, or create the log with "
            "larger segments"
        ),
    ),
    ABSENT: (
        PositionError,
        "there is no segment for this position; it was deleted, or never written",
    ),
    TRUNCATED: (
        CorruptSegmentError,
        "the segment file is shorter than it says; run `commitlog repair` on the log",
    ),
    HEADER: (
        CorruptSegmentError,
        "the segment's header is damaged; run `commitlog repair` on the log",
    ),
    IRREGULAR: (
        CorruptSegmentError,
        "this is not a regular file; run `commitlog repair` on the log, which moves it away",
    ),
    FOREIGN: (
        CorruptSegmentError,
        "the segment belongs to another log or another place; take the file out of this directory",
    ),
    VERSION: (
        UnsupportedVersionError,
        "the segment was written by a newer format; read it with a newer commitlog",
    ),
    BUSY: (
        RolledBackError,
        (
            "other processes rolled this append back each time it was tried; look for a stopped or "
            "overloaded machine"
        ),
    ),
    DAMAGE: (
        CorruptRecordError,
        (
            "what stands here is not a whole frame, or its CRC does not match; run `commitlog "
            "verify` on the log"
        ),
    ),
    ROLLED_BACK: (
        RolledBackError,
        "the claim was rolled back before it was published, and nobody saw it; append it again",
    ),
    TIMEOUT: (
        SyncTimeoutError,
        (
            "the record was not made durable in time; it stays in the log, may be durable already, "
            "and need not be appended again"
        ),
    ),
    CLOSED: (ClosedError, "the log is closed; open it again"),
    MEMORY: (IOFailureError, "out of memory"),
    SLOTS: (LogLockedError, "every writer slot of this log is taken; close some of its writers"),
    OPEN_CLAIM: (
        ClaimError,
        "this thread's own claim is still open below; leave its `with` block first",
    ),
    READ_ONLY: (ReadOnlyError, "the log was opened for reading; open it with mode 'a' to append"),
    FORKED: (
        ForkedError,
        "a pooled log belongs to the process that opened it; open the log again in this one",
    ),
}


def failure(
    code: int, errno: int = 0, *, path: str | None = None, position: int | None = None
) -> CommitLogError:
    """The error for a kernel code.

    Parameters
    ----------
    code : int
        A negative `cl_code`.
    errno : int
        The system's cause, for codes that have one.
    path : str, optional
        The file or log that the call was about.
    position : int, optional
        The position that the call was about.
    """
    if code == SYSTEM:
        if errno in (codes.ENOSPC, codes.EDQUOT):
            return DiskFullError(
                f"no room left: {os.strerror(errno)}; free space and append again",
                path=path,
                position=position,
                errno=errno,
            )
        return IOFailureError(
            f"the system refused: {os.strerror(errno)}", path=path, position=position, errno=errno
        )
    if code == FAILED:
        return LogFailedError(
            f"the log has failed ({os.strerror(errno)}): nothing more is acknowledged; "
            "close it, mend the cause, and open it again, which recovers what is safe",
            path=path,
            position=position,
            errno=errno,
        )
    kind, sentence = _SENTENCES.get(code, (IOFailureError, f"unexpected kernel code {code}"))
    return kind(sentence, path=path, position=position)
