"""What a log can tell about itself, as numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class LogStats:
    """A moment's figures of one open log. Counters count what this handle did since it was opened.

    Attributes
    ----------
    tail_position, appended_position, committed_position, flushed_position : int
        The watermarks.
    uncommitted_bytes, unflushed_bytes : int
        What a kill of this process (anonymous buffers) and a power cut would take back now.
    appends, records, appended_bytes : int
        Claims published (a batch is one), records in them, bytes of their frames.
    refused_claims, rolled_back_claims : int
        Claims of this handle that others rolled back; claims that this handle rolled back.
    rolls : int
        Segments that this handle moved the tail on from.
    commits, committed_bytes, commit_seconds
        Rounds of the commit service, what they copied, and how long they took together.
    flushes, flushed_bytes, flush_seconds, longest_flush_seconds
        The same for flushes led by this handle.
    syncs : int
        Appends that waited for the disk.
    failed : str or None
        Why the log has failed.
    pool : object or None
        The pool's own figures, `PoolStats`.
    """

    tail_position: int
    appended_position: int
    committed_position: int
    flushed_position: int
    uncommitted_bytes: int
    unflushed_bytes: int
    appends: int
    records: int
    appended_bytes: int
    refused_claims: int
    rolled_back_claims: int
    rolls: int
    commits: int
    committed_bytes: int
    commit_seconds: float
    flushes: int
    flushed_bytes: int
    flush_seconds: float
    longest_flush_seconds: float
    syncs: int
    failed: str | None
    pool: Any = None
