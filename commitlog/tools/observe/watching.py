"""Snapshots of a log from its shared files, for `commitlog top`, `commitlog export-metrics` and
`commitlog.metrics`.
"""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import dataclass, replace
from typing import Literal, Self

import psutil

import commitlog
from commitlog import CommitLog, TailerState
from commitlog.base.path import path_of, translate_refusals
from commitlog.errors import CommitLogError
from commitlog.extension import view_of
from commitlog.stats import StoreStats

WriterState = Literal["dead", "stopped", "held up", "appending", "idle", "live"]
# If several apply, the first.
WRITER_STATES: tuple[WriterState, ...] = ("dead", "stopped", "held up", "appending", "idle", "live")


@dataclass(frozen=True)
class WriterFigures:
    """Describe a writable handle as other processes see it.

    Attributes
    ----------
    slot : int
        Its slot in `cursors`.
    pid : int
        The process id in its own pid namespace.
    name : str
        The name of the process, if known.
    since_ns : int
        The time at which it took the slot, in nanoseconds since 1970.
    state : str
        "dead": it was killed, and no writer has taken its slot since. "stopped": SIGSTOP or a
        debugger has stopped it. "held up": it has been between the first two steps of a claim
        since the previous snapshot. "appending", "idle": it has, or has not, claimed anything
        since the previous snapshot. "live": there is no previous snapshot. A claim that is open in
        a `with` block is normal, and no state shows it.
    flushing : bool
        Whether it leads a flush.
    claiming : bool
        Whether it is between the first two steps of a claim, which take nanoseconds.
    claims : int
        Claims made through the slot, those of earlier owners included; only differences are
        meaningful. Appends to a pooled log are not counted.
    rolled_back_claims : int
        Its claims that other handles rolled back.
    """

    slot: int
    pid: int
    name: str
    since_ns: int
    state: WriterState
    flushing: bool
    claiming: bool
    claims: int
    rolled_back_claims: int


@dataclass(frozen=True)
class LogFigures:
    """Hold a snapshot of a log; writers, readers and other processes see the same values.

    Attributes
    ----------
    kind : {"log", "archive", "segment"}
        What the snapshot describes. For an archive, or a segment file apart from its log, every
        watermark is its end, and it has no writers and no named tailers.
    path : str
        The log's directory, the archive, or the file.
    uuid : str
        The log's uuid.
    taken_ns : int
        The time of the snapshot on the monotonic clock.
    mode : {"mapped", "pooled"} or None
        How its writers have it open, or had it last; None if no writer has opened it since the
        machine started.
    recovering : bool
        Whether a process recovers the log, or was killed while it did.
    failed : str or None
        Why the log has failed.
    segment_size : int
        Bytes.
    first_position, tail_position, appended_position, committed_position, flushed_position : int
        The start of the oldest record, and the watermarks. In a pooled log, other processes see
        only what is committed.
    replicated_position, replication_lag_bytes : int or None
        The end of the records that enough copies have, as for `CommitLog.replicated_position`; and
        the bytes that the loss of this machine would lose now. None if no writer uses `replicate=`.
    replication_lag_ms : float or None
        The age of the oldest record that this loss would lose, by its timestamp.
    first_sequence, next_sequence : int or None
        The sequences of the oldest and of the next record; None if damage prevents counting.
    segments, disk_bytes : int
        Segment files, those ahead of need included, and what all files of the directory take on the
        disk; of an archive what its segments take, compressed.
    free_disk_bytes, disk_size_bytes : int or None
        Free bytes of the log's file system for this user, and its size. None for an archive or a
        single segment file.
    rolled_back_claims : int
        Claims of dead or too slow writers that were turned into SKIP, since `cursors` was made.
    writers : tuple of WriterFigures
        By slot.
    tailers : tuple of TailerState
        The named ones, by name.
    store : StoreStats or None
        How far the log is stored; None if it has no store.
    """

    kind: str
    path: str
    uuid: str
    taken_ns: int
    mode: Literal["mapped", "pooled"] | None
    recovering: bool
    failed: str | None
    segment_size: int
    first_position: int
    tail_position: int
    appended_position: int
    committed_position: int
    flushed_position: int
    replicated_position: int | None
    replication_lag_bytes: int | None
    replication_lag_ms: float | None
    first_sequence: int | None
    next_sequence: int | None
    segments: int
    disk_bytes: int
    free_disk_bytes: int | None
    disk_size_bytes: int | None
    rolled_back_claims: int
    writers: tuple[WriterFigures, ...]
    tailers: tuple[TailerState, ...]
    store: StoreStats | None

    @property
    def uncommitted_bytes(self) -> int:
        """Return the bytes between the committed watermark and the tail."""
        return max(0, self.tail_position - self.committed_position)

    @property
    def unflushed_bytes(self) -> int:
        """Return the bytes between the flushed watermark and the tail, which a power cut loses."""
        return max(0, self.tail_position - self.flushed_position)

    @property
    def replication_lag_seconds(self) -> float | None:
        """Return `replication_lag_ms` in seconds."""
        return None if self.replication_lag_ms is None else self.replication_lag_ms / 1e3

    def seconds_since(self, before: LogFigures) -> float:
        """Return the seconds since an earlier snapshot, to compute rates."""
        return (self.taken_ns - before.taken_ns) / 1e9


