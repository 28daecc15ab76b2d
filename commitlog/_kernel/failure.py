"""Translate the kernel's codes into commitlog's errors."""

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
    FencedError,
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
from commitlog.errors.advice import with_advice

# Fails a log, because a copy of it was promoted; no system call has this cause.
REPLACED = codes.EKEYREVOKED

# As in base.h; a test compares the two.
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
IRREGULAR, GROW, MOVED, CONFLICT, UNCOUNTED, UNRESOLVED = range(-25, -31, -1)

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
        "there is no segment for this position: it was deleted, or never written",
    ),
    TRUNCATED: (
        CorruptSegmentError,
        "the segment file is shorter than its header says: run `commitlog repair` on the log",
    ),
    HEADER: (
        CorruptSegmentError,
        "the segment's header is damaged: run `commitlog repair` on the log",
    ),
    IRREGULAR: (
        CorruptSegmentError,
        "this is not a regular file: run `commitlog repair` on the log, which moves it away",
    ),
    FOREIGN: (
        CorruptSegmentError,
        (
            "the segment's header names another log or another position: move the file back to its "
            "own log, or restore its file name"
        ),
    ),
    VERSION: (
        UnsupportedVersionError,
        "the segment has a newer format: read it with a newer commitlog",
    ),
    BUSY: (
        RolledBackError,
        (
            "other processes rolled back every attempt at this append: check for a stopped or "
            "overloaded process"
        ),
    ),
    DAMAGE: (
        CorruptRecordError,
        (
            "there is no whole frame here, or its CRC does not match: run `commitlog verify` on "
            "the log"
        ),
    ),
    ROLLED_BACK: (
        RolledBackError,
        "the claim was rolled back before it was published, so no reader saw it: append it again",
    ),
    TIMEOUT: (
        SyncTimeoutError,
        (
            "the record was not durable in time: it stays in the log and may still become durable; "
            "do not append it again"
        ),
    ),
    CLOSED: (ClosedError, "the log is closed: open it again"),
    MEMORY: (IOFailureError, "out of memory: free some, then try again"),
    SLOTS: (LogLockedError, "every writer slot of this log is taken: close some of its writers"),
    OPEN_CLAIM: (
        ClaimError,
        "this thread still has an open claim: leave its `with` block first",
    ),
    READ_ONLY: (ReadOnlyError, "the log was opened for reading: open it with mode 'a' to append"),
    FORKED: (
        ForkedError,
        "a pooled log belongs to the process that opened it: open the log again in this one",
    ),
}


def failure(
    code: int, errno: int = 0, *, path: str | None = None, position: int | None = None
) -> CommitLogError:
    """Return the error for a kernel code.

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
                f"no room left ({os.strerror(errno)}): free space, then append again",
                path=path,
                position=position,
                errno=errno,
            )
        return IOFailureError(
            f"a system call failed: {with_advice(os.strerror(errno), errno)}",
            path=path,
            position=position,
            errno=errno,
        )
    if code == FAILED and errno == REPLACED:
        return FencedError(
            "a copy of this log was promoted, or goes on with its store, so nothing more is "
            "appended or acknowledged here: stop the programs that append, and use that copy",
            path=path,
            position=position,
        )
    if code == FAILED:
        return LogFailedError(
            f"the log has failed ({os.strerror(errno)}): nothing more is acknowledged; fix the "
            "cause, then close the log and reopen it, which recovers it",
            path=path,
            position=position,
            errno=errno,
        )
    kind, sentence = _SENTENCES.get(code, (IOFailureError, f"unexpected kernel code {code}"))
    return kind(sentence, path=path, position=position)


def log_was_cut(path: str, position: int) -> FencedError:
    """Return the error of a handle whose log was cut at a fork; position 0: not known."""
    return FencedError(
        "the log was cut after this handle had opened it: records that it had are not those of the "
        "primary that it follows now, and were saved to `<segment>.fork`; open the log again",
        path=path,
        position=position or None,
    )