def look(log: CommitLog, before: LogFigures | None = None) -> LogFigures:
    """Take a snapshot of an open log.

    Parameters
    ----------
    log : CommitLog
        In any mode.
    before : LogFigures, optional
        The previous snapshot of the same log, to derive the states of the writers.

    Returns
    -------
    LogFigures

    Raises
    ------
    ClosedError
        The log is closed.
    """
    seen = view_of(log).snapshot()
    first_sequence, next_sequence = _sequences(log, seen.sequences)
    moved = before is None or seen.tail > before.tail_position
    writers = [
        WriterFigures(
            slot=writer.slot,
            pid=writer.pid,
            name=writer.name,
            since_ns=writer.since_ns,
            state=_life_of(writer.pid, alive=writer.alive, foreign=writer.foreign),
            flushing=writer.alive and seen.flush_leader == writer.slot,
            claiming=writer.counter % 2 == 1,
            claims=writer.counter // 2,
            rolled_back_claims=writer.rolled_back,
        )
        for writer in seen.writers
    ]
    return LogFigures(
        kind=seen.kind,
        path=log.path,
        uuid=str(uuid.UUID(bytes=log.identity.uuid)),
        taken_ns=time.monotonic_ns(),
        mode=seen.mode,
        recovering=seen.recovering,
        failed=seen.failed,
        segment_size=log.segment_size,
        first_position=seen.first,
        tail_position=seen.tail,
        appended_position=seen.appended,
        committed_position=seen.committed,
        flushed_position=seen.flushed,
        replicated_position=seen.lag.position,
        replication_lag_bytes=seen.lag.bytes,
        replication_lag_ms=seen.lag.ms,
        first_sequence=first_sequence,
        next_sequence=next_sequence,
        segments=len(seen.segment_numbers),
        disk_bytes=seen.disk_bytes,
        free_disk_bytes=seen.free_disk_bytes,
        disk_size_bytes=seen.disk_size_bytes,
        rolled_back_claims=seen.rolled_back_claims,
        writers=tuple(_with_state(writer, before, moved) for writer in writers),
        tailers=tuple(seen.tailers),
        store=seen.store,
    )


def _sequences(
    log: CommitLog, known: tuple[int, int] | tuple[None, None] | None
) -> tuple[int | None, int | None]:
    """Return the first and the next sequence. Seals hold the counts of most segments, so only the
    end of the log is scanned.
    """
    if known is not None:
        return known
    try:
        first = log.first_sequence
        return first, first + log.count()
    except CommitLogError:
        return None, None


def _life_of(pid: int, *, alive: bool, foreign: bool) -> WriterState:
    if not alive:
        return "dead"
    return "stopped" if not foreign and _is_stopped(pid) else "live"


def _with_state(writer: WriterFigures, before: LogFigures | None, moved: bool) -> WriterFigures:
    """Add what a living writer has done since the previous snapshot."""
    if before is None or writer.state != "live":
        return writer
    earlier = next((other for other in before.writers if other.slot == writer.slot), None)
    if earlier is None or earlier.since_ns != writer.since_ns:
        return writer
    claimed = writer.claims > earlier.claims
    if writer.claiming and earlier.claiming and not claimed:
        return replace(writer, state="held up")
    # A pooled log does not count claims in the slot, so the tail shows what its writer does.
    appended = moved if before.mode == "pooled" else claimed
    return replace(writer, state="appending" if appended else "idle")


def _is_stopped(pid: int) -> bool:
    try:
        return bool(
            psutil.Process(pid).status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
        )
    except psutil.Error:
        return False


class LogWatch:
    """Take snapshots of the log at a path, from any process; a context manager.

    It opens the log for reading. If another log takes the place of the first, the next snapshot is
    of that one.

    Parameters
    ----------
    path : str or path-like
        The directory of a log, which need not exist yet; or an archive or a segment file, which
        each snapshot opens again.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path_of(path)
        self._log: CommitLog | None = None
        self._before: LogFigures | None = None

    def look(self) -> LogFigures:
        """Take a snapshot.

        Raises
        ------
        LogNotFoundError, NotALogError
            There is no log at the path.
        CommitLogError
            The log cannot be opened, or is damaged.
        """
        with translate_refusals(self.path):
            if self._log is not None and not self._is_there(self._log):
                self.close()
        if self._log is None:
            self._log = commitlog.open(self.path, "r")
        self._before = look(self._log, self._before)
        return self._before

    def _is_there(self, log: CommitLog) -> bool:
        """Return whether the path still leads to the log that is open, and not to another one or
        to none.
        """
        view = view_of(log)
        # An open archive or segment file does not change.
        return view.grows and view.is_at(self.path)

    def close(self) -> None:
        """Close the log; idempotent."""
        if self._log is not None:
            self._log.close()
        self._log = self._before = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
